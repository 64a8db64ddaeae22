// Picks the sets of shapes that are worth a plan, by their volumes, as if graphs could be cut.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_SHAPE_PICKER_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_SHAPE_PICKER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/tuning/candidate_grid.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// A shape that may be one of several. Graphs are numbered by hardness, the hardest first. A graph's
// hardness is the size of the balanced shape that takes it.
struct ShapeOption {
  // The graphs from this number on fit.
  size_t first = 0;
  std::vector<uint64_t> capacities;
  double cost = 0;
};

// Numbers of options, ascending. The largest shape comes first; it takes every graph.
using ShapeSet = std::vector<size_t>;

// There are a few dozen thresholds in hardness, each with options of up to 16 sizes. A budget pays
// for the work; when it is used up, nothing better is found any more. Thread-compatible.
class ShapePicker {
 public:
  // The arguments must outlive the picker. Requires what CandidateGrid requires. O(d log d).
  ShapePicker(const SizeHistogram& histogram, const DeviceProfile& profile, WorkBudget& budget);

  const ShapeOption& option(size_t i) const { return options_[i]; }

  // The cost of all graphs without padding: no shapes cost less.
  double CostOfRows() const;

  // The best set of one shape; empty if `budget` did not suffice for a single option.
  ShapeSet BestSingle() const;
  // The best set with one shape more than `set`, found by adding a shape and then exchanging one at
  // a time. Empty if none is better than `set`.
  ShapeSet Extend(const ShapeSet& set);
  // The set with one shape more, in several ways: the best for each order of magnitude of the
  // shape's cost, since volumes say little about which size is easy to pack.
  std::vector<ShapeSet> Additions(const ShapeSet& set) const;
  // Sets in which one shape is exchanged for one of the next larger or smaller thresholds, or of
  // the next larger or smaller sizes.
  std::vector<ShapeSet> Neighbours(const ShapeSet& set) const;

 private:
  void SortByHardness();
  void ListOptions();

  static ShapeSet With(ShapeSet set, size_t option);
  static ShapeSet Without(ShapeSet set, size_t i);
  // Whether each shape takes more graphs than the next, and is larger in the components that have a
  // cost.
  bool IsNested(const ShapeSet& set) const;
  // The cost of an epoch if graphs could be cut and mixed at will.
  double CostOf(const ShapeSet& set) const;
  // The total of the graphs that fit shape i of the set but not the next.
  double TotalOf(const ShapeSet& set, size_t i, size_t k) const;
  // Takes the set as `best` if it costs less than `least`.
  bool Try(ShapeSet set, ShapeSet& best, double& least);
  std::vector<size_t> NextTo(size_t option) const;

  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  WorkBudget& budget_;
  const GraphDemand demand_;
  // Totals of the graphs from each number on, l + 1 entries each.
  std::vector<double> totals_;
  std::vector<uint64_t> largest_;
  std::vector<size_t> thresholds_;
  // By ascending `first`, then by ascending size.
  std::vector<ShapeOption> options_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_SHAPE_PICKER_H_
