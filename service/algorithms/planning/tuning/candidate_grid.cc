#include "service/algorithms/planning/tuning/candidate_grid.h"

#include <numeric>
#include <utility>

namespace packhouse {
namespace {

uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// The first number in [low, high] for which `holds` is true. `holds` must be false up to some
// number, and true from there on; it is true for `high`.
template <typename Predicate>
uint64_t FirstThat(uint64_t low, uint64_t high, const Predicate& holds) {
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

GraphDemand DemandOf(const SizeHistogram& histogram) {
  const size_t l = histogram.num_components();
  GraphDemand demand;
  for (size_t k = 0; k < l; ++k) {
    demand.totals.push_back(histogram.total(k));
    demand.largest.push_back(histogram.maximum(k));
    uint64_t divisor = 0;
    for (size_t row = 0; row < histogram.num_distinct() && divisor != 1; ++row) {
      divisor = std::gcd(divisor, uint64_t{histogram.tuple(row)[k]});
    }
    demand.divisors.push_back(divisor);
  }
  demand.totals.push_back(histogram.num_graphs());
  demand.largest.push_back(1);
  demand.divisors.push_back(1);
  return demand;
}

CapacityAxis::CapacityAxis(const ComponentProfile& profile, uint64_t total, uint64_t divisor,
                           uint64_t largest)
    : multiple_(profile.multiple_of),
      reserved_(profile.reserved_rows),
      divisor_(std::max<uint64_t>(divisor, 1)) {
  total_units_ = total / divisor_;
  const uint64_t last = LargestCapacity(profile);
  first_ = std::max(SmallestCapacity(profile), CapacityFor(profile, largest));
  // Each multiple counts where it is no smaller than the divisor; else only the first multiple that
  // takes one divisor more.
  uint64_t first_that_holds_all = 0;
  if (multiple_ >= divisor_) {
    size_ = (last - first_) / multiple_ + 1;
    if (total > first_) first_that_holds_all = DivideUp(total - first_, multiple_);
  } else {
    size_ = last / divisor_ - first_ / divisor_ + 1;
    const uint64_t first_units = first_ / divisor_;
    if (total_units_ > first_units) first_that_holds_all = total_units_ - first_units;
  }
  size_ = std::min(size_ - 1, first_that_holds_all) + 1;
}

uint64_t CapacityAxis::capacity(uint64_t position) const {
  if (multiple_ >= divisor_) return first_ + position * multiple_;
  if (position == 0) return first_;
  const uint64_t rows = (first_ / divisor_ + position) * divisor_;
  return DivideUp(rows + reserved_, multiple_) * multiple_ - reserved_;
}

uint64_t CapacityAxis::LeastPacks(uint64_t position) const {
  return total_units_ == 0 ? 0 : DivideUp(total_units_, capacity(position) / divisor_);
}

std::optional<uint64_t> CapacityAxis::FirstPosition(uint64_t packs) const {
  const uint64_t units = DivideUp(total_units_, packs);
  const uint64_t first_units = first_ / divisor_;
  if (units <= first_units) return 0;
  const uint64_t position =
      multiple_ >= divisor_ ? DivideUp(units * divisor_ - first_, multiple_) : units - first_units;
  if (position >= size_) return std::nullopt;
  return position;
}

CandidateGrid::CandidateGrid(GraphDemand demand, const DeviceProfile& profile,
                             absl::Span<const double> weights, BatchWeight batch_weight)
    : demand_(std::move(demand)),
      profile_(profile),
      weights_(weights.begin(), weights.end()),
      batch_weight_(batch_weight),
      axes_(AxesOf(/*costed=*/true)),
      free_axes_(AxesOf(/*costed=*/false)) {
  for (const Axis& axis : free_axes_) {
    const CapacityAxis& capacities = axis.capacities;
    fewest_free_packs_ = std::max(fewest_free_packs_, capacities.LeastPacks(capacities.size() - 1));
    most_free_packs_ = std::max(most_free_packs_, capacities.LeastPacks(0));
  }
  // Capacities for fewer packs are larger, so they are allowed from some number of packs on.
  most_packs_ = LeastCostedPacks(GridPositions(axes_.size(), 0));
  fewest_packs_ =
      FirstThat(1, most_packs_, [this](uint64_t packs) { return Balanced(packs).has_value(); });
}

std::vector<CandidateGrid::Axis> CandidateGrid::AxesOf(bool costed) const {
  std::vector<Axis> axes;
  for (size_t k = 0; k < profile_.components.size(); ++k) {
    const ComponentProfile& component = profile_.components[k];
    if (component.max_rows == 0 || (component.relative_cost > 0) != costed) continue;
    axes.push_back(
        {k, CapacityAxis(component, demand_.totals[k], demand_.divisors[k], demand_.largest[k])});
  }
  return axes;
}

uint64_t CandidateGrid::num_candidates() const {
  uint64_t candidates = 1;
  for (const Axis& axis : axes_) {
    if (__builtin_mul_overflow(candidates, axis.capacities.size(), &candidates)) return UINT64_MAX;
  }
  return candidates;
}

std::optional<GridPositions> CandidateGrid::Balanced(uint64_t packs) const {
  GridPositions positions(axes_.size());
  for (size_t j = 0; j < axes_.size(); ++j) {
    const std::optional<uint64_t> position = axes_[j].capacities.FirstPosition(packs);
    if (!position) return std::nullopt;
    positions[j] = *position;
  }
  if (HasMemoryBound(profile_) && !FitsMemory(profile_, LeastCapacities(positions))) {
    return std::nullopt;
  }
  return positions;
}

bool CandidateGrid::Enlarge(size_t axis, GridPositions& positions) const {
  if (positions[axis] + 1 == axes_[axis].capacities.size()) return false;
  const uint64_t packs = LeastCostedPacks(positions);
  ++positions[axis];
  if (LeastCostedPacks(positions) == packs &&
      (!HasMemoryBound(profile_) || FitsMemory(profile_, LeastCapacities(positions)))) {
    return true;
  }
  --positions[axis];
  return false;
}

uint64_t CandidateGrid::LeastCostedPacks(const GridPositions& positions) const {
  uint64_t packs = 1;
  for (size_t j = 0; j < axes_.size(); ++j) {
    packs = std::max(packs, axes_[j].capacities.LeastPacks(positions[j]));
  }
  return packs;
}

uint64_t CandidateGrid::LeastPacks(const GridPositions& positions) const {
  const uint64_t packs = std::max(LeastCostedPacks(positions), fewest_free_packs_);
  if (!HasMemoryBound(profile_)) return packs;
  // Components without a cost may need more packs with what memory the others leave.
  std::vector<uint64_t> capacities = LeastCapacities(positions);
  SetFree(packs, capacities);
  if (FitsMemory(profile_, capacities)) return packs;
  FillFree(capacities);
  return VolumeBound(capacities);
}

double CandidateGrid::ValueOf(const GridPositions& positions, uint64_t packs) const {
  double value = batch_weight_.fixed;
  for (size_t j = 0; j < axes_.size(); ++j) {
    value += WeightOf(axes_[j].component, axes_[j].capacities.capacity(positions[j]));
  }
  return static_cast<double>(packs) * std::max(value, batch_weight_.least);
}

double CandidateGrid::ValueOfCapacities(absl::Span<const uint64_t> capacities,
                                        uint64_t packs) const {
  double value = batch_weight_.fixed;
  for (const Axis& axis : axes_) {
    value += WeightOf(axis.component, capacities[axis.component]);
  }
  return static_cast<double>(packs) * std::max(value, batch_weight_.least);
}

double CandidateGrid::WeightOf(size_t component, uint64_t capacity) const {
  return weights_[component] *
         static_cast<double>(capacity + profile_.components[component].reserved_rows);
}

Candidate CandidateGrid::At(const GridPositions& positions) const {
  Candidate candidate;
  candidate.capacities = LeastCapacities(positions);
  FillFree(candidate.capacities);
  candidate.least_packs = VolumeBound(candidate.capacities);
  candidate.bound = ValueOfCapacities(candidate.capacities, candidate.least_packs);
  return candidate;
}

std::optional<Candidate> CandidateGrid::Fill(std::vector<uint64_t> capacities) const {
  for (const Axis& axis : axes_) {
    if (capacities[axis.component] < demand_.largest[axis.component]) return std::nullopt;
  }
  SetFree(most_free_packs_, capacities);
  if (!FitsMemory(profile_, capacities)) return std::nullopt;
  FillFree(capacities);
  Candidate candidate;
  candidate.least_packs = VolumeBound(capacities);
  candidate.bound = ValueOfCapacities(capacities, candidate.least_packs);
  candidate.capacities = std::move(capacities);
  return candidate;
}

std::vector<uint64_t> CandidateGrid::LeastCapacities(const GridPositions& positions) const {
  std::vector<uint64_t> capacities(profile_.components.size(), kUnlimited);
  for (size_t j = 0; j < axes_.size(); ++j) {
    capacities[axes_[j].component] = axes_[j].capacities.capacity(positions[j]);
  }
  for (const Axis& axis : free_axes_) capacities[axis.component] = axis.capacities.capacity(0);
  return capacities;
}

void CandidateGrid::SetFree(uint64_t packs, std::vector<uint64_t>& capacities) const {
  for (const Axis& axis : free_axes_) {
    capacities[axis.component] = axis.capacities.capacity(
        axis.capacities.FirstPosition(packs).value_or(axis.capacities.size() - 1));
  }
}

void CandidateGrid::FillFree(std::vector<uint64_t>& capacities) const {
  if (free_axes_.empty()) return;
  for (const Axis& axis : free_axes_) {
    capacities[axis.component] = axis.capacities.capacity(axis.capacities.size() - 1);
  }
  if (FitsMemory(profile_, capacities)) return;
  // First all grow in proportion, as the graphs need them; then each, in order, takes what is left.
  SetFree(FirstThat(fewest_free_packs_, most_free_packs_,
                    [&](uint64_t packs) {
                      SetFree(packs, capacities);
                      return FitsMemory(profile_, capacities);
                    }),
          capacities);
  for (const Axis& axis : free_axes_) {
    uint64_t& capacity = capacities[axis.component];
    const uint64_t reached = capacity;
    const uint64_t size = axis.capacities.size();
    const uint64_t first_too_large = FirstThat(0, size, [&](uint64_t position) {
      if (position == size) return true;
      capacity = axis.capacities.capacity(position);
      return capacity > reached && !FitsMemory(profile_, capacities);
    });
    capacity = axis.capacities.capacity(first_too_large - 1);
  }
}

uint64_t CandidateGrid::VolumeBound(absl::Span<const uint64_t> capacities) const {
  uint64_t packs = 1;
  for (size_t k = 0; k < capacities.size(); ++k) {
    if (capacities[k] == kUnlimited || demand_.divisors[k] == 0) continue;
    packs = std::max(packs, DivideUp(demand_.totals[k] / demand_.divisors[k],
                                     capacities[k] / demand_.divisors[k]));
  }
  return packs;
}

}  // namespace packhouse
