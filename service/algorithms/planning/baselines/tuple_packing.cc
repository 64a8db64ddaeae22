#include "service/algorithms/planning/baselines/tuple_packing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using Room = absl::InlinedVector<uint64_t, 4>;

struct OpenPack {
  Pattern pattern;
  Room room;  // Per component, without `graphs`.
  uint64_t graphs_left;
  // Number of its first pack, counting packs as they are opened. Packs of a pattern are numbered
  // consecutively.
  uint64_t opened = 0;
};

class TuplePacker {
 public:
  TuplePacker(const SizeHistogram& histogram, const Limits& limits, PriorityFunction priority,
              PlacementRule placement, OpeningRule opening, WorkBudget& budget)
      : limits_(limits),
        priority_(std::move(priority)),
        placement_(placement),
        opening_(opening),
        budget_(budget),
        items_(ItemsOf(histogram)),
        smallest_(histogram.num_components(), std::numeric_limits<uint32_t>::max()) {
    for (size_t row = 0; row < items_.counts.size(); ++row) {
      for (size_t k = 0; k < smallest_.size(); ++k) {
        smallest_[k] = std::min(smallest_[k], items_.empty_plan.tuple(row)[k]);
      }
    }
  }

  absl::StatusOr<PackingPlan> Run() {
    std::vector<PriorityValue> priorities;
    for (size_t row = 0; row < items_.counts.size(); ++row) {
      priorities.push_back(priority_.Of(items_.empty_plan.tuple(row)));
    }
    // Tuples are numbered in ascending order, so that the row breaks ties.
    std::vector<uint32_t> order(items_.counts.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(priorities[a], a) > std::pair(priorities[b], b);
    });

