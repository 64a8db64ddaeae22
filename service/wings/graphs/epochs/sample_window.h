// A window of an epoch of sub-graphs: drawn for its sizes, and planned as the epoch of a data set
// that has these sub-graphs (epoch_plan.h).
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLE_WINDOW_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLE_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// What a window needs to know of a sub-graph.
struct DrawnSize {
  absl::Span<const uint32_t> tuple;
  // 0: as the spec says; above: drawn smaller.
  uint32_t level = 0;
};

// Immutable.
struct SampleWindow {
  MemoryHold memory;
  // Items are numbered from 0 within the window.
  std::shared_ptr<const DrawnEpoch> drawn;
  // Items that were drawn smaller, ascending, and their levels.
  std::vector<std::pair<uint32_t, uint32_t>> levels;

  const EpochBatches& batches() const { return *drawn->batches; }
  // 0 for an item that is not in `levels`. O(log).
  uint32_t LevelOf(uint32_t item) const;
};

// Sub-graphs as a data set: of a window their sizes, of a batch with its rows.
class SubGraphReader final : public DatasetReader {
 public:
  // Without memory of its own: 8 bytes besides the counts of each.
  static uint64_t BytesFor(size_t num_graphs, size_t num_components) {
    return num_graphs * (sizeof(uint32_t) * num_components + sizeof(uint64_t));
  }

  // Numbered from 0. Graph() is UNIMPLEMENTED.
  SubGraphReader(size_t num_graphs, std::shared_ptr<const GraphSchema> schema,
                 std::vector<uint32_t> counts);
  // With their ids; holds `memory`.
  SubGraphReader(std::shared_ptr<const GraphSchema> schema, GraphChunk graphs, MemoryHold memory);

  const DatasetInfo& info() const override { return info_; }
  // Empty.
  const SizeHistogram& histogram() const override { return histogram_; }
  absl::Span<const uint32_t> counts() const override { return counts_; }
  absl::Span<const uint64_t> graph_ids() const override { return ids_; }
  absl::Span<const uint64_t> group_ids() const override { return {}; }
  absl::Span<const DamagedRecord> unreadable() const override { return {}; }
  absl::StatusOr<StoredGraph> Graph(size_t i) const override;

 private:
  const SizeHistogram histogram_;
  DatasetInfo info_;
  std::vector<uint32_t> counts_;
  std::vector<uint64_t> ids_;
  MemoryHold memory_;
  std::optional<GraphChunk> graphs_;
};

// Plans `num_items` sub-graphs, at least one, as EpochPlan::Make() and EpochPlan::Drawn() do a data
// set's graphs. `draw` gives the size of each, in order; it is valid until the next one. The key
// and the seed of `request` are the window's own; it has neither kinds nor a subset or a draw, and
// names no tensor. Depends on the sizes and the request alone.
//
// Errors of `draw` and as EpochPlan; RESOURCE_EXHAUSTED and CANCELLED as `making`. Cost: the draws,
// and the planner's budget (plan_optimizer.h).
absl::StatusOr<SampleWindow> PlanWindow(
    size_t num_items, std::shared_ptr<const GraphSchema> schema, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making,
    absl::FunctionRef<absl::StatusOr<DrawnSize>(size_t item)> draw);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLE_WINDOW_H_
