// The parts of a partitioned source graph, as graphs of a GraphSchema.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_GRAPHS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/made_dataset.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/sampling/sampled_schema.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/new_ids.h"

namespace packhouse {

struct PartGraphsOptions {
  // Whether a part has copies of the nodes of other parts at which its edges begin. Otherwise these
  // edges are in `E/cut` (PartSets::EdgeSet).
  bool halo = false;
  // Numbers of nodes and edges always travel.
  bool features = true;
  bool ids = false;
};

// Graph p is part p. Its nodes have the order of their numbers, the halo's behind them; its edges
// that of their targets, then of their numbers. Thread-compatible.
class PartGraphs {
 public:
  // `part` has a number below `num_parts` for each homogeneous node (homogeneous_graph.h); it is
  // not used afterwards.
  //
  // INVALID_ARGUMENT as HomogeneousGraph and SampledSchema, and without a halo for edges with rows
  // of different lengths. FAILED_PRECONDITION for a graph without edges by their targets.
  // RESOURCE_EXHAUSTED and CANCELLED as `making`: 12 bytes a node, and 8 for each edge type that
  // ends at it.
  static absl::StatusOr<std::unique_ptr<PartGraphs>> Create(
      std::shared_ptr<const SourceGraph> graph, absl::Span<const uint32_t> part, uint32_t num_parts,
      const PartGraphsOptions& options, const Making& making);

  uint32_t num_parts() const { return ids_->num_parts(); }
  const SampledSchema& sampled_schema() const { return *schema_; }

  // The structure of a part below num_parts(). O(its nodes and edges).
  void Gather(uint32_t part, SampledGraph& result);
  // The most bytes that Gather() allocates in a new result. O(the part's own nodes).
  uint64_t GatherBytes(uint32_t part) const;

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  PartGraphs(std::shared_ptr<const SourceGraph> source, HomogeneousGraph graph)
      : source_(std::move(source)), graph_(std::move(graph)) {}

  PartSets Sets(bool inner_marks) const;
  void GatherNodes(uint32_t part, SampledGraph& result);
  void GatherHalo(SampledGraph& result);
  void GatherEdges(size_t edge_type, SampledGraph& result);

  const std::shared_ptr<const SourceGraph> source_;
  const HomogeneousGraph graph_;
  MemoryHold memory_;
  bool halo_ = false;
  std::unique_ptr<const NewIds> ids_;
  std::unique_ptr<const SampledSchema> schema_;
  // By original homogeneous id: the place in the part. All are kAbsent between calls.
  std::vector<uint32_t> local_;
};

// Makes the parts a data set, as MakeDataset(). The result depends on the graph, the parts and the
// options alone.
absl::StatusOr<DatasetInfo> MakePartDataset(PartGraphs& parts, const MadeDatasetRequest& request,
                                            DatasetStore& store, const Making& making,
                                            absl::FunctionRef<void(uint64_t num_graphs)> progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_GRAPHS_H_
