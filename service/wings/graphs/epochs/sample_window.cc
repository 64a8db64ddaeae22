#include "service/wings/graphs/epochs/sample_window.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

SubGraphReader::SubGraphReader(size_t num_graphs, std::shared_ptr<const GraphSchema> schema,
                               std::vector<uint32_t> counts)
    : histogram_(schema->num_components()), counts_(std::move(counts)), ids_(num_graphs) {
  std::iota(ids_.begin(), ids_.end(), uint64_t{0});
  info_.name = "sub-graphs";
  info_.schema = std::move(schema);
  info_.state = DatasetState::kSealed;
  info_.num_graphs = num_graphs;
}

SubGraphReader::SubGraphReader(std::shared_ptr<const GraphSchema> schema, GraphChunk graphs,
                               MemoryHold memory)
    : SubGraphReader(graphs.num_graphs(), std::move(schema), {}) {
  for (size_t i = 0; i < graphs.num_graphs(); ++i) {
    const auto tuple = graphs.sizes().tuple(i);
    counts_.insert(counts_.end(), tuple.begin(), tuple.end());
    ids_[i] = graphs.sizes().graph_id(i);
  }
  memory_ = std::move(memory);
  graphs_ = std::move(graphs);
}

absl::StatusOr<StoredGraph> SubGraphReader::Graph(size_t i) const {
  if (!graphs_) return absl::UnimplementedError("sub-graphs of a window have sizes alone");
  return StoredGraph{&*graphs_, i};
}

uint32_t SampleWindow::LevelOf(uint32_t item) const {
  const auto found = std::lower_bound(levels.begin(), levels.end(), std::pair(item, uint32_t{0}));
  return found == levels.end() || found->first != item ? 0 : found->second;
}

absl::StatusOr<SampleWindow> PlanWindow(
    size_t num_items, std::shared_ptr<const GraphSchema> schema, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making,
    absl::FunctionRef<absl::StatusOr<DrawnSize>(size_t item)> draw) {
  using Level = std::pair<uint32_t, uint32_t>;
  const size_t num_components = schema->num_components();
  SampleWindow window;
  const std::string what = absl::StrCat("a window of ", num_items, " sub-graphs");
  PH_ASSIGN_OR_RETURN(const MemoryHold of_sizes,
                      making.Hold(what, SubGraphReader::BytesFor(num_items, num_components)));
  PH_ASSIGN_OR_RETURN(window.memory, making.Hold(what, 2 * sizeof(Level) * num_items));
  std::vector<uint32_t> counts;
  counts.reserve(num_items * num_components);
  for (size_t i = 0; i < num_items; ++i) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_ASSIGN_OR_RETURN(const DrawnSize size, draw(i));
    counts.insert(counts.end(), size.tuple.begin(), size.tuple.end());
    if (size.level != 0) window.levels.emplace_back(static_cast<uint32_t>(i), size.level);
  }
  PH_ASSIGN_OR_RETURN(const auto plan,
                      EpochPlan::Make(std::make_shared<const SubGraphReader>(
                                          num_items, std::move(schema), std::move(counts)),
                                      request, bounds, making));
  PH_ASSIGN_OR_RETURN(window.drawn, plan->Drawn({request.seed, request.key.epoch}, making));
  window.levels.shrink_to_fit();
  window.memory.ShrinkTo(window.levels.capacity() * sizeof(Level));
  return window;
}

}  // namespace packhouse
