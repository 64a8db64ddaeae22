#include "service/algorithms/planning/optimizer/pattern_program.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace packhouse {
namespace {

// What counts as zero. Reduced costs are of the order of 1, packs of the order of the demand.
constexpr double kCostTolerance = 1e-9;
constexpr double kPacksTolerance = 1e-9;
constexpr double kLeastPivot = 1e-7;
// After this many pivots in a row that change no packs, besides one for each item, the method may
// go in a circle, and is led out of it.
constexpr size_t kMostIdlePivots = 100;
// The packs that are added to each basic column then, at least, and at most twice as many: more
// than rounding errors, and less than what counts when whole packs are made.
constexpr double kAddedPacks = 1e-6;

}  // namespace

PatternProgram::PatternProgram(absl::Span<const double> demand,
                               absl::Span<const uint32_t> most_copies, VectorLevel level)
    : n_(demand.size()),
      kernels_(VectorKernelsOf(level)),
      starts_({0}),
      inverse_(n_ * n_),
      packs_(n_),
      demand_(demand.begin(), demand.end()),
      duals_(n_),
      direction_(n_),
      leaving_row_(n_) {
  for (uint32_t i = 0; i < n_; ++i) {
    const PatternEntry entry = {i, most_copies[i]};
    AddPattern({&entry, 1});
  }
  StartOver();
}

void PatternProgram::StartOver() {
  is_disturbed_ = false;
  basis_.resize(n_);
  std::iota(basis_.begin(), basis_.end(), 0);
  std::fill(inverse_.begin(), inverse_.end(), 0.0);
  for (size_t i = 0; i < n_; ++i) {
    const double inverse = 1.0 / pattern(i)[0].copies;
    inverse_[i * n_ + i] = inverse;
    duals_[i] = inverse;
    packs_[i] = demand_[i] * inverse;
  }
}

void PatternProgram::AddPattern(absl::Span<const PatternEntry> entries) {
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  starts_.push_back(entries_.size());
}

double PatternProgram::ReducedCost(size_t p) const {
  double cost = 1;
  for (size_t e = starts_[p]; e < starts_[p + 1]; ++e) {
    cost -= duals_[entries_[e].tuple] * entries_[e].copies;
  }
  return cost;
}

void PatternProgram::ComputeDirection(uint32_t column) {
  std::fill(direction_.begin(), direction_.end(), 0.0);
  const auto subtract = [&](size_t item, double factor) {
    kernels_.subtract_scaled(direction_.data(), inverse_.data() + item * n_, factor, n_);
  };
  if (column >= kSurplus) {
    subtract(column - kSurplus, 1);
  } else {
    for (const auto& [item, copies] : pattern(column)) subtract(item, -1.0 * copies);
  }
}

void PatternProgram::Pivot(size_t leaving, uint32_t entering, double reduced_cost) {
  const double pivot = direction_[leaving];
  for (size_t item = 0; item < n_; ++item) {
    double* const column = inverse_.data() + item * n_;
    if (column[leaving] == 0) continue;
    const double scaled = column[leaving] / pivot;
    kernels_.subtract_scaled(column, direction_.data(), scaled, n_);
    column[leaving] = scaled;
    duals_[item] += reduced_cost * scaled;
  }
  const double packs = packs_[leaving] / pivot;
  kernels_.subtract_scaled(packs_.data(), direction_.data(), packs, n_);
  packs_[leaving] = packs;
  basis_[leaving] = entering;
}

bool PatternProgram::SolvePrimal(WorkBudget& budget) {
  // Far more pivots than are ever needed.
  const size_t most_pivots = 40 * n_ + 1000;
  // Pivots since the last one that changed packs.
  size_t idle = 0;
  SeededRandom random(n_);
  // Columns that had a negative reduced cost when all columns were last looked at. Only these are
  // looked at until none is left (multiple pricing).
  std::vector<uint32_t> candidates;
  bool complete = false;
  for (size_t pivots = 0; pivots < most_pivots;) {
    // The most negative reduced cost (Dantzig).
    uint32_t entering = UINT32_MAX;
    double least = -kCostTolerance;
    const auto consider = [&](uint32_t column, double cost) {
      if (cost < least) {
        least = cost;
        entering = column;
      }
      return cost < -kCostTolerance;
    };
    complete = candidates.empty();
    if (complete) {
      if (!budget.Spend(entries_.size())) return false;
      for (uint32_t p = 0; p < num_patterns(); ++p) {
        if (consider(p, ReducedCost(p))) candidates.push_back(p);
      }
      for (uint32_t i = 0; i < n_; ++i) {
        if (consider(kSurplus + i, duals_[i])) candidates.push_back(kSurplus + i);
      }
    } else {
      std::erase_if(candidates, [&](uint32_t column) {
        return !consider(column,
                         column >= kSurplus ? duals_[column - kSurplus] : ReducedCost(column));
      });
    }
    if (entering == UINT32_MAX) {
      if (!complete) continue;
      if (!is_disturbed_) return true;
      // The duals are optimal. The packs have to be those of the demand again.
      ComputePacks();
      return PivotDual(budget) == End::kOptimum;
    }
    ++pivots;
    ComputeDirection(entering);
    if (!budget.Spend(8 * candidates.size() + n_ * n_ / 16 + 8 * n_)) return false;
    // The column leaves whose packs come to 0 first; of several, that with the largest pivot, by
    // which rounding errors grow least.
    size_t leaving = n_;
    double least_ratio = 0;
    for (size_t row = 0; row < n_; ++row) {
      if (direction_[row] <= kLeastPivot) continue;
      const double ratio = std::max(packs_[row], 0.0) / direction_[row];
      if (leaving == n_ || ratio < least_ratio ||
          (ratio == least_ratio && direction_[row] > direction_[leaving])) {
        least_ratio = ratio;
        leaving = row;
      }
    }
    // Packs without a bound: not of this program, but of rounding errors.
    if (leaving == n_) return false;
    idle = least_ratio <= kPacksTolerance ? idle + 1 : 0;
    Pivot(leaving, entering, least);
    // Perhaps a circle.
    if (idle > n_ + kMostIdlePivots) {
      Disturb(random);
      idle = 0;
    }
  }
  return false;
}

