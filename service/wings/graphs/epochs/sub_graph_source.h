// Sub-graphs of one source graph by one spec, as graphs of a GraphSchema: what the three ways out
// (streams, data sets, epochs) have in common.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SUB_GRAPH_SOURCE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SUB_GRAPH_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/sampling_observer.h"
#include "service/wings/graphs/sampling/sampled_chunk.h"
#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/sampling/sampled_schema.h"
#include "service/wings/graphs/sampling/sampler.h"
#include "service/wings/graphs/sampling/sampling_plan.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/tfgnn/sampling_spec.h"

namespace packhouse {

struct SubGraphsRequest {
  static constexpr uint32_t kMaxSeedsPerGraph = 65536;

  // The name of the source graph.
  std::string graph;
  tfgnn::SamplingSpec spec;
  SamplingOptions options;
  SampledPayload payload;
  // Seeds that share a sub-graph; links count once.
  uint32_t seeds_per_graph = 1;

  // What decides the sub-graphs besides graph, seed and epoch, as a text for people. It is the same
  // for two requests if and only if they mean the same. The spec is in it as a hash.
  std::string Words() const;
};

// Which nodes are seeds. Immutable.
struct SeedList {
  // Numbers of nodes of the seeds' set; for links source, target, source, ... Null: all nodes.
  std::shared_ptr<const std::vector<uint32_t>> nodes;
  // Which time each seed (or link) comes, from 0, as DrawRequest::occurrences. Empty: all for the
  // first time.
  std::vector<uint32_t> occurrences;
  // One for each sub-graph, or empty.
  std::vector<int64_t> times;
  // For each of the plan's columns of `_readout`: the rows of all seeds (or links). May be null.
  std::shared_ptr<const std::vector<std::string>> readout;
};

// Immutable; thread-safe.
class SubGraphSource {
 public:
  // The most nodes and edges of a sub-graph.
  static constexpr uint64_t kMaxRows = uint64_t{1} << 22;

  // Errors as SamplingPlan, Sampler and SampledSchema. INVALID_ARGUMENT for seeds_per_graph above
  // its bound.
  static absl::StatusOr<std::shared_ptr<const SubGraphSource>> Create(
      std::shared_ptr<const SourceGraph> graph, SubGraphsRequest request);

  const SubGraphsRequest& request() const { return request_; }
  const SourceGraph& graph() const { return *graph_; }
  // The number of the node set of seeds, or of one end of links, in the source graph.
  size_t seed_node_set(size_t end = 0) const;
  // How many numbers of nodes make a sub-graph: its seeds, or the ends of its links.
  size_t nodes_per_graph() const {
    return size_t{request_.seeds_per_graph} * sampler_.plan().seeds_per_row();
  }
  // Of the schema of sub-graphs.
  const GraphSchema& schema() const { return schema_.schema(); }
  std::shared_ptr<const GraphSchema> shared_schema() const { return schema_.shared_schema(); }
  const SampledSchema& sampled_schema() const { return schema_; }
  const Sampler& sampler() const { return sampler_; }

  // INVALID_ARGUMENT for nodes that do not make whole links, another number of times than
  // sub-graphs or of occurrences than seeds, or features of `_readout` that are not those of the
  // plan or have another number of rows than seeds; OUT_OF_RANGE naming a seed that is no node. For
  // all nodes, INVALID_ARGUMENT if the seeds are links. O(seeds).
  absl::Status CheckSeeds(const SeedList& seeds) const;
  // For a checked list whose sub-graphs get their features: INVALID_ARGUMENT if those of `_readout`
  // are missing.
  absl::Status CheckHasReadout(const SeedList& seeds) const;
  // Seeds (or links) of a checked list, and the sub-graphs that they make.
  uint64_t NumSeeds(const SeedList& seeds) const;
  uint64_t NumGraphs(const SeedList& seeds) const {
    return (NumSeeds(seeds) + request_.seeds_per_graph - 1) / request_.seeds_per_graph;
  }

 private:
  SubGraphSource(std::shared_ptr<const SourceGraph> graph, SubGraphsRequest request,
                 Sampler sampler, SampledSchema schema)
      : graph_(std::move(graph)),
        request_(std::move(request)),
        sampler_(std::move(sampler)),
        schema_(std::move(schema)) {}

  const std::shared_ptr<const SourceGraph> graph_;
  const SubGraphsRequest request_;
  const Sampler sampler_;
  const SampledSchema schema_;
};

// Draws one sub-graph after another. Thread-compatible.
class SubGraphDrawer {
 public:
  // The memory of the largest draw is reserved; the pointees must outlive the drawer, and may be
  // null. RESOURCE_EXHAUSTED as MemoryBudget.
  static absl::StatusOr<SubGraphDrawer> Create(std::shared_ptr<const SubGraphSource> source,
                                               MemoryBudget* memory, SamplingObserver* observer);

  const SubGraphSource& source() const { return *source_; }

  struct Draw {
    uint64_t seed_number = 0;
    uint64_t epoch = 0;
    absl::Span<const uint32_t> seeds;
    absl::Span<const uint32_t> occurrences;
    std::optional<int64_t> time;
    // The most rows of each component; empty: none. A sub-graph beyond them is drawn smaller.
    absl::Span<const uint32_t> limits;
    // At which level to begin, for a sub-graph that was drawn before.
    uint32_t level = 0;
    // Without it the sub-graph cannot be appended to a chunk with columns of edges.
    bool edge_numbers = true;
  };
  // Errors as SampledSchema::DrawWithin.
  absl::Status Next(const Draw& draw);

  // Of the last one.
  const std::vector<uint32_t>& tuple() const { return tuple_; }
  uint32_t level() const { return sampled_.level; }
  uint64_t num_rows() const { return sampled_.num_nodes() + sampled_.num_edges(); }
  uint64_t num_bytes() const { return source_->sampled_schema().Bytes(tuple_); }
  // `readout`: the rows of its seeds.
  absl::Status AppendTo(SampledChunk& chunk, ReadoutRows readout) const {
    return chunk.Append(sampled_, readout);
  }

 private:
  explicit SubGraphDrawer(std::shared_ptr<const SubGraphSource> source)
      : source_(std::move(source)) {}

  std::shared_ptr<const SubGraphSource> source_;
  MemoryHold memory_;
  SamplingObserver* observer_ = nullptr;
  SamplerScratch scratch_;
  SampledGraph sampled_;
  std::vector<uint32_t> tuple_;
};

// The features of `_readout` of one sub-graph after another. Thread-compatible.
class SeedReadout {
 public:
  // The rows of these seeds of a checked list, which must outlive them. O(bytes).
  ReadoutRows Gather(const SubGraphSource& source, const SeedList& seeds,
                     absl::Span<const uint64_t> rows);
  // The same for seeds one after the other.
  ReadoutRows Gather(const SubGraphSource& source, const SeedList& seeds, uint64_t begin,
                     uint64_t end);

 private:
  std::vector<std::string> gathered_;
  std::vector<absl::string_view> views_;
};

// The same graphs with these ids. INVALID_ARGUMENT for an id that occurs twice, unless it may.
// O(graphs).
absl::StatusOr<GraphChunk> WithGraphIds(GraphChunk chunk, std::vector<uint64_t> ids,
                                        bool may_repeat = false);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SUB_GRAPH_SOURCE_H_
