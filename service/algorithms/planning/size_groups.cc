#include "service/algorithms/planning/size_groups.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using Capacities = std::vector<uint64_t>;

// A size that allowed limits take.
struct FittingSize {
  SizeTuple tuple;
  uint64_t count = 0;
  Capacities needed;
};

// The capacities that take both. They need not be within the memory.
Capacities Joined(const Capacities& a, const Capacities& b) {
  Capacities joined = a;
  for (size_t k = 0; k < joined.size(); ++k) joined[k] = std::max(joined[k], b[k]);
  return joined;
}

// Chooses boxes: capacities within the memory, each of which takes what lies within it.
//
// A search in depth: the sizes come one after the other, those with the most of the first component
// first. Each that no box takes yet is taken by one of the boxes, which grows, or by a new one, or
// by none. What no more than the best choice so far can come of is passed over.
class BoxSearch {
 public:
  // All but the number must outlive it.
  BoxSearch(const std::vector<const FittingSize*>& sizes, const DeviceProfile& profile,
            size_t most_boxes, WorkBudget& budget)
      : sizes_(sizes), profile_(profile), most_boxes_(most_boxes), budget_(budget) {}

  // The boxes that leave out the fewest graphs; nullopt if no fewer than `bound` were found.
  std::optional<std::vector<Capacities>> Find(uint64_t bound) {
    least_lost_ = bound;
    std::vector<Capacities> boxes;
    Search(0, 0, boxes);
    return std::move(best_);
  }

 private:
  static constexpr uint64_t kMostLooks = uint64_t{1} << 21;

  bool IsTaken(const FittingSize& size, const std::vector<Capacities>& boxes) {
    Look(boxes.size() + 1);
    for (const Capacities& box : boxes) {
      if (ShapeTakes(box, size.needed)) return true;
    }
    return false;
  }

  void Search(size_t at, uint64_t lost, std::vector<Capacities>& boxes) {
    if (lost >= least_lost_ || looks_ >= kMostLooks || budget_.cancelled()) return;
    while (at < sizes_.size() && IsTaken(*sizes_[at], boxes)) ++at;
    if (at == sizes_.size()) {
      best_ = boxes;
      least_lost_ = lost;
      return;
    }
    const FittingSize& size = *sizes_[at];
    for (size_t i = 0; i < boxes.size(); ++i) {
      Capacities joined = Joined(boxes[i], size.needed);
      Look(4);
      if (!FitsMemory(profile_, joined)) continue;
      std::swap(boxes[i], joined);
      Search(at + 1, lost, boxes);
      std::swap(boxes[i], joined);
    }
    if (boxes.size() < most_boxes_) {
      boxes.push_back(size.needed);
      Search(at + 1, lost, boxes);
      boxes.pop_back();
    }
    Search(at + 1, lost + std::min(size.count, least_lost_ - lost), boxes);
  }

  void Look(uint64_t looks) {
    looks_ += looks;
    budget_.Pass(looks);
  }

  const std::vector<const FittingSize*>& sizes_;
  const DeviceProfile& profile_;
  const size_t most_boxes_;
  WorkBudget& budget_;
  uint64_t looks_ = 0;
  uint64_t least_lost_ = 0;
  std::optional<std::vector<Capacities>> best_;
};

class Grouping {
 public:
  Grouping(const SizeHistogram& histogram, const DeviceProfile& profile, size_t most_groups,
           WorkBudget& budget)
      : histogram_(histogram), profile_(profile), most_groups_(most_groups), budget_(budget) {}

  absl::StatusOr<SizeGroups> Find() {
    SizeGroups found;
    PH_ASSIGN_OR_RETURN(found.left_out,
                        FindOversize(histogram_, profile_, KeptMost::kNumGraphs, budget_));
    ListSizes(found.left_out);
    if (!found.left_out.apart.empty() && most_groups_ > 1) {
      PH_RETURN_IF_ERROR(FindGreedily(found.left_out));
      FindFewer();
      if (NumLost() != 0) FindMore();
    } else {
      boxes_ = {BoxOf([&](const FittingSize& size) {
        return !std::binary_search(found.left_out.apart.begin(), found.left_out.apart.end(),
                                   size.tuple);
      })};
    }
    found.left_out.apart.clear();
    Share(found);
    if (budget_.cancelled()) return budget_.Refusal();
    return found;
  }

