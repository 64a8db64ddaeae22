// A histogram and limits as the planners of this room see them: only what can bind is left.
#ifndef PACKHOUSE_SERVICE_PLANNING_PACKING_PROBLEM_H_
#define PACKHOUSE_SERVICE_PLANNING_PACKING_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "service/histograms/size_histogram.h"
#include "service/planning/limits.h"
#include "service/planning/plan.h"

namespace packhouse {

// n items with counts, to go into packs of m capacities. Items are numbered as a plan's tuples.
//
// A component is left out if no pack can exceed it: it has no limit, or its total is within the
// capacity, or (for `graphs`) each other pack is full before. Sizes and capacities of the rest are
// divided by the gcd of the sizes, capacities rounded down; a set of graphs fits exactly if it fits
// so. Immutable; thread-safe.
class PackingProblem {
 public:
  // Requires that each graph fits by itself. O(n log n + n * l).
  PackingProblem(const SizeHistogram& histogram, const Limits& limits);
  // The same items and capacities with other counts, n of them, 0 allowed. O(n * m).
  PackingProblem(const PackingProblem& problem, std::vector<uint64_t> counts);

  size_t num_items() const { return counts_.size(); }
  // m. May be 0: then one pack takes everything.
  size_t num_components() const { return items_->capacities.size(); }

  // The m sizes of item i.
  absl::Span<const uint32_t> sizes(size_t i) const {
    return absl::MakeConstSpan(items_->sizes).subspan(i * num_components(), num_components());
  }
  uint64_t count(size_t i) const { return counts_[i]; }
  absl::Span<const uint64_t> counts() const { return counts_; }
  uint64_t capacity(size_t k) const { return items_->capacities[k]; }
  absl::Span<const uint64_t> capacities() const { return items_->capacities; }
  // Sum of component k over all items.
  uint64_t total(size_t k) const { return totals_[k]; }
  uint64_t num_graphs() const { return num_graphs_; }
  // Which component of the histogram component k is; l is `graphs`.
  size_t original(size_t k) const { return items_->originals[k]; }

  // How many graphs of item i alone make a full pack; 2^32 - 1 if there is no end to them.
  uint32_t MostCopies(size_t i) const;
  // Largest share of a capacity that item i takes, in [0, 1].
  double LargestShare(size_t i) const;

  // A plan without patterns, with all tuples.
  const PackingPlan& empty_plan() const { return items_->empty_plan; }

 private:
  // What does not depend on the counts.
  struct Items {
    PackingPlan empty_plan;
    std::vector<uint32_t> sizes;  // Row-major.
    std::vector<uint64_t> capacities;
    std::vector<size_t> originals;
  };

  void ComputeTotals();

  std::shared_ptr<const Items> items_;
  std::vector<uint64_t> counts_;
  std::vector<uint64_t> totals_;
  uint64_t num_graphs_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_PACKING_PROBLEM_H_
