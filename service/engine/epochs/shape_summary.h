// Last step of a plan: the efficiency of its batches.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHAPE_SUMMARY_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHAPE_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/plan.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// Batches of one shape.
struct ShapeSummary {
  uint64_t num_batches = 0;
  // Real rows of all batches, by component, `graphs` last.
  std::vector<uint64_t> rows;
  // `graphs` last.
  std::vector<ComponentEfficiency> components;

  // By the batches, their rows, the capacities and the fullest packs.
  void SetEfficiencies();
};

struct EpochFigures {
  // By rank group, as EpochShapes.
  std::vector<std::vector<ShapeSummary>> shapes;
  // Graphs in all batches.
  uint64_t num_graphs = 0;
};

// The figures of the batches of a plan's patterns, each in the last shape that takes it.
// `tuples` are row-major, as SizeClasses::tuples().
//
// INVALID_ARGUMENT if a batch without padding would have more bytes than `max_batch_bytes`, if
// given; without it, batches have sizes only. CANCELLED as `making`. O(entries).
absl::StatusOr<EpochFigures> FiguresOfPatterns(
    const EpochShapes& shapes, absl::Span<const uint32_t> tuples, size_t num_components,
    absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
    std::optional<uint64_t> max_batch_bytes, const Making& making);

// The same for batches whose items are known. O(items).
absl::StatusOr<EpochFigures> FiguresOfBatches(const EpochShapes& shapes, const ItemSizes& sizes,
                                              const EpochBatches& batches,
                                              std::optional<uint64_t> max_batch_bytes,
                                              const Making& making);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHAPE_SUMMARY_H_