 private:
  // With more, the search in depth is left out.
  static constexpr size_t kMostSearched = 1024;
  // Looks for the sizes that no other takes.
  static constexpr uint64_t kMostLooks = uint64_t{1} << 26;

  void ListSizes(const LeftOutSizes& left_out) {
    for (const uint32_t row : histogram_.SortedRows()) {
      FittingSize size;
      size.tuple.assign(histogram_.tuple(row).begin(), histogram_.tuple(row).end());
      if (std::binary_search(left_out.alone.begin(), left_out.alone.end(), size.tuple)) continue;
      size.count = histogram_.count(row);
      size.needed = LeastCapacities(size.tuple, profile_);
      sizes_.push_back(std::move(size));
    }
  }

  template <typename IsIn>
  Capacities BoxOf(const IsIn& is_in) const {
    Capacities box;
    for (const FittingSize& size : sizes_) {
      if (is_in(size)) box = box.empty() ? size.needed : Joined(box, size.needed);
    }
    return box;
  }

  bool IsTaken(const FittingSize& size) const {
    return std::any_of(boxes_.begin(), boxes_.end(),
                       [&](const Capacities& box) { return ShapeTakes(box, size.needed); });
  }
  uint64_t NumLost() {
    budget_.Pass(sizes_.size() * boxes_.size());
    uint64_t lost = 0;
    for (const FittingSize& size : sizes_) lost += IsTaken(size) ? 0 : size.count;
    return lost;
  }

  // The shape that takes the most, then the one that takes the most of the rest, and so on.
  absl::Status FindGreedily(const LeftOutSizes& first) {
    std::vector<SizeTuple> apart = first.apart;
    std::vector<SizeTuple> before;
    for (const FittingSize& size : sizes_) before.push_back(size.tuple);
    for (;;) {
      boxes_.push_back(BoxOf([&](const FittingSize& size) {
        return std::binary_search(before.begin(), before.end(), size.tuple) &&
               !std::binary_search(apart.begin(), apart.end(), size.tuple);
      }));
      if (boxes_.size() == most_groups_ || apart.empty()) return absl::OkStatus();
      SizeHistogram rest(histogram_.num_components());
      for (const SizeTuple& tuple : apart) {
        // Part of a histogram is within its bounds.
        if (!rest.Add(tuple, histogram_.CountOf(tuple)).ok()) return absl::OkStatus();
      }
      before = std::move(apart);
      PH_ASSIGN_OR_RETURN(LeftOutSizes left_out,
                          FindOversize(rest, profile_, KeptMost::kNumGraphs, budget_));
      apart = std::move(left_out.apart);
    }
  }

  // The sizes that no other size takes: boxes that take these take all. In lexicographic order from
  // the largest on, so that no size is taken by a later one. Empty if there are many.
  std::vector<const FittingSize*> LargestSizes() {
    std::vector<const FittingSize*> largest;
    uint64_t looks = 0;
    for (size_t i = sizes_.size(); i-- != 0;) {
      bool is_taken = false;
      for (const FittingSize* const other : largest) {
        if (ShapeTakes(other->needed, sizes_[i].needed)) {
          is_taken = true;
          break;
        }
      }
      looks += largest.size();
      if (!budget_.Pass(largest.size())) return {};
      if (!is_taken) largest.push_back(&sizes_[i]);
      if (largest.size() > kMostSearched || looks > kMostLooks) return {};
    }
    return largest;
  }

