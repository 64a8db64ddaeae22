// Histograms with device profiles whose memory often takes each size and not all, drawn from a
// seed.
#ifndef PACKHOUSE_TESTS_PLANNING_SCARCE_WORLDS_H_
#define PACKHOUSE_TESTS_PLANNING_SCARCE_WORLDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/limits.h"
#include "tests/support/random.h"

namespace packhouse {

struct ScarceWorld {
  SizeHistogram histogram;
  DeviceProfile profile;
};

// Two or three components with sizes up to 11, and a memory that is often too small for all of
// them together.
inline ScarceWorld RandomScarceWorld(Random& random) {
  const size_t l = random.Between(1, 3);
  ScarceWorld world = {SizeHistogram(l), DeviceProfile()};
  for (uint64_t i = random.Between(1, 14); i != 0; --i) {
    std::vector<uint32_t> tuple;
    for (size_t k = 0; k < l; ++k) tuple.push_back(static_cast<uint32_t>(random.Below(12)));
    world.histogram.Add(tuple, random.Between(1, 30)).IgnoreError();
  }
  world.profile.components.resize(l + 1);
  for (size_t k = 0; k <= l; ++k) {
    ComponentProfile& component = world.profile.components[k];
    if (random.Below(6) == 0) continue;
    component.multiple_of = random.Between(1, 4);
    component.max_rows = random.Between(6, 14);
    component.min_rows = random.Below(4);
    component.reserved_rows = random.Below(3) == 0 ? 1 : 0;
    component.bytes_per_row = random.Below(5);
    component.relative_cost = static_cast<double>(random.Below(3));
  }
  world.profile.fixed_bytes = random.Below(4);
  world.profile.memory_bytes = random.Between(8, 60);
  return world;
}

// The same, with sizes of several kinds, each large in one component: the memory takes each size
// alone, and often no two kinds together.
inline ScarceWorld RandomTornWorld(Random& random) {
  ScarceWorld world = RandomScarceWorld(random);
  const size_t l = random.Between(2, 3);
  world.histogram = SizeHistogram(l);
  world.profile.components.resize(l + 1);
  for (size_t k = 0; k <= l; ++k) {
    ComponentProfile& component = world.profile.components[k];
    component.max_rows = k == l && random.Below(2) == 0 ? 0 : 16;
    component.min_rows = 1;
    component.multiple_of = random.Between(1, 2);
    component.reserved_rows = std::min<uint64_t>(component.reserved_rows, 1);
    component.bytes_per_row = k == l ? random.Below(2) : random.Between(1, 2);
    component.relative_cost = k == 0 ? 1 : static_cast<double>(random.Below(3));
  }
  world.profile.memory_bytes = 0;
  uint64_t most_bytes = 0;
  for (uint64_t i = random.Between(2, 12); i != 0; --i) {
    const size_t kind = random.Below(l);
    std::vector<uint32_t> tuple;
    for (size_t k = 0; k < l; ++k) {
      tuple.push_back(static_cast<uint32_t>(k == kind ? random.Between(6, 12) : random.Below(4)));
    }
    world.histogram.Add(tuple, random.Between(1, 30)).IgnoreError();
    std::vector<uint64_t> capacities(tuple.begin(), tuple.end());
    capacities.push_back(1);
    for (size_t k = 0; k <= l; ++k) {
      const ComponentProfile& component = world.profile.components[k];
      capacities[k] = component.max_rows == 0 ? kUnlimited
                                              : std::max(CapacityFor(component, capacities[k]),
                                                         SmallestCapacity(component));
    }
    most_bytes = std::max(most_bytes, BytesOfShape(world.profile, capacities));
  }
  world.profile.memory_bytes = most_bytes + random.Below(6);
  return world;
}

// All capacities that the profile allows, without what padding keeps free.
inline std::vector<std::vector<uint64_t>> AllowedCapacities(const DeviceProfile& profile) {
  std::vector<std::vector<uint64_t>> all = {{}};
  for (const ComponentProfile& component : profile.components) {
    std::vector<std::vector<uint64_t>> longer;
    for (const std::vector<uint64_t>& prefix : all) {
      for (uint64_t rows = 0; rows <= component.max_rows; ++rows) {
        const bool is_allowed = rows % component.multiple_of == 0 && rows >= component.min_rows &&
                                rows > component.reserved_rows;
        if (component.max_rows != 0 && !is_allowed) continue;
        longer.push_back(prefix);
        longer.back().push_back(component.max_rows == 0 ? kUnlimited
                                                        : rows - component.reserved_rows);
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [&](const auto& capacities) { return !FitsMemory(profile, capacities); });
  return all;
}

inline bool TakesSize(const std::vector<uint64_t>& capacities, absl::Span<const uint32_t> tuple) {
  for (size_t k = 0; k < tuple.size(); ++k) {
    if (tuple[k] > capacities[k]) return false;
  }
  return true;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_SCARCE_WORLDS_H_
