// What a client's hardware declares: the limits that may be chosen, and what a batch costs.
#ifndef PACKHOUSE_SERVICE_PLANNING_DEVICE_PROFILE_H_
#define PACKHOUSE_SERVICE_PLANNING_DEVICE_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/planning/limits.h"
#include "service/sizes/size_schema.h"

namespace packhouse {

// One component, `graphs` included.
struct ComponentProfile {
  // Beyond that the cost of an epoch might be infinite.
  static constexpr double kMaxRelativeCost = 1e200;

  // Capacities to choose from: the multiples of `multiple_of` in [min_rows, max_rows], from 1 on.
  // max_rows 0: the component stays without a limit (and then weighs nothing).
  uint64_t min_rows = 1;
  uint64_t max_rows = 0;
  uint64_t multiple_of = 1;
  // Memory of one row of a batch.
  uint64_t bytes_per_row = 0;
  // Cost of one row of a batch, padding included, in any unit; 0 to kMaxRelativeCost. With 0, a
  // larger capacity is never worse: the component takes the largest that the memory leaves it.
  double relative_cost = 1;
  // Rows of each batch that padding keeps free of real ones. What a client lays out (min_rows,
  // max_rows, multiple_of, memory and cost) has them; a capacity in this room's searches is of real
  // rows and has not. WithReserved() adds them.
  uint64_t reserved_rows = 0;
  // Nobody asked for a capacity of this component, but it must have one: it is lowered in the end
  // to what the fullest pack holds. Ignored where relative_cost is above 0: there it is searched.
  bool fits_packs = false;
};

struct DeviceProfile {
  // Most shapes that the client's compiler cache takes.
  static constexpr uint32_t kMaxDistinctShapes = 8;

  // l + 1 entries, `graphs` last.
  std::vector<ComponentProfile> components;
  // A batch may take fixed_bytes + sum of bytes_per_row * capacity <= memory_bytes. 0: no bound.
  uint64_t memory_bytes = 0;
  uint64_t fixed_bytes = 0;
  // 1 to kMaxDistinctShapes.
  uint32_t max_distinct_shapes = 1;
};

// INVALID_ARGUMENT naming the component, the value and the bound, if no limits can be chosen: a
// wrong number of components, a number of shapes out of range, a cost out of range, multiple_of 0,
// no multiple within [min_rows, max_rows] that is above reserved_rows, a max_rows of kUnlimited, no
// component with max_rows, no such component with a cost, smallest capacities that exceed the
// memory.
absl::Status CheckDeviceProfile(const DeviceProfile& profile, const SizeSchema& schema);

// The smallest and the largest capacity to choose from, and the smallest that holds `rows`, allowed
// or not; without reserved rows. Requires that the profile is checked and that max_rows is not 0.
uint64_t SmallestCapacity(const ComponentProfile& component);
uint64_t LargestCapacity(const ComponentProfile& component);
uint64_t CapacityFor(const ComponentProfile& component, uint64_t rows);

// Capacities as they are laid out: with what padding keeps free. kUnlimited stays.
std::vector<uint64_t> WithReserved(const DeviceProfile& profile,
                                   absl::Span<const uint64_t> capacities);

// fixed_bytes + sum of bytes_per_row * (capacity + reserved_rows) over the components that have a
// limit, UINT64_MAX if it is more than that.
uint64_t BytesOfShape(const DeviceProfile& profile, absl::Span<const uint64_t> capacities);
// Whether that is within memory_bytes.
bool FitsMemory(const DeviceProfile& profile, absl::Span<const uint64_t> capacities);

// Sum of relative_cost * (capacity + reserved_rows) over the components that have a limit: what one
// batch costs.
double CostOfShape(const DeviceProfile& profile, absl::Span<const uint64_t> capacities);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_DEVICE_PROFILE_H_
