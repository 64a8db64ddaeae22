// Tuple packing, slow and obvious: what PlanByTuplePacking must equal.
#ifndef PACKHOUSE_TESTS_PLANNING_BASELINES_REFERENCE_TUPLE_PACKING_H_
#define PACKHOUSE_TESTS_PLANNING_BASELINES_REFERENCE_TUPLE_PACKING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/baselines/priority.h"
#include "service/algorithms/planning/baselines/tuple_packing.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

// The content of a pack, as graphs of each size, and the number of packs with this content.
using ReferencePacks = std::map<std::map<std::vector<uint32_t>, uint64_t>, uint64_t>;

class ReferenceTuplePacker {
 public:
  // Sizes, capacities and weights must be small enough for 64 bits.
  ReferenceTuplePacker(const Limits& limits, const Priority& priority, PlacementRule placement,
                       OpeningRule opening)
      : limits_(limits), priority_(priority), placement_(placement), opening_(opening) {}

  // Takes the sizes in descending priority, the lexicographically larger one in a tie. One graph
  // goes to each pack of the open pattern that has room and the least (best-fit) or most
  // (first-fit) priority left, the pattern opened first in a tie; and again, with all patterns
  // looked at anew, until the graphs of this size are used up or find no room. Those open packs of
  // one graph each; or (kFill) packs of as many as fit, and one with what is left over.
  ReferencePacks Pack(const SizeHistogram& histogram) {
    std::vector<std::pair<uint64_t, std::vector<uint32_t>>> order;
    for (size_t row = 0; row < histogram.num_distinct(); ++row) {
      const auto tuple = histogram.tuple(row);
      const std::vector<uint64_t> wide(tuple.begin(), tuple.end());
      order.emplace_back(PriorityOf(wide), std::vector<uint32_t>(tuple.begin(), tuple.end()));
    }
    std::sort(order.rbegin(), order.rend());
    for (const auto& [priority, tuple] : order) {
      uint64_t remaining = histogram.CountOf(tuple);
      while (remaining > 0) remaining -= Place(tuple, remaining);
    }
    ReferencePacks packs;
    for (const OpenPattern& pattern : patterns_) packs[pattern.graphs] += pattern.repeats;
    return packs;
  }

 private:
  struct OpenPattern {
    std::map<std::vector<uint32_t>, uint64_t> graphs;
    std::vector<uint64_t> room;
    uint64_t graphs_left;
    uint64_t repeats;
    // Number of its first pack in the order of their opening.
    uint64_t opened;
  };

  uint64_t PriorityOf(const std::vector<uint64_t>& sizes) const {
    std::vector<std::pair<uint64_t, uint32_t>> terms;  // Size and weight.
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (!limits_.has_limit(k)) continue;
      terms.emplace_back(sizes[k], priority_.weights.empty() ? 1 : priority_.weights[k]);
    }
    if (priority_.kind == PriorityKind::kComponent) return sizes[priority_.component];
    uint64_t product = 1;
    uint64_t sum = 0;
    uint64_t max = 0;
    uint64_t min = std::numeric_limits<uint64_t>::max();
    for (const auto& [size, weight] : terms) {
      for (uint32_t i = 0; i < weight; ++i) product *= size;
      sum += weight * size;
      max = std::max(max, weight * size);
      min = std::min(min, weight * size);
    }
    if (priority_.kind == PriorityKind::kProduct) return product;
    if (priority_.kind == PriorityKind::kSum) return sum;
    if (priority_.kind == PriorityKind::kMax) return max;
    return terms.empty() ? 0 : min;
  }

  static bool HasRoom(const OpenPattern& pattern, const std::vector<uint32_t>& tuple) {
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (tuple[k] > pattern.room[k]) return false;
    }
    return pattern.graphs_left > 0;
  }

  void AddOne(OpenPattern& pattern, const std::vector<uint32_t>& tuple) const {
    ++pattern.graphs[tuple];
    for (size_t k = 0; k < tuple.size(); ++k) {
      if (limits_.has_limit(k)) pattern.room[k] -= tuple[k];
    }
    if (limits_.graphs() != kUnlimited) --pattern.graphs_left;
  }

  uint64_t CopiesInAnEmptyPack(const std::vector<uint32_t>& tuple, uint64_t most) const {
    OpenPattern empty;
    empty.room.assign(limits_.capacities().begin(), limits_.capacities().end() - 1);
    empty.graphs_left = limits_.graphs();
    uint64_t copies = 0;
    for (; copies < most && HasRoom(empty, tuple); ++copies) AddOne(empty, tuple);
    return copies;
  }

  // Whether `a` is to be preferred to `b`.
  bool IsBetter(const OpenPattern& a, const OpenPattern& b) const {
    const uint64_t left_a = PriorityOf(a.room);
    const uint64_t left_b = PriorityOf(b.room);
    if (left_a != left_b) return (left_a < left_b) == (placement_ == PlacementRule::kBestFit);
    return a.opened < b.opened;
  }

  // Puts some of the graphs somewhere; returns how many.
  uint64_t Place(const std::vector<uint32_t>& tuple, uint64_t remaining) {
    OpenPattern* best = nullptr;
    for (OpenPattern& pattern : patterns_) {
      if (HasRoom(pattern, tuple) && (best == nullptr || IsBetter(pattern, *best))) best = &pattern;
    }
    OpenPattern grown;
    uint64_t each = 1;
    if (best == nullptr) {
      grown.room.assign(limits_.capacities().begin(), limits_.capacities().end() - 1);
      grown.graphs_left = limits_.graphs();
      each = opening_ == OpeningRule::kFill ? CopiesInAnEmptyPack(tuple, remaining) : 1;
      grown.repeats = remaining / each;
      grown.opened = num_opened_;
      num_opened_ += grown.repeats;
    } else {
      grown = *best;
      grown.repeats = std::min(remaining, best->repeats);
      best->repeats -= grown.repeats;
      best->opened += grown.repeats;
      if (best->repeats == 0) patterns_.erase(patterns_.begin() + (best - patterns_.data()));
    }
    for (uint64_t i = 0; i < each; ++i) AddOne(grown, tuple);
    patterns_.push_back(grown);
    return each * grown.repeats;
  }

  const Limits& limits_;
  const Priority& priority_;
  const PlacementRule placement_;
  const OpeningRule opening_;
  std::vector<OpenPattern> patterns_;
  uint64_t num_opened_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_BASELINES_REFERENCE_TUPLE_PACKING_H_