void PatternProgram::Disturb(SeededRandom& random) {
  for (double& packs : packs_) {
    const double share = static_cast<double>(random.Below(uint64_t{1} << 20)) / (1 << 20);
    packs = std::max(packs, 0.0) + kAddedPacks * (1 + share);
  }
  is_disturbed_ = true;
}

void PatternProgram::SetDemand(absl::Span<const double> demand) {
  demand_.assign(demand.begin(), demand.end());
  ComputePacks();
}

void PatternProgram::ComputePacks() {
  is_disturbed_ = false;
  std::fill(packs_.begin(), packs_.end(), 0.0);
  for (size_t i = 0; i < n_; ++i) {
    if (demand_[i] == 0) continue;
    kernels_.subtract_scaled(packs_.data(), inverse_.data() + i * n_, -demand_[i], n_);
  }
}

bool PatternProgram::SolveDual(WorkBudget& budget) {
  const End end = PivotDual(budget);
  if (end != End::kStuck) return end == End::kOptimum;
  StartOver();
  return SolvePrimal(budget);
}

PatternProgram::End PatternProgram::PivotDual(WorkBudget& budget) {
  // Pivots since the last one that changed duals.
  size_t idle = 0;
  for (size_t pivots = 0; pivots < 40 * n_ + 1000; ++pivots) {
    // The column with the most negative packs leaves.
    size_t leaving = n_;
    double least = -1e-7;
    for (size_t row = 0; row < n_; ++row) {
      if (packs_[row] < least) {
        least = packs_[row];
        leaving = row;
      }
    }
    if (leaving == n_) return End::kOptimum;
    if (!budget.Spend(2 * entries_.size() + n_ * n_ / 16 + 8 * n_)) return End::kNoBudget;
    for (size_t i = 0; i < n_; ++i) leaving_row_[i] = inverse_[i * n_ + leaving];
    // The column enters whose reduced cost comes to 0 first, so that none becomes negative.
    uint32_t entering = UINT32_MAX;
    double least_ratio = 0;
    double best_pivot = 0;
    double entering_cost = 0;
    const auto consider = [&](uint32_t column, double pivot, double cost) {
      if (pivot >= -kLeastPivot) return;
      const double ratio = std::max(cost, 0.0) / -pivot;
      if (entering == UINT32_MAX || ratio < least_ratio ||
          (ratio == least_ratio && pivot < best_pivot)) {
        entering = column;
        least_ratio = ratio;
        best_pivot = pivot;
        entering_cost = cost;
      }
    };
    for (size_t p = 0; p < num_patterns(); ++p) {
      double pivot = 0;
      for (size_t e = starts_[p]; e < starts_[p + 1]; ++e) {
        pivot += leaving_row_[entries_[e].tuple] * entries_[e].copies;
      }
      if (pivot < -kLeastPivot) consider(static_cast<uint32_t>(p), pivot, ReducedCost(p));
    }
    for (uint32_t i = 0; i < n_; ++i) consider(kSurplus + i, -leaving_row_[i], duals_[i]);
    if (entering == UINT32_MAX) return End::kStuck;
    ComputeDirection(entering);
    if (std::abs(direction_[leaving]) < kLeastPivot) return End::kStuck;
    Pivot(leaving, entering, entering_cost);
    idle = least_ratio <= kCostTolerance ? idle + 1 : 0;
    if (idle > n_ + kMostIdlePivots) break;
  }
  return End::kStuck;
}

double PatternProgram::Value() const {
  double value = 0;
  for (size_t row = 0; row < n_; ++row) {
    if (basis_[row] < kSurplus) value += packs_[row];
  }
  return value;
}

std::vector<PatternProgram::Use> PatternProgram::Uses() const {
  std::vector<Use> uses;
  for (size_t row = 0; row < n_; ++row) {
    if (basis_[row] < kSurplus && packs_[row] > kPacksTolerance) {
      uses.push_back({basis_[row], packs_[row]});
    }
  }
  return uses;
}

}  // namespace packhouse