    for (const uint32_t row : order) {
      const uint64_t placed = placement_ == PlacementRule::kBestFit
                                  ? PlaceInTightest(row, priorities[row])
                                  : PlaceInRoomiest(row, priorities[row]);
      if (exhausted_) {
        return budget_.Refusal();
      }
      if (placed < items_.counts[row]) Open(row, items_.counts[row] - placed);
    }
    PackingPlan plan = std::move(items_.empty_plan);
    plan.patterns = std::move(closed_);
    for (auto& [priority, bucket] : open_) {
      for (OpenPack& open : bucket) {
        if (open.pattern.repeats != 0) plan.patterns.push_back(std::move(open.pattern));
      }
    }
    return plan;
  }

 private:
  // Open patterns by the priority of their room; in a bucket in order of their opening. A used-up
  // pattern stays with 0 repeats until its bucket is compacted.
  using Buckets = std::map<PriorityValue, std::vector<OpenPack>>;

  void Spend(uint64_t steps) {
    if (!budget_.Spend(steps)) exhausted_ = true;
  }

  bool HasRoom(const OpenPack& open, uint32_t row) {
    Spend(1);
    const auto tuple = items_.empty_plan.tuple(row);
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (tuple[k] > open.room[k]) return false;
    }
    return open.graphs_left != 0;
  }

  // Takes the first `repeats` packs away from `from`, adds `copies` graphs to each, and returns
  // them.
  OpenPack Extend(OpenPack& from, uint32_t row, uint64_t repeats, uint32_t copies = 1) {
    OpenPack extended;
    extended.opened = from.opened;
    extended.room = from.room;
    extended.graphs_left = from.graphs_left;
    extended.pattern.repeats = repeats;
    from.opened += repeats;
    from.pattern.repeats -= repeats;
    bytes_ += sizeof(PatternEntry);
    if (from.pattern.repeats == 0) {
      extended.pattern.entries = std::move(from.pattern.entries);
    } else {
      extended.pattern.entries = from.pattern.entries;
      // The pattern again, with its room, in a bucket that may have twice the room that it needs.
      bytes_ += BytesInList(extended.pattern) + 3 * sizeof(OpenPack) +
                extended.room.capacity() * sizeof(uint64_t);
    }
    if (!budget_.HoldList(bytes_) || !budget_.Pass(extended.pattern.entries.size())) {
      exhausted_ = true;
    }
    auto& entries = extended.pattern.entries;
    if (!entries.empty() && entries.back().tuple == row) {
      entries.back().copies += copies;
    } else {
      entries.push_back({row, copies});
    }
    const auto tuple = items_.empty_plan.tuple(row);
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (limits_.has_limit(k)) extended.room[k] -= uint64_t{tuple[k]} * copies;
    }
    extended.graphs_left -= copies;
    return extended;
  }

  // Keeps a pattern open if some graph of the histogram might still fit.
  void Store(OpenPack open) {
    bool can_grow = open.graphs_left != 0;
    for (size_t k = 0; k < smallest_.size(); ++k) can_grow &= smallest_[k] <= open.room[k];
    if (!can_grow) {
      closed_.push_back(std::move(open.pattern));
      return;
    }
    std::vector<OpenPack>& bucket = open_[priority_.Of(absl::MakeConstSpan(open.room))];
    const auto behind = std::upper_bound(
        bucket.begin(), bucket.end(), open.opened,
        [](uint64_t opened, const OpenPack& other) { return opened < other.opened; });
    Spend(bucket.end() - behind);
    bucket.insert(behind, std::move(open));
  }

  // How many graphs of a size an empty pack takes, at most `wanted`.
  uint32_t CopiesThatFit(uint32_t row, uint64_t wanted) const {
    uint64_t copies = std::min(wanted, limits_.graphs());
    const auto tuple = items_.empty_plan.tuple(row);
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (tuple[k] != 0) copies = std::min(copies, limits_.capacity(k) / tuple[k]);
    }
    return static_cast<uint32_t>(std::min<uint64_t>(copies, UINT32_MAX));
  }

  // Puts `graphs` graphs of a size into new packs.
  void Open(uint32_t row, uint64_t graphs) {
    const uint32_t copies = opening_ == OpeningRule::kFill ? CopiesThatFit(row, graphs) : 1;
    const auto open = [&](uint64_t repeats, uint32_t copies_each) {
      OpenPack fresh;
      fresh.pattern.repeats = repeats;
      fresh.opened = num_opened_;
      num_opened_ += repeats;
      fresh.room.assign(limits_.capacities().begin(), limits_.capacities().end() - 1);
      fresh.graphs_left = limits_.graphs();
      Store(Extend(fresh, row, repeats, copies_each));
    };
    open(graphs / copies, copies);
    if (graphs % copies != 0) open(1, graphs % copies);
  }

  void Compact(std::vector<OpenPack>& bucket) {
    Spend(bucket.size());
    bucket.erase(std::remove_if(bucket.begin(), bucket.end(),
                                [](const OpenPack& open) { return open.pattern.repeats == 0; }),
                 bucket.end());
  }

  // Adds one graph of size `row` to each pack of `from`, and again to the grown packs, while they
  // have room and `again(room)` is true. Gives the grown patterns to `grown`; returns how many of
  // `wanted` graphs were placed.
  template <typename Again>
  uint64_t Grow(OpenPack& from, uint32_t row, uint64_t wanted, Again again,
                std::vector<OpenPack>& grown) {
    uint64_t repeats = std::min(wanted, from.pattern.repeats);
    OpenPack current = Extend(from, row, repeats);
    uint64_t placed = repeats;
    while (placed < wanted && !exhausted_ && again(current.room) && HasRoom(current, row)) {
      repeats = std::min(wanted - placed, current.pattern.repeats);
      OpenPack next = Extend(current, row, repeats);
      placed += repeats;
      if (current.pattern.repeats != 0) grown.push_back(std::move(current));
      current = std::move(next);
    }
    grown.push_back(std::move(current));
    return placed;
  }

  // Each returns how many graphs of the size found room.

  uint64_t PlaceInTightest(uint32_t row, PriorityValue priority) {
    const uint64_t wanted = items_.counts[row];
    uint64_t placed = 0;
    std::vector<OpenPack> grown;
    auto it = open_.lower_bound(priority);
    while (it != open_.end() && placed < wanted && !exhausted_) {
      std::vector<OpenPack>& bucket = it->second;
      for (size_t i = 0; i < bucket.size() && placed < wanted && !exhausted_; ++i) {
        if (!HasRoom(bucket[i], row)) continue;
        // The pattern that has just grown is the tightest with room, since no pattern with less
        // priority had room. So it goes on growing as long as it can.
        placed += Grow(
            bucket[i], row, wanted - placed, [](const Room&) { return true; }, grown);
      }
      Compact(bucket);
      it = bucket.empty() ? open_.erase(it) : std::next(it);
    }
    for (OpenPack& open : grown) Store(std::move(open));
    return placed;
  }

  uint64_t PlaceInRoomiest(uint32_t row, PriorityValue priority) {
    const uint64_t wanted = items_.counts[row];
    uint64_t placed = 0;
    while (placed < wanted && !exhausted_) {
      // From the roomiest pattern down. A grown pattern moves further down and is met again there.
      // If the size does not change its priority, it is still the first of the roomiest.
      bool found = false;
      for (auto it = open_.end(); it != open_.begin() && !found && !exhausted_;) {
        --it;
        if (it->first < priority) break;
        std::vector<OpenPack>& bucket = it->second;
        std::vector<OpenPack> grown;
        for (size_t i = 0; i < bucket.size() && placed < wanted && !exhausted_; ++i) {
          if (!HasRoom(bucket[i], row)) continue;
          placed += Grow(
              bucket[i], row, wanted - placed,
              [&](const Room& room) {
                return priority_.Of(absl::MakeConstSpan(room)) == it->first;
              },
              grown);
        }
        if (grown.empty()) continue;
        found = true;
        Compact(bucket);
        if (bucket.empty()) open_.erase(it);
        for (OpenPack& open : grown) Store(std::move(open));
      }
      if (!found) break;
    }
    return placed;
  }

  const Limits& limits_;
  const PriorityFunction priority_;
  const PlacementRule placement_;
  const OpeningRule opening_;
  WorkBudget& budget_;
  PlanItems items_;
  std::vector<uint32_t> smallest_;
  bool exhausted_ = false;
  uint64_t num_opened_ = 0;
  uint64_t bytes_ = 0;  // Of all patterns, at most.
  Buckets open_;
  std::vector<Pattern> closed_;
};

}  // namespace

absl::StatusOr<PackingPlan> PlanByTuplePacking(const SizeHistogram& histogram, const Limits& limits,
                                               const Priority& priority, PlacementRule placement,
                                               WorkBudget& budget, OpeningRule opening) {
  PH_ASSIGN_OR_RETURN(PriorityFunction function, PriorityFunction::Create(priority, limits));
  return TuplePacker(histogram, limits, std::move(function), placement, opening, budget).Run();
}

}  // namespace packhouse
