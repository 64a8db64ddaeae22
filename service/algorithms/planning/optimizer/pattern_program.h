// The linear program over a pool of patterns: the least packs, in fractions, that cover a demand.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PATTERN_PROGRAM_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PATTERN_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/vector_kernels.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/seeded_random.h"

namespace packhouse {

// min sum x_p  subject to  sum_p copies_pi * x_p >= demand_i for each item i, x >= 0.
//
// Revised simplex with the whole inverse of the basis, dense: suitable for some hundred items.
// Where the demand is met exactly by few patterns, many pivots in a row can change no packs, and
// the method could go in a circle. It is led out by adding a few packs, which are taken off in the
// end. Values are doubles, close but not exact: nothing here is a proof. Thread-compatible.
class PatternProgram {
 public:
  // Starts with one pattern for each item, with `most_copies` of it, as the basis. O(n^2) memory.
  PatternProgram(absl::Span<const double> demand, absl::Span<const uint32_t> most_copies,
                 VectorLevel level);

  // Entries must be ascending, with at most 2^31 copies each.
  void AddPattern(absl::Span<const PatternEntry> entries);

  // The patterns of the pool. The patterns of one item come first.
  size_t num_patterns() const { return starts_.size() - 1; }
  absl::Span<const PatternEntry> pattern(size_t p) const {
    return absl::MakeConstSpan(entries_).subspan(starts_[p], starts_[p + 1] - starts_[p]);
  }

  // Goes to the optimum over the pool, from a basis that covers the demand. False if `budget` ran
  // out or rounding errors stopped it.
  bool SolvePrimal(WorkBudget& budget);
  // Goes to the optimum after a change of demand, from a basis that was optimal before; or, if that
  // comes to no end, from the first basis.
  bool SolveDual(WorkBudget& budget);
  void SetDemand(absl::Span<const double> demand);

  // Packs.
  double Value() const;
  // One for each item, >= -1e-9.
  absl::Span<const double> duals() const { return duals_; }

  struct Use {
    uint32_t pattern;
    double packs;
  };
  // Patterns with more than 1e-9 packs, in the order of the basis.
  std::vector<Use> Uses() const;

 private:
  double ReducedCost(size_t p) const;
  void ComputeDirection(uint32_t column);
  void Pivot(size_t leaving, uint32_t entering, double reduced_cost);
  // Adds a few packs to each basic column, a different number to each, so that pivots change packs.
  void Disturb(SeededRandom& random);
  // Makes the patterns of one item the basis again, which covers any demand.
  void StartOver();
  enum class End { kOptimum, kStuck, kNoBudget };
  End PivotDual(WorkBudget& budget);
  // The packs of the basic columns, from the demand.
  void ComputePacks();

  size_t n_;
  VectorKernels kernels_;
  std::vector<size_t> starts_;
  std::vector<PatternEntry> entries_;

  // Numbers of columns: p for pattern p, kSurplus + i for the surplus of item i.
  static constexpr uint32_t kSurplus = uint32_t{1} << 31;
  std::vector<uint32_t> basis_;      // [row] column
  std::vector<double> inverse_;      // [item][row]
  std::vector<double> packs_;        // [row], of the basic column
  bool is_disturbed_ = false;        // Packs were added to these.
  std::vector<double> demand_;       // [item]
  std::vector<double> duals_;        // [item]
  std::vector<double> direction_;    // [row]
  std::vector<double> leaving_row_;  // [item]
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PATTERN_PROGRAM_H_
