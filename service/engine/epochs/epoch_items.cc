#include "service/engine/epochs/epoch_items.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/selection.h"

namespace packhouse {
namespace {

absl::Status Refuse(absl::string_view what, const OversizeItem& item, const SizeSchema& sizes) {
  return absl::OutOfRangeError(absl::StrCat(
      what, " ", item.id, ": ", item.value, " rows of '", sizes.name(item.component), "', at ",
      item.is_too_small ? absl::StrCat("least ", item.bound, " are needed")
                        : absl::StrCat("most ", item.bound, " fit a batch")));
}

// One weight for each of `items`.
absl::StatusOr<std::vector<uint32_t>> WeightsOf(absl::Span<const uint32_t> items,
                                                absl::Span<const double> weights,
                                                const GraphSelection& selection,
                                                const Making& making) {
  std::vector<uint32_t> own(items.size(), 1);
  if (weights.empty()) return own;
  if (weights.size() != selection.num_graphs()) {
    return absl::InvalidArgumentError(absl::StrCat("weights: ", weights.size(), ", there are ",
                                                   selection.num_graphs(), " graphs to draw from"));
  }
  PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> all, IntegerWeights(weights));
  // Both ascend, so one pass over the selection finds the fitting ones.
  const auto positions = selection.positions();
  size_t place = 0;
  for (size_t i = 0; i < items.size(); ++i, ++place) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    while ((positions ? (*positions)[place] : place) != items[i]) ++place;
    own[i] = all[place];
  }
  return own;
}

}  // namespace

absl::StatusOr<EpochItems> GraphsThatFit(const DatasetReader& reader, const ItemSizes& sizes,
                                         const GraphSelection& selection,
                                         absl::Span<const Limits> limits, const BatchShape& last,
                                         bool oversize_is_error, const Making& making) {
  EpochItems items;
  const size_t n = selection.num_graphs();
  PH_ASSIGN_OR_RETURN(items.memory,
                      making.Hold(absl::StrCat(n, " graphs to choose from"), sizeof(uint32_t) * n));
  PH_ASSIGN_OR_RETURN(FittingItems fitting, ItemsThatFit(sizes, selection.positions(), limits,
                                                         Oversize::kMaxListed, making));
  for (const ItemRejection& rejected : fitting.rejected) {
    OversizeItem item = {reader.graph_ids()[rejected.item], rejected.component, rejected.value,
                         rejected.bound};
    if (const uint64_t least = last.layout.min_rows()[rejected.component]; least != 0) {
      item.value = SizesOfGraphs(reader).tuple(rejected.item)[rejected.component];
      item.is_too_small = item.value < least;
      item.bound = item.is_too_small ? least : last.LargestGraph(rejected.component);
    }
    if (oversize_is_error) return Refuse("graph", item, reader.info().schema->sizes());
    items.oversize.items.push_back(item);
  }
  items.oversize.num_graphs = fitting.num_rejected;
  items.numbers = std::move(fitting.items);
  return items;
}

absl::StatusOr<EpochItems> GroupsThatFit(const DatasetReader& reader,
                                         const GraphSelection& selection, const Limits& limits,
                                         bool oversize_is_error, const Making& making) {
  EpochItems items;
  PH_ASSIGN_OR_RETURN(items.groups,
                      GroupItems::Create(SizesOfGraphs(reader), reader.group_ids(), limits,
                                         selection.positions(), Oversize::kMaxListed, making));
  for (const GroupRejection& rejected : items.groups->rejected()) {
    const OversizeItem item = {rejected.group_id, rejected.component, rejected.value,
                               rejected.bound};
    if (oversize_is_error) return Refuse("group", item, reader.info().schema->sizes());
    items.oversize.items.push_back(item);
  }
  items.oversize.num_graphs = items.groups->num_rejected_graphs();
  const size_t n = items.groups->num_groups();
  PH_ASSIGN_OR_RETURN(items.memory,
                      making.Hold(absl::StrCat(n, " groups of graphs"), sizeof(uint32_t) * n));
  items.numbers.resize(n);
  for (size_t i = 0; i < n; ++i) items.numbers[i] = static_cast<uint32_t>(i);
  return items;
}

absl::Status DrawItems(const WeightedDraw& draw, const EpochSeed& seed,
                       const GraphSelection& selection, const Making& making, EpochItems& items) {
  // Also where none of its weights is above 0.
  if (draw.of_segment == uint64_t{0}) {
    items.numbers.clear();
    return absl::OkStatus();
  }
  const size_t n = selection.num_graphs();
  const uint64_t count =
      draw.of_segment.value_or(draw.num_graphs != 0 ? draw.num_graphs : items.numbers.size());
  if (count == 0) items.numbers.clear();
  const std::string what = absl::StrCat("draw: num_graphs ", count);
  if (count > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(absl::StrCat(what, ", at most ", ItemSizes::kMaxItems));
  }
  // Without replacement there are no more than these; a larger number is refused.
  const uint64_t most =
      draw.with_replacement ? count : std::min<uint64_t>(count, items.numbers.size());
  PH_ASSIGN_OR_RETURN(MemoryHold memory, making.Hold(what, sizeof(uint32_t) * most));
  PH_ASSIGN_OR_RETURN(const MemoryHold drawing,
                      making.Hold(absl::StrCat("draw from ", n, " graphs"),
                                  (kSamplingBytes + 2 * sizeof(uint32_t)) * n));
  PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> weights,
                      WeightsOf(items.numbers, draw.weights, selection, making));
  if (weights.empty()) return absl::OkStatus();
  const bool is_all = draw.num_graphs == 0 && !draw.of_segment;
  PH_ASSIGN_OR_RETURN(std::vector<uint32_t> drawn,
                      DrawPlaces(weights, is_all ? std::nullopt : std::optional(count),
                                 draw.with_replacement, seed, making));
  for (size_t i = 0; i < drawn.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    drawn[i] = items.numbers[drawn[i]];
  }
  items.numbers = std::move(drawn);
  memory.ShrinkTo(sizeof(uint32_t) * items.numbers.size());
  items.memory = std::move(memory);
  return absl::OkStatus();
}

}  // namespace packhouse
