#include "service/planning/oversize_graphs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "service/planning/limits.h"

namespace packhouse {
namespace {

// The least capacities that take graphs of these sizes, allowed or not.
std::vector<uint64_t> CapacitiesFor(const SizeTuple& sizes, const DeviceProfile& profile) {
  std::vector<uint64_t> capacities;
  for (size_t k = 0; k < profile.components.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0) {
      capacities.push_back(kUnlimited);
      continue;
    }
    // No overflow: a size has 32 bits, and multiple_of is at most max_rows.
    const uint64_t size = k < sizes.size() ? sizes[k] : 1;
    capacities.push_back(std::max(CapacityFor(component, size), SmallestCapacity(component)));
  }
  return capacities;
}

bool IsAllowed(absl::Span<const uint64_t> capacities, const DeviceProfile& profile) {
  for (size_t k = 0; k < capacities.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows != 0 && capacities[k] > LargestCapacity(component)) return false;
  }
  return FitsMemory(profile, capacities);
}

SizeTuple Largest(SizeTuple a, absl::Span<const uint32_t> b) {
  for (size_t k = 0; k < a.size(); ++k) a[k] = std::max(a[k], b[k]);
  return a;
}

}  // namespace

std::optional<ProfileExcess> ExcessOverProfile(absl::Span<const uint32_t> tuple,
                                               const DeviceProfile& profile) {
  for (size_t k = 0; k < tuple.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0) continue;
    const uint64_t largest = LargestCapacity(component);
    if (tuple[k] > largest) return ProfileExcess{k, tuple[k], largest};
  }
  if (!HasMemoryBound(profile)) return std::nullopt;
  const std::vector<uint64_t> capacities =
      CapacitiesFor(SizeTuple(tuple.begin(), tuple.end()), profile);
  if (FitsMemory(profile, capacities)) return std::nullopt;
  return ProfileExcess{
      ProfileExcess::kMemory, BytesOfShape(profile, capacities),
      profile.memory_bytes != 0 ? profile.memory_bytes : profile.measured_bytes->most_bytes};
}

std::vector<SizeTuple> FindOversize(const SizeHistogram& histogram, const DeviceProfile& profile) {
  struct Fitting {
    uint64_t bytes;
    SizeTuple tuple;
  };
  std::vector<Fitting> fitting;
  std::vector<SizeTuple> oversize;
  const SizeTuple nothing(histogram.num_components(), 0);
  SizeTuple largest = nothing;
  for (const uint32_t row : histogram.SortedRows()) {
    SizeTuple tuple(histogram.tuple(row).begin(), histogram.tuple(row).end());
    const std::vector<uint64_t> capacities = CapacitiesFor(tuple, profile);
    if (IsAllowed(capacities, profile)) {
      largest = Largest(std::move(largest), tuple);
      fitting.push_back({BytesOfShape(profile, capacities), std::move(tuple)});
    } else {
      oversize.push_back(std::move(tuple));
    }
  }
  if (IsAllowed(CapacitiesFor(largest, profile), profile)) return oversize;

  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Fitting& a, const Fitting& b) { return a.bytes < b.bytes; });
  largest = nothing;
  for (Fitting& next : fitting) {
    SizeTuple with_next = Largest(largest, next.tuple);
    if (IsAllowed(CapacitiesFor(with_next, profile), profile)) {
      largest = std::move(with_next);
    } else {
      oversize.push_back(std::move(next.tuple));
    }
  }
  return oversize;
}

OversizeGraphs DescribeOversize(absl::Span<const SizeTuple> tuples, const SizeHistogram& histogram,
                                const DeviceProfile& profile) {
  OversizeGraphs oversize;
  for (const SizeTuple& tuple : tuples) {
    oversize.num_graphs += histogram.CountOf(tuple);
    if (oversize.largest.empty() || oversize.largest < tuple) oversize.largest = tuple;
  }
  SizeTuple largest(histogram.num_components());
  for (size_t k = 0; k < largest.size(); ++k) largest[k] = histogram.maximum(k);
  const std::vector<uint64_t> needed = CapacitiesFor(largest, profile);
  oversize.needed_bytes = BytesOfShape(profile, needed);
  for (const uint64_t capacity : WithReserved(profile, needed)) {
    oversize.needed_rows.push_back(capacity == kUnlimited ? 0 : capacity);
  }
  return oversize;
}

}  // namespace packhouse
