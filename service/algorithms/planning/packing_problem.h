// A histogram and limits as this room's planners see them: reduced to the components that can bind.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PACKING_PROBLEM_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PACKING_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"

namespace packhouse {

// n items with counts, to go into packs of m capacities. Items are numbered as a plan's tuples.
//
// A component is left out if no pack can exceed it: it has no limit, or its total is within the
// capacity, or (for `graphs`) another component is always full first. Sizes and capacities of the
// other components are divided by the gcd of the sizes; capacities are rounded down. A set of
// graphs fits the reduced capacities exactly if it fits the original ones. Immutable; thread-safe.
class PackingProblem {
 public:
  // Requires that each graph fits by itself. O(n log n + n * l).
  PackingProblem(const SizeHistogram& histogram, const Limits& limits);
  // The same items and capacities with n other counts; a count may be 0. O(n * m).
  PackingProblem(const PackingProblem& problem, std::vector<uint64_t> counts);
  // Runs of items with equal sizes as one item each, which has the counts of all and the tuple of
  // the first. `items` are all items, `starts` where the runs begin there, and their end. O(n * l).
  PackingProblem(const PackingProblem& problem, absl::Span<const uint32_t> items,
                 absl::Span<const uint32_t> starts);

  size_t num_items() const { return counts_.size(); }
  // m. It may be 0: then one pack takes everything.
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
  // The number of component k in the histogram; l is `graphs`.
  size_t original(size_t k) const { return items_->originals[k]; }

  // How many graphs of item i fit into one pack; 2^32 - 1 if there is no bound.
  uint32_t MostCopies(size_t i) const;
  // Largest share of a capacity that item i takes, in [0, 1].
  double LargestShare(size_t i) const;

  // A plan without patterns, with all tuples.
  const PackingPlan& empty_plan() const { return items_->empty_plan; }

 private:
  // The parts that do not depend on the counts.
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

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PACKING_PROBLEM_H_
