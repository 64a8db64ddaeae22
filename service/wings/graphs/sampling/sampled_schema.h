// Sub-graphs as graphs of a GraphSchema.
//
// Names are TF-GNN's (service/wings/tfgnn/graph_sets.h): components are the node sets, then the
// edge sets, each in the order of their names, then those of ragged features; a feature F of the
// set S is the tensor `S.F`, text `S.F.bytes`, the ends of edges are `S.source` and `S.target`
// (`S.#source`, `S.#target` where S has a feature of one of these names). `_readout` is a node set
// like others.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_SCHEMA_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/sampling/sampler.h"

namespace packhouse {

// What of nodes and edges travels with a sub-graph. Ends of edges and `_readout` always do.
struct SampledPayload {
  // Their features.
  bool features = true;
  // `S.#number`, int64: the number of each node and edge in the source graph. Features can stay
  // with the client, who looks them up by it.
  bool numbers = false;
  // `S.#row`, int64: the row that each node and edge was where it came from (ImportedRows).
  bool rows = false;
  // `S.#id` of node sets: int64, or text as `S.#id.bytes`. Not for sets that have a feature `#id`.
  bool ids = false;
};

// The sets of graphs that are parts of a source graph.
struct PartSets {
  struct EdgeSet {
    size_t edge_set = 0;  // Its number in the source graph's schema.
    // Positions in node_sets.
    size_t source = 0;
    size_t target = 0;
    // Edges that come from other parts: the set is called `E/cut`, and its sources are the numbers
    // of nodes in the source graph, the tensor `E/cut.#source`.
    bool cut = false;
  };
  // Numbers in the source graph's schema.
  std::vector<size_t> node_sets;
  std::vector<EdgeSet> edge_sets;
  // Whether node sets have `S.#inner`, bool: SampledNodes::num_inner.
  bool inner_marks = false;
};

struct SampledTensors;
struct SchemaSets;

// The rows of `_readout` of one sub-graph, as SamplingPlan::readout_columns() has them.
using ReadoutRows = absl::Span<const absl::string_view>;

// Immutable; thread-safe.
class SampledSchema {
 public:
  // `graph` must outlive this.
  // INVALID_ARGUMENT naming the tensor, the component or the number, for a name that a schema
  // cannot have, names that clash, too many components or tensors (GraphSchema::Create).
  static absl::StatusOr<SampledSchema> Create(const SamplingPlan& plan, const SourceGraph& graph,
                                              SampledPayload payload);

  // The same for graphs with these sets; SampledGraph's sets are then as `sets` has them.
  static absl::StatusOr<SampledSchema> CreateForParts(const PartSets& sets,
                                                      const SourceGraph& graph,
                                                      SampledPayload payload);

  const GraphSchema& schema() const { return *schema_; }
  std::shared_ptr<const GraphSchema> shared_schema() const { return schema_; }
  const SampledPayload& payload() const { return payload_; }

  // Whether Sizes() and SampledChunk::Append() need draws with edge numbers: there are features or
  // numbers of edges.
  bool needs_edge_numbers() const;

  // The size tuple, without `graphs`: one count a component. O(sets), and O(rows) of sets that have
  // ragged columns. OUT_OF_RANGE naming the component if a count exceeds 2^31 - 1. INVALID_ARGUMENT
  // for a draw without edge numbers, if an edge set has ragged columns.
  absl::Status Sizes(const SampledGraph& sampled, std::vector<uint32_t>& tuple) const;

  // Draws, at the first level from request.level on at which the sub-graph's whole tuple is within
  // `limits`, one count a component (0 is a limit; empty: none), so also ragged features are.
  // request.limits is not used. Draws edge numbers if Sizes() needs them, even if not asked for.
  // Errors as Sampler::Draw; OUT_OF_RANGE naming the component if the
  // seeds alone do not fit.
  absl::Status DrawWithin(const Sampler& sampler, const DrawRequest& request,
                          absl::Span<const uint32_t> limits, SamplerScratch& scratch,
                          SampledGraph& result, std::vector<uint32_t>& tuple) const;

  // Bytes of all tensors of a graph of this size.
  uint64_t Bytes(absl::Span<const uint32_t> tuple) const;

 private:
  friend class SampledChunk;

  static absl::StatusOr<SampledSchema> CreateOf(const SchemaSets& sets, const SourceGraph& graph,
                                                SampledPayload payload);

  SampledSchema() = default;

  // Of a sub-graph drawn with edge numbers, if any are needed.
  absl::Status CheckEdgeNumbers(const SampledGraph& sampled) const;

  std::shared_ptr<const GraphSchema> schema_;
  SampledPayload payload_;
  std::shared_ptr<const SampledTensors> tensors_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_SCHEMA_H_
