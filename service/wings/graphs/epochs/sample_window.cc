#include "service/wings/graphs/epochs/sample_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/fresh_batches.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/mixing.h"
#include "service/engine/epochs/pattern_planning.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/epochs/score_order.h"
#include "service/engine/epochs/size_classes.h"

namespace packhouse {
namespace {

// Drawn anew in each epoch, and ordered.
absl::StatusOr<EpochBatches> DrawBatches(const ItemSizes& sizes, const EpochRequest& request,
                                         const EpochShapes& shapes, uint64_t max_batch_bytes,
                                         const Making& making, std::optional<StepFigures>& steps) {
  const EpochSeed seed = {request.seed, request.key.epoch};
  const ShapeLimits limits = shapes.Packed();
  PH_ASSIGN_OR_RETURN(const SizeClasses classes, SizeClasses::Create(sizes, std::nullopt, making));
  PlannerResult result;
  PH_ASSIGN_OR_RETURN(const MemoryHold planned,
                      PlanPatterns(classes, limits, {1}, std::nullopt, making, result));
  const auto mixing = MixingFor(request, shapes, max_batch_bytes);
  PH_ASSIGN_OR_RETURN(EpochBatches batches,
                      mixing ? DrawFreshEpoch(classes, result.patterns, sizes, limits, seed,
                                              std::nullopt, making, *mixing)
                             : DrawEpoch(classes, result.patterns, seed, std::nullopt, making));
  if (request.cost_balanced) {
    const auto add = [&](uint32_t item, absl::Span<uint64_t> rows, absl::Span<uint64_t> squares) {
      AddGraph(sizes.tuple(item), rows, squares);
    };
    const CostOrder order(request);
    PH_RETURN_IF_ERROR(order.Order(shapes, add, seed, making, batches));
    PH_ASSIGN_OR_RETURN(steps, order.Figures(shapes, add, seed, making, batches));
  }
  if (request.by_score) {
    PH_ASSIGN_OR_RETURN(const ScoreOrder order,
                        ScoreOrder::OfSizes(*request.by_score, sizes, making));
    PH_RETURN_IF_ERROR(order.Order(classes, seed, making, batches));
  }
  return batches;
}

}  // namespace

uint32_t SampleWindow::LevelOf(uint32_t item) const {
  const auto found = std::lower_bound(levels.begin(), levels.end(), std::pair(item, uint32_t{0}));
  return found == levels.end() || found->first != item ? 0 : found->second;
}

absl::StatusOr<SampleWindow> PlanWindow(
    size_t num_items, const SizeSchema& components, const EpochRequest& request,
    const EpochShapes& shapes, uint64_t max_batch_bytes, const Making& making,
    absl::FunctionRef<absl::StatusOr<DrawnSize>(size_t item)> draw) {
  const Limits& limits = shapes.rank_group(0)[0].packed;
  const size_t num_components = components.num_components();
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      making.Hold(absl::StrCat("a window of ", num_items, " sub-graphs"),
                                  num_items * (sizeof(uint32_t) * num_components +
                                               2 * sizeof(std::pair<uint32_t, uint32_t>))));
  std::vector<uint32_t> counts;
  counts.reserve(num_items * num_components);
  std::vector<std::pair<uint32_t, uint32_t>> levels;
  for (size_t i = 0; i < num_items; ++i) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_ASSIGN_OR_RETURN(const DrawnSize size, draw(i));
    for (size_t k = 0; k < num_components; ++k) {
      if (!limits.has_limit(k) || size.tuple[k] <= limits.capacity(k)) continue;
      return absl::OutOfRangeError(absl::StrCat("has ", size.tuple[k], " rows of '",
                                                components.name(k), "', a batch takes at most ",
                                                limits.capacity(k)));
    }
    counts.insert(counts.end(), size.tuple.begin(), size.tuple.end());
    if (size.level != 0) levels.emplace_back(static_cast<uint32_t>(i), size.level);
  }
  PH_ASSIGN_OR_RETURN(const ItemSizes sizes, ItemSizes::Create(num_items, num_components, counts));
  std::optional<StepFigures> steps;
  PH_ASSIGN_OR_RETURN(EpochBatches batches,
                      request.in_order
                          ? PackInOrder(sizes, std::nullopt, limits, request.look_ahead, making)
                          : DrawBatches(sizes, request, shapes, max_batch_bytes, making, steps));
  levels.shrink_to_fit();
  memory.ShrinkTo(levels.capacity() * sizeof(levels[0]));
  return SampleWindow{std::move(memory), std::move(batches), std::move(levels), std::move(steps)};
}

}  // namespace packhouse
