#include "service/delivery/epoch_batches.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "service/packing/online_packer.h"
#include "service/sizes/checked_arithmetic.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckUsesUp(const SizeClasses& classes,
                         absl::Span<const std::vector<Pattern>> patterns_by_profile) {
  std::vector<uint64_t> used(classes.num_classes(), 0);
  for (const std::vector<Pattern>& patterns : patterns_by_profile) {
    for (const Pattern& pattern : patterns) {
      // Batches that hold nothing would not be bounded by the number of items.
      if (pattern.entries.empty() || pattern.repeats == 0) {
        return absl::InvalidArgumentError("plan: a pattern without graphs");
      }
      for (const auto& [tuple, copies] : pattern.entries) {
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
    if (used[i] != classes.items(i).size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plan: has places for ", used[i], " graphs of size (",
          absl::StrJoin(classes.tuple(i), ", "), "), there are ", classes.items(i).size()));
    }
  }
  return absl::OkStatus();
}

// By a hash of the id; the mixing is a bijection, so that ties are ids that are equal.
void SortByHash(absl::Span<uint32_t> items, absl::Span<const uint64_t> ids, uint64_t start) {
  const auto key = [&](uint32_t item) {
    return std::tuple(SeededRandom(ids[item] ^ start).Next(), ids[item], item);
  };
  std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
}

}  // namespace

absl::StatusOr<EpochBatches> DrawEpoch(const SizeClasses& classes,
                                       absl::Span<const std::vector<Pattern>> patterns_by_profile,
                                       const EpochSeed& seed,
                                       std::optional<absl::Span<const uint64_t>> group_ids) {
  PH_RETURN_IF_ERROR(CheckUsesUp(classes, patterns_by_profile));

  // The items of each class, in the order in which places take them.
  std::vector<uint32_t> drawn;
  drawn.reserve(classes.num_items());
  std::vector<const uint32_t*> next;
  SeededRandom places(SequenceStart(seed, DrawPurpose::kPlaces));
  const uint64_t group_start = SequenceStart(seed, DrawPurpose::kGroups);
  for (size_t i = 0; i < classes.num_classes(); ++i) {
    const auto items = classes.items(i);
    next.push_back(drawn.data() + drawn.size());
    drawn.insert(drawn.end(), items.begin(), items.end());
    const auto own = absl::MakeSpan(drawn).last(items.size());
    if (!group_ids) {
      Shuffle(own, places);
      continue;
    }
    const uint32_t largest = *std::max_element(own.begin(), own.end());
    if (largest >= group_ids->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_ids: ", group_ids->size(), " of them, item ", largest, " has none"));
    }
    SortByHash(own, *group_ids, group_start);
  }

  EpochBatches epoch;
  epoch.items_.reserve(classes.num_items());
  std::vector<uint32_t> pattern_of_batch;
  SeededRandom order(SequenceStart(seed, DrawPurpose::kBatchOrder));
  for (const std::vector<Pattern>& patterns : patterns_by_profile) {
    pattern_of_batch.clear();
    for (size_t i = 0; i < patterns.size(); ++i) {
      pattern_of_batch.insert(pattern_of_batch.end(), patterns[i].repeats, uint32_t(i));
    }
    Shuffle(absl::MakeSpan(pattern_of_batch), order);
    epoch.starts_.reserve(epoch.starts_.size() + pattern_of_batch.size());
    for (const uint32_t i : pattern_of_batch) {
      for (const auto& [tuple, copies] : patterns[i].entries) {
        epoch.items_.insert(epoch.items_.end(), next[tuple], next[tuple] + copies);
        next[tuple] += copies;
      }
      epoch.starts_.push_back(static_cast<uint32_t>(epoch.items_.size()));
    }
    epoch.first_batches_.push_back(epoch.num_batches());
  }
  return epoch;
}

absl::StatusOr<EpochBatches> PackInOrder(const ItemSizes& sizes,
                                         std::optional<absl::Span<const uint32_t>> selection,
                                         const Limits& limits, size_t look_ahead) {
  OnlinePackerOptions options;
  options.look_ahead = look_ahead;
  PH_ASSIGN_OR_RETURN(OnlinePacker packer, OnlinePacker::Create(limits, options));
  const size_t n = selection ? selection->size() : sizes.num_items();
  if (n > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection: ", n, " items, an epoch takes at most ", ItemSizes::kMaxItems));
  }
  EpochBatches epoch;
  epoch.items_.reserve(n);
  const auto take_pack = [&] {
    for (const uint64_t item : packer.TakePack()) {
      epoch.items_.push_back(static_cast<uint32_t>(item));
    }
    epoch.starts_.push_back(static_cast<uint32_t>(epoch.items_.size()));
  };
  // Without a delay, the packer does not look at the time.
  constexpr absl::Time kNoTime = absl::UnixEpoch();
  for (size_t i = 0; i < n; ++i) {
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
  return epoch;
}

}  // namespace packhouse
