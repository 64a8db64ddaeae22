// The limits that a device profile allows, and a lower bound on the cost of each. Capacities here
// count real rows only; rows that padding keeps free only add to the cost of a batch.
//
// A batch's cost is a weighted sum of its capacities and a constant, with a floor. So is the
// inverse of the harmonic mean of the efficiencies (with weights 1 / total). Both objectives
// therefore minimise "packs * weighted sum of capacities". No plan has fewer packs than the volume
// bound. So among all limits whose volume bound is P packs, the least capacities for P packs have
// the best bound. This gives one *balanced* candidate for each P, in a chain from the largest
// capacities to the smallest. All others are reached from a balanced candidate by enlarging
// capacities as long as the volume bound stays P. Best-first search is therefore possible without
// listing the grid (candidate_queue.h).
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_CANDIDATE_GRID_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_CANDIDATE_GRID_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"

namespace packhouse {

// What the graphs need, for each component, `graphs` last.
struct GraphDemand {
  std::vector<uint64_t> totals;
  // The greatest common divisor of the sizes; 0 if all are 0.
  std::vector<uint64_t> divisors;
  // The largest size; a capacity must not be smaller.
  std::vector<uint64_t> largest;
};
GraphDemand DemandOf(const SizeHistogram& histogram);

// The capacities of one component that matter. Capacities hold the same if the divisor of the sizes
// goes into them equally often; of these only the smallest matters. Capacities above the first that
// holds everything do not matter. Immutable; thread-safe.
class CapacityAxis {
 public:
  // Requires that the profile has a limit and allows a capacity of `largest`, which is not below
  // `divisor`.
  CapacityAxis(const ComponentProfile& profile, uint64_t total, uint64_t divisor, uint64_t largest);

  // At least 1.
  uint64_t size() const { return size_; }
  // Ascending with `position` < size(). O(1).
  uint64_t capacity(uint64_t position) const;
  // The least packs for the total with that capacity; 0 if the total is 0. O(1).
  uint64_t LeastPacks(uint64_t position) const;
  // The first position whose LeastPacks is at most `packs`, if there is one. `packs` must be above
  // 0.
  std::optional<uint64_t> FirstPosition(uint64_t packs) const;

 private:
  uint64_t multiple_;
  // A capacity is a multiple minus these.
  uint64_t reserved_;
  uint64_t divisor_;
  uint64_t total_units_;
  uint64_t first_;
  uint64_t size_;
};

// Position on each axis of a component that has a cost.
using GridPositions = std::vector<uint64_t>;

struct Candidate {
  // l + 1 entries, `graphs` last; kUnlimited where the profile has no limit.
  std::vector<uint64_t> capacities;
  // The volume bound.
  uint64_t least_packs = 0;
  // least_packs * the weight of a batch: no plan is better.
  double bound = 0;
};

// All candidates of a profile. Components without a cost get, together, the largest capacities that
// the memory allows beside the others. Immutable; thread-safe.
class CandidateGrid {
 public:
  // The weight of a batch besides its capacities: a part that all batches have, and the least that
  // any has.
  struct BatchWeight {
    double fixed = 0;
    double least = 0;
  };

  // `weights`: per component, `graphs` last; 0 where relative_cost is 0. Requires that the profile
  // is checked (CheckDeviceProfile), takes `demand.largest` within its memory, and outlives this.
  CandidateGrid(GraphDemand demand, const DeviceProfile& profile, absl::Span<const double> weights,
                BatchWeight batch_weight);

  // Components that have a limit and a cost.
  size_t num_axes() const { return axes_.size(); }
  // Number of candidates, those that need too much memory included; UINT64_MAX if there are more.
  uint64_t num_candidates() const;

