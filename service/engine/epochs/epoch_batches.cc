#include "service/engine/epochs/epoch_batches.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Sorts by a total order, in blocks (quicksort, Hoare 1962), so that sorting a million items can be
// given up midway: CANCELLED as `making`.
template <typename Less>
absl::Status SortWhileWanted(absl::Span<uint32_t> items, const Less& less, const Making& making) {
  constexpr size_t kBlock = size_t{1} << 13;
  std::vector<absl::Span<uint32_t>> parts = {items};
  while (!parts.empty()) {
    const absl::Span<uint32_t> part = parts.back();
    parts.pop_back();
    if (part.size() <= kBlock) {
      PH_RETURN_IF_ERROR(making.StillWanted());
      std::sort(part.begin(), part.end(), less);
      continue;
    }
    // Not the last item, so that neither side is empty.
    const uint32_t pivot = part[(part.size() - 1) / 2];
    size_t low = 0;
    size_t high = part.size() - 1;
    for (size_t swaps = 0;; ++swaps) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(swaps));
      while (less(part[low], pivot)) ++low;
      while (less(pivot, part[high])) --high;
      if (low >= high) break;
      std::swap(part[low++], part[high--]);
    }
    parts.push_back(part.first(high + 1));
    parts.push_back(part.subspan(high + 1));
  }
  return absl::OkStatus();
}

// Sorts by a hash of the id. The hash is a bijection, so ties are equal ids.
absl::Status SortByHash(absl::Span<uint32_t> items, absl::Span<const uint64_t> ids, uint64_t start,
                        const Making& making) {
  const auto key = [&](uint32_t item) {
    return std::tuple(SeededRandom(ids[item] ^ start).Next(), ids[item], item);
  };
  return SortWhileWanted(
      items, [&](uint32_t a, uint32_t b) { return key(a) < key(b); }, making);
}

}  // namespace

void EpochBatches::SetItems(absl::FunctionRef<absl::Span<const uint32_t>(size_t)> batch) {
  const size_t count = num_batches();
  items_.clear();
  starts_.resize(1);
  for (size_t b = 0; b < count; ++b) {
    const absl::Span<const uint32_t> items = batch(b);
    items_.insert(items_.end(), items.begin(), items.end());
    starts_.push_back(static_cast<uint32_t>(items_.size()));
  }
}