  // Fewer boxes that take all.
  void FindFewer() {
    const std::vector<const FittingSize*> largest = LargestSizes();
    if (largest.empty()) return;
    const size_t most = NumLost() == 0 ? boxes_.size() - 1 : most_groups_;
    for (size_t n = 2; n <= most; ++n) {
      if (auto boxes = BoxSearch(largest, profile_, n, budget_).Find(/*bound=*/1)) {
        boxes_ = *std::move(boxes);
        return;
      }
    }
  }

  // Boxes that lose fewer graphs, if there are few sizes.
  void FindMore() {
    if (sizes_.size() > kMostSearched) return;
    std::vector<const FittingSize*> all;
    for (size_t i = sizes_.size(); i-- != 0;) all.push_back(&sizes_[i]);
    if (auto boxes = BoxSearch(all, profile_, most_groups_, budget_).Find(NumLost())) {
      boxes_ = *std::move(boxes);
    }
  }

  // Gives each size to one of the boxes: each box in turn, the one that takes the most of what is
  // left first.
  void Share(SizeGroups& found) {
    std::vector<bool> is_shared(sizes_.size(), false);
    for (size_t turn = 0; turn < boxes_.size(); ++turn) {
      if (!budget_.Pass(boxes_.size() * sizes_.size())) return;
      size_t best = 0;
      uint64_t most = 0;
      for (size_t i = 0; i < boxes_.size(); ++i) {
        uint64_t taken = 0;
        for (size_t j = 0; j < sizes_.size(); ++j) {
          if (!is_shared[j] && ShapeTakes(boxes_[i], sizes_[j].needed)) taken += sizes_[j].count;
        }
        if (taken <= most) continue;
        most = taken;
        best = i;
      }
      if (most == 0) break;
      std::vector<SizeTuple>& group = found.groups.emplace_back();
      for (size_t j = 0; j < sizes_.size(); ++j) {
        if (is_shared[j] || !ShapeTakes(boxes_[best], sizes_[j].needed)) continue;
        is_shared[j] = true;
        group.push_back(sizes_[j].tuple);
      }
    }
    for (size_t j = 0; j < sizes_.size(); ++j) {
      if (!is_shared[j]) found.left_out.apart.push_back(sizes_[j].tuple);
    }
  }

  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  const size_t most_groups_;
  WorkBudget& budget_;
  // In lexicographic order.
  std::vector<FittingSize> sizes_;
  std::vector<Capacities> boxes_;
};

}  // namespace

absl::StatusOr<SizeGroups> FindGroups(const SizeHistogram& histogram, const DeviceProfile& profile,
                                      size_t most_groups, WorkBudget& budget) {
  return Grouping(histogram, profile, most_groups, budget).Find();
}

uint64_t BytesToFindGroups(const SizeHistogram& histogram, const DeviceProfile& profile) {
  if (!HasMemoryBound(profile)) return 0;
  constexpr uint64_t kBlock = 32;  // What malloc() adds, at most.
  const uint64_t width = profile.components.size();
  const uint64_t tuple = sizeof(SizeTuple) + kBlock + width * sizeof(uint32_t);
  // The sizes; the tuples that are apart, before, and in groups; the rest as a histogram; and a
  // search for what is apart of it.
  const uint64_t each = sizeof(FittingSize) + tuple + kBlock + width * sizeof(uint64_t) +
                        4 * tuple + 2 * sizeof(void*) + 1;
  const uint64_t n = histogram.num_distinct();
  return n * each + SizeHistogram::BytesFor(n, histogram.num_components()) +
         BytesToFindOversize(histogram, profile);
}

bool ShapeTakes(absl::Span<const uint64_t> larger, absl::Span<const uint64_t> smaller) {
  for (size_t k = 0; k < smaller.size(); ++k) {
    if (smaller[k] > larger[k]) return false;
  }
  return true;
}

std::vector<size_t> LeadingShapes(absl::Span<const std::vector<uint64_t>> shapes) {
  std::vector<size_t> leading;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (std::none_of(leading.begin(), leading.end(),
                     [&](size_t leader) { return ShapeTakes(shapes[leader], shapes[i]); })) {
      leading.push_back(i);
    }
  }
  return leading;
}

}  // namespace packhouse
