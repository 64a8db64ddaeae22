#include "service/planning/tuple_packing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

using Room = absl::InlinedVector<uint64_t, 4>;

struct OpenPattern {
  Pattern pattern;
  Room room;  // Per component, without `graphs`.
  uint64_t graphs_left;
};

class TuplePacker {
 public:
  TuplePacker(const SizeHistogram& histogram, const Limits& limits, PriorityFunction priority,
              PlacementRule placement, WorkBudget& budget)
      : limits_(limits),
        priority_(std::move(priority)),
        placement_(placement),
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
        return absl::ResourceExhaustedError("plan: the work budget is used up");
      }
      if (placed < items_.counts[row]) Open(row, items_.counts[row] - placed);
    }
    PackingPlan plan = std::move(items_.empty_plan);
    plan.patterns = std::move(closed_);
    for (auto& [priority, bucket] : open_) {
      for (OpenPattern& open : bucket) {
        if (open.pattern.repeats != 0) plan.patterns.push_back(std::move(open.pattern));
      }
    }
    return plan;
  }

 private:
  // Open patterns by the priority of their room; in a bucket in order of their opening. A pattern
  // that is used up stays behind with 0 repeats until its bucket is compacted.
  using Buckets = std::map<PriorityValue, std::vector<OpenPattern>>;

  bool HasRoom(const OpenPattern& open, uint32_t row) {
    if (!budget_.Spend()) exhausted_ = true;
    const auto tuple = items_.empty_plan.tuple(row);
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (tuple[k] > open.room[k]) return false;
    }
    return open.graphs_left != 0;
  }

  // `from`, less `repeats` of its packs, which get one more graph and are returned.
  OpenPattern Extend(OpenPattern& from, uint32_t row, uint64_t repeats) {
    OpenPattern extended = repeats == from.pattern.repeats ? std::move(from) : from;
    from.pattern.repeats =
        repeats == extended.pattern.repeats ? 0 : from.pattern.repeats - repeats;
    extended.pattern.repeats = repeats;
    auto& entries = extended.pattern.entries;
    if (!entries.empty() && entries.back().tuple == row) {
      ++entries.back().copies;
    } else {
      entries.push_back({row, 1});
    }
    const auto tuple = items_.empty_plan.tuple(row);
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (limits_.has_limit(k)) extended.room[k] -= tuple[k];
    }
    --extended.graphs_left;
    return extended;
  }

  // Keeps a pattern open if some graph of the histogram might still fit.
  void Store(OpenPattern open) {
    bool can_grow = open.graphs_left != 0;
    for (size_t k = 0; k < smallest_.size(); ++k) can_grow &= smallest_[k] <= open.room[k];
    if (!can_grow) {
      closed_.push_back(std::move(open.pattern));
      return;
    }
    const PriorityValue priority = priority_.Of(absl::MakeConstSpan(open.room));
    open_[priority].push_back(std::move(open));
  }

  void Open(uint32_t row, uint64_t repeats) {
    OpenPattern fresh;
    fresh.pattern.repeats = repeats;
    fresh.room.assign(limits_.capacities().begin(), limits_.capacities().end() - 1);
    fresh.graphs_left = limits_.graphs();
    Store(Extend(fresh, row, repeats));
  }

  static void Compact(std::vector<OpenPattern>& bucket) {
    bucket.erase(
        std::remove_if(bucket.begin(), bucket.end(),
                       [](const OpenPattern& open) { return open.pattern.repeats == 0; }),
        bucket.end());
  }

  // Each returns how many graphs of the size found room.

  uint64_t PlaceInTightest(uint32_t row, PriorityValue priority) {
    const uint64_t wanted = items_.counts[row];
    uint64_t placed = 0;
    std::vector<OpenPattern> grown;
    auto it = open_.lower_bound(priority);
    while (it != open_.end() && placed < wanted && !exhausted_) {
      std::vector<OpenPattern>& bucket = it->second;
      for (size_t i = 0; i < bucket.size() && placed < wanted && !exhausted_; ++i) {
        if (!HasRoom(bucket[i], row)) continue;
        uint64_t repeats = std::min(wanted - placed, bucket[i].pattern.repeats);
        OpenPattern current = Extend(bucket[i], row, repeats);
        placed += repeats;
        // What has just been filled is the tightest that still has room: no pattern with less
        // priority had any, so it goes on growing as long as it can.
        while (placed < wanted && !exhausted_ && HasRoom(current, row)) {
          repeats = std::min(wanted - placed, current.pattern.repeats);
          OpenPattern next = Extend(current, row, repeats);
          placed += repeats;
          if (current.pattern.repeats != 0) grown.push_back(std::move(current));
          current = std::move(next);
        }
        grown.push_back(std::move(current));
      }
      Compact(bucket);
      it = bucket.empty() ? open_.erase(it) : std::next(it);
    }
    for (OpenPattern& open : grown) Store(std::move(open));
    return placed;
  }

  uint64_t PlaceInRoomiest(uint32_t row, PriorityValue priority) {
    const uint64_t wanted = items_.counts[row];
    uint64_t placed = 0;
    while (placed < wanted && !exhausted_) {
      // From the roomiest down; a grown pattern lands further down, or behind in its bucket, and
      // is met again there.
      bool found = false;
      for (auto it = open_.end(); it != open_.begin() && !found && !exhausted_;) {
        --it;
        if (it->first < priority) break;
        std::vector<OpenPattern>& bucket = it->second;
        std::vector<OpenPattern> grown;
        for (size_t i = 0; i < bucket.size() && placed < wanted && !exhausted_; ++i) {
          if (!HasRoom(bucket[i], row)) continue;
          const uint64_t repeats = std::min(wanted - placed, bucket[i].pattern.repeats);
          grown.push_back(Extend(bucket[i], row, repeats));
          placed += repeats;
        }
        if (grown.empty()) continue;
        found = true;
        Compact(bucket);
        if (bucket.empty()) open_.erase(it);
        for (OpenPattern& open : grown) Store(std::move(open));
      }
      if (!found) break;
    }
    return placed;
  }

  const Limits& limits_;
  const PriorityFunction priority_;
  const PlacementRule placement_;
  WorkBudget& budget_;
  PlanItems items_;
  std::vector<uint32_t> smallest_;
  bool exhausted_ = false;
  Buckets open_;
  std::vector<Pattern> closed_;
};

}  // namespace

absl::StatusOr<PackingPlan> PlanByTuplePacking(const SizeHistogram& histogram, const Limits& limits,
                                               const Priority& priority, PlacementRule placement,
                                               WorkBudget& budget) {
  PH_ASSIGN_OR_RETURN(PriorityFunction function, PriorityFunction::Create(priority, limits));
  return TuplePacker(histogram, limits, std::move(function), placement, budget).Run();
}

}  // namespace packhouse