// Asks `making` at each entry of a pattern, since there may be as many entries as items.
absl::Status CheckUsesUp(const SizeClasses& classes,
                         absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
                         const Making& making) {
  size_t num_entries = 0;
  std::vector<uint64_t> used(classes.num_classes(), 0);
  for (const std::vector<Pattern>& patterns : patterns_by_rank_group) {
    for (const Pattern& pattern : patterns) {
      // The number of items would not bound empty batches.
      if (pattern.entries.empty() || pattern.repeats == 0) {
        return absl::InvalidArgumentError("plan: a pattern without graphs");
      }
      for (const auto& [tuple, copies] : pattern.entries) {
        PH_RETURN_IF_ERROR(making.StillWantedAt(num_entries++));
        if (tuple >= used.size() || copies == 0) {
          return absl::InvalidArgumentError(absl::StrCat("plan: ", copies,
                                                         " copies of size number ", tuple,
                                                         ", there are ", used.size(), " sizes"));
        }
        const auto items = CheckedMultiply(copies, pattern.repeats);
        const auto sum = items ? CheckedAdd(used[tuple], *items) : std::nullopt;
        if (!sum) {
          return absl::InvalidArgumentError(
              absl::StrCat("plan: the graphs of size number ", tuple, " exceed 2^64 - 1"));
        }
        used[tuple] = *sum;
      }
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    if (used[i] != classes.items(i).size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plan: has places for ", used[i], " graphs of size (",
          absl::StrJoin(classes.tuple(i), ", "), "), there are ", classes.items(i).size()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EpochBatches> DrawEpoch(
    const SizeClasses& classes, absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
    const EpochSeed& seed, std::optional<absl::Span<const uint64_t>> group_ids,
    const Making& making) {
  const uint64_t n = classes.num_items();
  const std::string what = absl::StrCat("an epoch of ", n, " graphs");
  // The place of each class's next item, in a list that the check uses first.
  PH_ASSIGN_OR_RETURN(
      MemoryHold drawing,
      making.Hold(what, sizeof(uint64_t) * classes.num_classes() + sizeof(uint32_t) * n));
  PH_RETURN_IF_ERROR(CheckUsesUp(classes, patterns_by_rank_group, making));
  // At most the number of items, since no batch is empty.
  uint64_t num_batches = 0;
  uint64_t most_of_one_rank_group = 0;
  for (const std::vector<Pattern>& patterns : patterns_by_rank_group) {
    uint64_t of_rank_group = 0;
    for (const Pattern& pattern : patterns) of_rank_group += pattern.repeats;
    most_of_one_rank_group = std::max(most_of_one_rank_group, of_rank_group);
    num_batches += of_rank_group;
  }
  PH_RETURN_IF_ERROR(making.Grow(what, sizeof(uint32_t) * most_of_one_rank_group, drawing));
  PH_ASSIGN_OR_RETURN(
      MemoryHold memory,
      making.Hold(what, sizeof(uint32_t) * (n + num_batches + 1) +
                            2 * sizeof(uint64_t) * (patterns_by_rank_group.size() + 1)));

  // The items of each class, in the order in which places take them.
  std::vector<uint32_t> drawn;
  drawn.reserve(classes.num_items());
  std::vector<const uint32_t*> next;
  next.reserve(classes.num_classes());
  SeededRandom places(SequenceStart(seed, DrawPurpose::kPlaces));
  const uint64_t group_start = SequenceStart(seed, DrawPurpose::kGroups);
  for (size_t i = 0; i < classes.num_classes(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const auto items = classes.items(i);
    next.push_back(drawn.data() + drawn.size());
    drawn.insert(drawn.end(), items.begin(), items.end());
    const auto own = absl::MakeSpan(drawn).last(items.size());
    if (!group_ids) {
      PH_RETURN_IF_ERROR(Shuffle(own, places, making));
      continue;
    }
    const uint32_t largest = *std::max_element(own.begin(), own.end());
    if (largest >= group_ids->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_ids: ", group_ids->size(), " of them, item ", largest, " has none"));
    }
    PH_RETURN_IF_ERROR(SortByHash(own, *group_ids, group_start, making));
  }

  EpochBatches epoch;
  epoch.memory_ = std::move(memory);
  epoch.items_.reserve(n);
  epoch.starts_.reserve(num_batches + 1);
  std::vector<uint32_t> pattern_of_batch;
  pattern_of_batch.reserve(most_of_one_rank_group);
  SeededRandom order(SequenceStart(seed, DrawPurpose::kBatchOrder));
  for (const std::vector<Pattern>& patterns : patterns_by_rank_group) {
    pattern_of_batch.clear();
    for (size_t i = 0; i < patterns.size(); ++i) {
      pattern_of_batch.insert(pattern_of_batch.end(), patterns[i].repeats, uint32_t(i));
    }
    PH_RETURN_IF_ERROR(Shuffle(absl::MakeSpan(pattern_of_batch), order, making));
    for (const uint32_t i : pattern_of_batch) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(epoch.starts_.size()));
      for (const auto& [tuple, copies] : patterns[i].entries) {
        epoch.items_.insert(epoch.items_.end(), next[tuple], next[tuple] + copies);
        next[tuple] += copies;
      }
      epoch.starts_.push_back(static_cast<uint32_t>(epoch.items_.size()));
    }
    epoch.first_batches_.push_back(epoch.num_batches());
  }
  epoch.memory_.ShrinkTo(epoch.bytes());
  return epoch;
}

absl::StatusOr<EpochBatches> PackInOrder(const ItemSizes& sizes,
                                         std::optional<absl::Span<const uint32_t>> selection,
                                         const Limits& limits, size_t look_ahead,
                                         const Making& making) {
  OnlinePackerOptions options;
  options.look_ahead = look_ahead;
  // The packer needs a limit for every component.
  std::vector<uint64_t> capacities(limits.capacities().begin(), limits.capacities().end());
  for (uint64_t& capacity : capacities) capacity = std::min(capacity, kMaxCapacity);
  PH_ASSIGN_OR_RETURN(const Limits bounded, Limits::Create(std::move(capacities)));
  PH_ASSIGN_OR_RETURN(OnlinePacker packer, OnlinePacker::Create(bounded, options));
  const size_t n = selection ? selection->size() : sizes.num_items();
  if (n > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection: ", n, " items, an epoch takes at most ", ItemSizes::kMaxItems));
  }
  EpochBatches epoch;
  const std::string what = absl::StrCat("an epoch of ", n, " graphs in order");
  // The number of batches is known only in the end; then their list exists twice.
  PH_ASSIGN_OR_RETURN(epoch.memory_,
                      making.Hold(what, sizeof(uint32_t) * 3 * (n + 1) + 4 * sizeof(uint64_t)));
  epoch.items_.reserve(n);
  epoch.starts_.reserve(n + 1);
  const auto take_pack = [&] {
    for (const uint64_t item : packer.TakePack()) {
      epoch.items_.push_back(static_cast<uint32_t>(item));
    }
    epoch.starts_.push_back(static_cast<uint32_t>(epoch.items_.size()));
  };
  // Without a delay, the packer does not look at the time.
  constexpr absl::Time kNoTime = absl::UnixEpoch();
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const size_t item = selection ? (*selection)[i] : i;
    if (item >= sizes.num_items()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "selection: item ", item, ", the data set has ", sizes.num_items(), " items"));
    }
    const auto complete = packer.Push(sizes.tuple(item), item, kNoTime);
    if (!complete.ok()) {
      return absl::Status(complete.status().code(),
                          absl::StrCat("item ", item, ": ", complete.status().message()));
    }
    if (*complete) take_pack();
  }
  while (packer.PackPending()) take_pack();
  epoch.first_batches_.push_back(epoch.num_batches());
  epoch.starts_.shrink_to_fit();
  epoch.memory_.ShrinkTo(epoch.bytes());
  return epoch;
}

}  // namespace packhouse
