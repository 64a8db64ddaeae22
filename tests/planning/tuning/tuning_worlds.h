// Histograms with device profiles that suit them, drawn from a seed, and every choice that such a
// profile leaves.
#ifndef PACKHOUSE_TESTS_PLANNING_TUNING_TUNING_WORLDS_H_
#define PACKHOUSE_TESTS_PLANNING_TUNING_TUNING_WORLDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/algorithms/sizes/size_schema.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"

namespace packhouse {

// A checked profile that takes every graph within its memory.
struct TuningWorld {
  SizeHistogram histogram;
  DeviceProfile profile;
  SizeSchema schema;
};

struct TuningWorldShape {
  size_t max_components = 3;
  uint64_t max_size = 12;
  uint64_t max_distinct = 12;
  uint64_t max_count = 20;
  // Capacities of one component.
  uint64_t max_choices = 12;
};

inline SizeSchema TuningSchema(size_t l) {
  std::vector<std::string> names;
  for (size_t k = 0; k < l; ++k) names.emplace_back(k + 1, 'c');
  return SizeSchema::Create(std::move(names)).value();
}

// The least capacities that take all graphs.
inline std::vector<uint64_t> NeededCapacities(const SizeHistogram& histogram,
                                              const DeviceProfile& profile) {
  std::vector<uint64_t> capacities;
  for (size_t k = 0; k < profile.components.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0) {
      capacities.push_back(kUnlimited);
      continue;
    }
    const uint64_t largest = k < histogram.num_components() ? histogram.maximum(k) : 1;
    uint64_t capacity = SmallestCapacity(component);
    while (capacity < largest) capacity += component.multiple_of;
    capacities.push_back(capacity);
  }
  return capacities;
}

// 1 to max_components components, of which some have no limit, no cost, an alignment, or sizes that
// share a divisor; one component without a cost at most, and it may have memory; in half of the
// worlds the memory is scarce.
inline TuningWorld RandomTuningWorld(Random& random, const TuningWorldShape& shape = {}) {
  const size_t l = random.Between(1, shape.max_components);
  TuningWorld world = {SizeHistogram(l), DeviceProfile(), TuningSchema(l)};
  std::vector<uint64_t> divisors;
  for (size_t k = 0; k < l; ++k)
    divisors.push_back(random.Below(3) == 0 ? random.Between(2, 4) : 1);
  for (uint64_t i = random.Between(1, shape.max_distinct); i != 0; --i) {
    std::vector<uint32_t> tuple;
    for (size_t k = 0; k < l; ++k) {
      const uint64_t units = random.Below(shape.max_size / divisors[k] + 1);
      tuple.push_back(static_cast<uint32_t>(random.Below(9) == 0 ? 0 : units * divisors[k]));
    }
    // Far from 64 bits.
    world.histogram.Add(tuple, random.Between(1, shape.max_count)).IgnoreError();
  }
  world.profile.components.resize(l + 1);
  bool any_cost = false;
  bool any_free = false;
  for (size_t k = 0; k <= l; ++k) {
    ComponentProfile& component = world.profile.components[k];
    component.bytes_per_row = random.Below(4);
    component.relative_cost = static_cast<double>(random.Between(1, 4)) / 2;
    if (k == l ? random.Below(2) == 0 : random.Below(5) == 0) {
      // Without a limit.
      component.min_rows = random.Below(5);
      continue;
    }
    component.multiple_of = random.Below(2) == 0 ? 1 : random.Between(2, 7);
    if (!any_free && random.Below(k == l ? 2 : 5) == 0) {
      component.relative_cost = 0;
      any_free = true;
    }
    any_cost |= component.relative_cost > 0;
    const uint64_t largest = k < l ? world.histogram.maximum(k) : 1;
    component.min_rows = random.Below(shape.max_size);
    component.max_rows = std::max(component.min_rows, largest) +
                         random.Below(shape.max_choices) * component.multiple_of +
                         component.multiple_of;
  }
  if (!any_cost) {
    ComponentProfile& component = world.profile.components[0];
    component.relative_cost = 1;
    component.multiple_of = 1;
    component.min_rows = 1;
    component.max_rows = std::max<uint64_t>(world.histogram.maximum(0), 1) + shape.max_choices - 1;
  }
  if (random.Below(2) == 0) {
    world.profile.fixed_bytes = random.Below(10);
    world.profile.memory_bytes =
        BytesOfShape(world.profile, NeededCapacities(world.histogram, world.profile)) +
        random.Below(30) + 1;
  }
  return world;
}