  // The balanced candidate: the least capacities that may need no more than `packs` packs. nullopt
  // if those are too large.
  std::optional<GridPositions> Balanced(uint64_t packs) const;
  // Fewest packs for which there is a balanced candidate, and most: those of the least capacities.
  uint64_t fewest_packs() const { return fewest_packs_; }
  uint64_t most_packs() const { return most_packs_; }
  // Calls visit(packs, positions) for the distinct balanced candidates, from the largest to the
  // smallest, until it returns false. `packs` is their LeastCostedPacks. If there are more than
  // about `most` (above 45), some are left out, of the smaller ones the more; then, or if `visit`
  // ended it, the result is false.
  template <typename Visit>
  bool VisitBalanced(uint64_t most, const Visit& visit) const;

  // Goes one position further on an axis. Returns false and changes nothing if there is no further
  // position, if it needs too much memory, or if LeastCostedPacks would become less.
  bool Enlarge(size_t axis, GridPositions& positions) const;

  // The volume bound by the components that have a cost; at least 1.
  uint64_t LeastCostedPacks(const GridPositions& positions) const;
  // The volume bound.
  uint64_t LeastPacks(const GridPositions& positions) const;
  // packs * the weight of a batch: the weighted sum of capacities with reserved rows, and what
  // BatchWeight says. Never less for larger arguments, even with rounding.
  double ValueOf(const GridPositions& positions, uint64_t packs) const;
  double ValueOfCapacities(absl::Span<const uint64_t> capacities, uint64_t packs) const;
  Candidate At(const GridPositions& positions) const;

  // A candidate from any allowed capacities of the components with a cost, whether they matter or
  // not; the other components are filled in. nullopt if the largest graph does not fit, or the
  // memory is exceeded.
  std::optional<Candidate> Fill(std::vector<uint64_t> capacities) const;

 private:
  struct Axis {
    size_t component;
    CapacityAxis capacities;
  };

  std::vector<Axis> AxesOf(bool costed) const;
  // The weight of a capacity with its reserved rows.
  double WeightOf(size_t component, uint64_t capacity) const;
  // With the least capacities of the components without a cost.
  std::vector<uint64_t> LeastCapacities(const GridPositions& positions) const;
  // Capacities of the components without a cost that may need no more than `packs`.
  void SetFree(uint64_t packs, std::vector<uint64_t>& capacities) const;
  // Enlarges the components without a cost as far as the memory allows.
  void FillFree(std::vector<uint64_t>& capacities) const;
  uint64_t VolumeBound(absl::Span<const uint64_t> capacities) const;

  GraphDemand demand_;
  const DeviceProfile& profile_;
  std::vector<double> weights_;
  const BatchWeight batch_weight_;
  std::vector<Axis> axes_;
  std::vector<Axis> free_axes_;
  // The volume bound by the components without a cost, at their largest and at their least.
  uint64_t fewest_free_packs_ = 1;
  uint64_t most_free_packs_ = 1;
  uint64_t fewest_packs_ = 1;
  uint64_t most_packs_ = 1;
};

template <typename Visit>
bool CandidateGrid::VisitBalanced(uint64_t most, const Visit& visit) const {
  // The chain has at most one candidate for each number of packs, and one for each position.
  uint64_t num_positions = 0;
  for (const Axis& axis : axes_) {
    num_positions += std::min(axis.capacities.size(), UINT64_MAX - num_positions);
  }
  const bool all = std::min(most_packs_ - fewest_packs_, num_positions) <= most;
  // 2^64 is less than e^45. So `most` steps by the factor 1 + 45 / most lead from 1 to any number
  // of packs.
  const uint64_t coarseness = std::max<uint64_t>(most / 45, 1);
  for (uint64_t packs = fewest_packs_;;) {
    const GridPositions positions = *Balanced(packs);
    if (!visit(LeastCostedPacks(positions), positions)) return false;
    // The next number of packs for which some capacity may be smaller.
    std::optional<uint64_t> next;
    for (size_t j = 0; j < axes_.size(); ++j) {
      if (positions[j] == 0) continue;
      const uint64_t packs_below = axes_[j].capacities.LeastPacks(positions[j] - 1);
      next = std::min(next.value_or(UINT64_MAX), packs_below);
    }
    if (!next) return all;
    if (!all) next = std::max(*next, packs + std::min(packs / coarseness, most_packs_ - packs));
    packs = *next;
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_CANDIDATE_GRID_H_
