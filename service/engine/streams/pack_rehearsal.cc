#include "service/engine/streams/pack_rehearsal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kPacks = 96;
constexpr uint64_t kMostDraws = uint64_t{1} << 17;
constexpr uint64_t kDrawsBetweenAsking = 256;
// A shape must lower the cost of all packs by this share to be worth compiling for.
constexpr double kLeastGain = 1e-3;
constexpr int kQuantiles = 16;

bool FitsInto(absl::Span<const uint64_t> rows, absl::Span<const uint64_t> capacities) {
  for (size_t k = 0; k < rows.size(); ++k) {
    if (capacities[k] != kUnlimited && rows[k] > capacities[k]) return false;
  }
  return true;
}

// Draws sizes in proportion to their counts.
class SizeDraw {
 public:
  SizeDraw(const SizeHistogram& histogram, const ShapeRoutes& usable) : histogram_(histogram) {
    uint64_t total = 0;
    for (const uint32_t row : histogram.SortedRows()) {
      if (!usable.RouteOf(histogram.tuple(row))) continue;
      total += histogram.count(row);
      rows_.push_back(row);
      ends_.push_back(total);
    }
  }
  bool empty() const { return rows_.empty(); }
  absl::Span<const uint32_t> Next() {
    const uint64_t place = random_.Below(ends_.back());
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), place);
    return histogram_.tuple(rows_[static_cast<size_t>(end - ends_.begin())]);
  }

 private:
  const SizeHistogram& histogram_;
  SeededRandom random_{kSeed};
  std::vector<uint32_t> rows_;
  std::vector<uint64_t> ends_;  // Running sums of their counts.
};

absl::StatusOr<Limits> PackableLimits(const Limits& usable) {
  std::vector<uint64_t> capacities(usable.capacities().begin(), usable.capacities().end());
  for (uint64_t& capacity : capacities) capacity = std::min(capacity, kMaxCapacity);
  return Limits::Create(std::move(capacities));
}

// The cost of the packs if each has the cheapest shape that takes it.
class PackCosts {
 public:
  PackCosts(const RehearsedPacks& packs, double cost) : packs_(packs), costs_(packs.size(), cost) {}

  double total() const {
    double total = 0;
    for (const double cost : costs_) total += cost;
    return total;
  }
  double GainOf(const UsableCapacities& shape, double cost) const {
    double gain = 0;
    for (size_t pack = 0; pack < costs_.size(); ++pack) {
      if (cost < costs_[pack] && FitsInto(packs_.rows(pack), shape)) gain += costs_[pack] - cost;
    }
    return gain;
  }
  void Take(const UsableCapacities& shape, double cost) {
    for (size_t pack = 0; pack < costs_.size(); ++pack) {
      if (FitsInto(packs_.rows(pack), shape)) costs_[pack] = std::min(costs_[pack], cost);
    }
  }

 private:
  const RehearsedPacks& packs_;
  std::vector<double> costs_;
};

// The least allowed capacity of component k for `rows` that is not above `largest`.
uint64_t LoweredCapacity(uint64_t rows, size_t k, const UsableCapacities& largest,
                         const DeviceProfile& profile) {
  if (largest[k] == kUnlimited) return kUnlimited;
  const ComponentProfile& component = profile.components[k];
  return std::min(largest[k], std::max(CapacityFor(component, rows), SmallestCapacity(component)));
}

// Shapes that are lower in one component, and those that are lower in all.
std::vector<UsableCapacities> LoweredShapes(const RehearsedPacks& packs,
                                            const UsableCapacities& largest,
                                            const DeviceProfile& profile) {
  std::vector<UsableCapacities> shapes;
  for (int i = 1; i < kQuantiles; ++i) {
    const double share = static_cast<double>(i) / kQuantiles;
    UsableCapacities all = largest;
    for (size_t k = 0; k < largest.size(); ++k) {
      if (profile.components[k].relative_cost == 0) continue;
      all[k] = LoweredCapacity(packs.Quantile(k, share), k, largest, profile);
      UsableCapacities one = largest;
      one[k] = all[k];
      if (one != largest) shapes.push_back(std::move(one));
    }
    if (all != largest) shapes.push_back(std::move(all));
  }
  return shapes;
}

}  // namespace

