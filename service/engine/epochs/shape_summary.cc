#include "service/engine/epochs/shape_summary.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Counts batches one after another.
class BatchTally {
 public:
  // `shapes` must outlive it.
  BatchTally(const EpochShapes& shapes, std::optional<uint64_t> max_batch_bytes)
      : shapes_(shapes), max_batch_bytes_(max_batch_bytes) {
    for (size_t rank_group = 0; rank_group < shapes.num_rank_groups(); ++rank_group) {
      figures_.shapes.emplace_back();
      for (const BatchShape& shape : shapes.rank_group(rank_group)) {
        ShapeSummary& summary = figures_.shapes.back().emplace_back();
        for (const uint64_t capacity : shape.capacities) {
          summary.components.push_back({capacity, 0, 0, 0});
        }
        summary.rows.resize(shape.capacities.size());
      }
    }
  }

  // A batch of items whose packed sizes have these sums, `repeats` times.
  absl::Status Add(size_t rank_group, absl::Span<const uint64_t> packed, uint64_t repeats) {
    const std::vector<uint64_t> rows = RealRowsOf(shapes_.rank_group(rank_group)[0], packed);
    const size_t number = shapes_.ShapeFor(rank_group, rows);
    const BatchShape& shape = shapes_.rank_group(rank_group)[number];
    if (max_batch_bytes_ && !shape.layout.is_fixed()) {
      const uint64_t bytes = BatchBytesOf(shape, rows);
      if (bytes > *max_batch_bytes_) {
        return absl::InvalidArgumentError(absl::StrCat("limits: a batch would take ", bytes,
                                                       " bytes, at most ", *max_batch_bytes_,
                                                       " are allowed; set limits, or lower them"));
      }
    }
    ShapeSummary& summary = figures_.shapes[rank_group][number];
    summary.num_batches += repeats;
    figures_.num_graphs += rows.back() * repeats;
    for (size_t k = 0; k < rows.size(); ++k) {
      summary.rows[k] += rows[k] * repeats;
      uint64_t& fullest = summary.components[k].fullest_pack;
      fullest = std::max(fullest, rows[k]);
    }
    return absl::OkStatus();
  }

  // The figures of all added batches. May be called once.
  EpochFigures Figures() && {
    for (std::vector<ShapeSummary>& rank_group : figures_.shapes) {
      for (ShapeSummary& shape : rank_group) shape.SetEfficiencies();
    }
    return std::move(figures_);
  }

 private:
  const EpochShapes& shapes_;
  const std::optional<uint64_t> max_batch_bytes_;
  EpochFigures figures_;
};

// Per component, `graphs` last.
std::vector<uint64_t> NoRows(const EpochShapes& shapes) {
  return std::vector<uint64_t>(shapes.rank_group(0)[0].capacities.size());
}

}  // namespace

void ShapeSummary::SetEfficiencies() {
  for (size_t k = 0; k < components.size(); ++k) {
    ComponentEfficiency& component = components[k];
    const auto ratio = [&](uint64_t capacity) {
      const double laid_out = static_cast<double>(num_batches) * static_cast<double>(capacity);
      return laid_out == 0 ? 1 : static_cast<double>(rows[k]) / laid_out;
    };
    component.efficiency = component.capacity == kUnlimited ? 1 : ratio(component.capacity);
    component.efficiency_of_fullest = ratio(component.fullest_pack);
  }
}

absl::StatusOr<EpochFigures> FiguresOfPatterns(
    const EpochShapes& shapes, absl::Span<const uint32_t> tuples, size_t num_components,
    absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
    std::optional<uint64_t> max_batch_bytes, const Making& making) {
  BatchTally tally(shapes, max_batch_bytes);
  size_t num_entries = 0;
  std::vector<uint64_t> rows = NoRows(shapes);
  for (size_t rank_group = 0; rank_group < patterns_by_rank_group.size(); ++rank_group) {
    for (const Pattern& pattern : patterns_by_rank_group[rank_group]) {
      std::fill(rows.begin(), rows.end(), 0);
      for (const auto& [tuple, copies] : pattern.entries) {
        PH_RETURN_IF_ERROR(making.StillWantedAt(num_entries++));
        AddRows(tuples.subspan(size_t{tuple} * num_components, num_components), copies,
                absl::MakeSpan(rows));
      }
      PH_RETURN_IF_ERROR(tally.Add(rank_group, rows, pattern.repeats));
    }
  }
  return std::move(tally).Figures();
}

absl::StatusOr<EpochFigures> FiguresOfBatches(const EpochShapes& shapes, const ItemSizes& sizes,
                                              const EpochBatches& batches,
                                              std::optional<uint64_t> max_batch_bytes,
                                              const Making& making) {
  BatchTally tally(shapes, max_batch_bytes);
  size_t num_items = 0;
  std::vector<uint64_t> rows = NoRows(shapes);
  size_t rank_group = 0;
  for (size_t number = 0; number < batches.num_batches(); ++number) {
    while (number >= batches.first_batches()[rank_group + 1]) ++rank_group;
    std::fill(rows.begin(), rows.end(), 0);
    for (const uint32_t item : batches.batch(number)) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(num_items++));
      AddRows(sizes.tuple(item), 1, absl::MakeSpan(rows));
    }
    PH_RETURN_IF_ERROR(tally.Add(rank_group, rows, 1));
  }
  return std::move(tally).Figures();
}

}  // namespace packhouse