// Every choice of capacities that the profile allows: aligned, within the memory, large enough for
// all graphs, and with as much as there can be of a component without a cost; less what padding
// keeps free. The last component varies fastest.
inline std::vector<std::vector<uint64_t>> AllCandidates(const TuningWorld& world) {
  const DeviceProfile& profile = world.profile;
  std::vector<std::vector<uint64_t>> all = {{}};
  for (size_t k = 0; k < profile.components.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    const uint64_t largest = k < world.histogram.num_components() ? world.histogram.maximum(k) : 1;
    std::vector<std::vector<uint64_t>> longer;
    for (const std::vector<uint64_t>& prefix : all) {
      const auto add = [&](uint64_t capacity) {
        longer.push_back(prefix);
        longer.back().push_back(capacity);
      };
      if (component.max_rows == 0) {
        add(kUnlimited);
        continue;
      }
      const uint64_t reserved = component.reserved_rows;
      for (uint64_t rows = std::max({component.min_rows, largest + reserved, reserved + 1});
           rows <= component.max_rows; ++rows) {
        if (rows % component.multiple_of == 0) add(rows - reserved);
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [&](std::vector<uint64_t> capacities) {
    if (!FitsMemory(profile, capacities)) return true;
    for (size_t k = 0; k < capacities.size(); ++k) {
      const ComponentProfile& component = profile.components[k];
      if (component.max_rows == 0 || component.relative_cost > 0) continue;
      capacities[k] += component.multiple_of;
      if (capacities[k] + component.reserved_rows <= component.max_rows &&
          FitsMemory(profile, capacities)) {
        return true;
      }
    }
    return false;
  });
  return all;
}

inline void AddShape(const TunedShape& shape, Fingerprint& answers) {
  answers.AddAll(shape.capacities);
  answers.Add(shape.packs);
  answers.Add(shape.lower_bound);
  answers.AddDouble(shape.epoch_cost);
  answers.AddDouble(shape.harmonic_mean);
  for (const ComponentEfficiency& component : shape.components) {
    answers.Add(component.capacity);
    answers.Add(component.fullest_pack);
    answers.AddDouble(component.efficiency);
    answers.AddDouble(component.efficiency_of_fullest);
  }
  answers.Add(shape.batch_bytes);
}

inline void AddResult(const TuneResult& result, Fingerprint& answers) {
  for (const auto* const shapes : {&result.shapes, &result.frontier}) {
    answers.Add(shapes->size());
    for (const TunedShape& shape : *shapes) AddShape(shape, answers);
  }
  AddShape(result.single_shape, answers);
  AddShape(result.cheapest_shape, answers);
  answers.AddDouble(result.epoch_cost);
  answers.AddDouble(result.least_cost);
  answers.AddDouble(result.harmonic_mean);
  answers.Add(result.exact ? 1 : 0);
  for (const std::string& reason : result.reasons) answers.AddAll(reason);
  if (result.oversize) {
    answers.Add(result.oversize->num_graphs);
    answers.Add(result.oversize->num_apart);
    answers.Add(result.oversize->num_shapes);
    answers.AddAll(result.oversize->largest);
    answers.AddAll(result.oversize->needed_rows);
    answers.Add(result.oversize->needed_bytes);
  }
  answers.AddAll(result.group_graphs);
  for (const TuneCell& cell : result.cells) {
    answers.AddAll(cell.capacities);
    answers.AddDouble(cell.harmonic_mean);
    answers.AddDouble(cell.epoch_cost);
    answers.Add(cell.planned ? 1 : 0);
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_TUNING_TUNING_WORLDS_H_