uint64_t RehearsedPacks::MostRows(size_t k) const {
  uint64_t most = 0;
  for (size_t pack = 0; pack < size(); ++pack) most = std::max(most, rows(pack)[k]);
  return most;
}

uint64_t RehearsedPacks::Quantile(size_t k, double share) const {
  std::vector<uint64_t> values;
  for (size_t pack = 0; pack < size(); ++pack) values.push_back(rows(pack)[k]);
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

absl::StatusOr<RehearsedPacks> RehearsePacking(const SizeHistogram& histogram,
                                               const ShapeRoutes& usable,
                                               const OnlinePackerOptions& packing,
                                               const std::function<bool()>& is_cancelled) {
  RehearsedPacks packs(histogram.num_components());
  OnlinePackerOptions options = packing;
  options.max_delay = absl::InfiniteDuration();
  std::vector<OnlinePacker> packers;
  for (size_t route = 0; route < usable.size(); ++route) {
    PH_ASSIGN_OR_RETURN(const Limits limits, PackableLimits(usable.limits(route)));
    PH_ASSIGN_OR_RETURN(OnlinePacker packer, OnlinePacker::Create(limits, options));
    packers.push_back(std::move(packer));
  }
  SizeDraw draw(histogram, usable);
  if (draw.empty()) return packs;
  std::vector<SizeTuple> drawn;
  std::vector<uint64_t> rows(histogram.num_components() + 1);
  for (uint64_t i = 0; i < kMostDraws && packs.size() < kPacks; ++i) {
    if (i % kDrawsBetweenAsking == 0 && is_cancelled && is_cancelled()) {
      return absl::CancelledError("shapes: given up by the caller");
    }
    const absl::Span<const uint32_t> tuple = draw.Next();
    drawn.emplace_back(tuple.begin(), tuple.end());
    OnlinePacker& packer = packers[*usable.RouteOf(tuple)];
    PH_ASSIGN_OR_RETURN(const bool complete, packer.Push(tuple, i, absl::UnixEpoch()));
    if (!complete) continue;
    std::fill(rows.begin(), rows.end(), 0);
    for (const uint64_t handle : packer.TakePack()) {
      for (size_t k = 0; k < drawn[handle].size(); ++k) rows[k] += drawn[handle][k];
      ++rows.back();
    }
    packs.Add(rows);
  }
  return packs;
}

std::vector<UsableCapacities> SmallerShapes(const RehearsedPacks& packs,
                                            const UsableCapacities& largest,
                                            const DeviceProfile& profile, size_t most) {
  std::vector<UsableCapacities> chosen;
  if (packs.size() == 0 || most == 0) return chosen;
  const std::vector<UsableCapacities> candidates = LoweredShapes(packs, largest, profile);
  PackCosts costs(packs, CostOfShape(profile, largest));
  while (chosen.size() < most) {
    const UsableCapacities* best = nullptr;
    double best_gain = kLeastGain * costs.total();
    for (const UsableCapacities& shape : candidates) {
      const double gain = costs.GainOf(shape, CostOfShape(profile, shape));
      if (gain <= best_gain) continue;
      best_gain = gain;
      best = &shape;
    }
    if (best == nullptr) break;
    costs.Take(*best, CostOfShape(profile, *best));
    chosen.push_back(*best);
  }
  return chosen;
}

std::vector<UsableCapacities> PartialShapes(const UsableCapacities& largest,
                                            const std::vector<UsableCapacities>& besides,
                                            const DeviceProfile& profile, size_t most) {
  std::vector<UsableCapacities> chosen;
  UsableCapacities last = largest;
  while (chosen.size() < most) {
    UsableCapacities half = last;
    for (size_t k = 0; k < half.size(); ++k) {
      if (half[k] != kUnlimited) half[k] = LoweredCapacity(half[k] / 2, k, largest, profile);
    }
    if (CostOfShape(profile, half) >= CostOfShape(profile, last)) break;
    last = half;
    if (std::find(besides.begin(), besides.end(), half) == besides.end()) {
      chosen.push_back(std::move(half));
    }
  }
  return chosen;
}

}  // namespace packhouse
