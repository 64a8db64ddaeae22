// A client's hardware: the limits that may be chosen, and the cost of a batch.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_DEVICE_PROFILE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_DEVICE_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/measured_bytes.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// One component, `graphs` included.
struct ComponentProfile {
  // With a higher cost, the cost of an epoch might be infinite.
  static constexpr double kMaxRelativeCost = 1e200;

  // Capacities to choose from: the multiples of `multiple_of` in [min_rows, max_rows], at least 1.
  // max_rows 0: the component has no limit and no cost.
  uint64_t min_rows = 1;
  uint64_t max_rows = 0;
  uint64_t multiple_of = 1;
  // Memory of one row of a batch.
  uint64_t bytes_per_row = 0;
  // Cost of one row of a batch, padding included, in any unit; 0 to kMaxRelativeCost. With cost 0 a
  // larger capacity is never worse: the component takes the largest capacity that the memory
  // allows.
  double relative_cost = 1;
  // Rows of each batch that padding keeps free of real ones. The fields of a profile (min_rows,
  // max_rows, multiple_of, memory and cost) include them. A capacity in this room's searches counts
  // real rows only; WithReserved() adds these rows.
  uint64_t reserved_rows = 0;
  // No capacity was asked for, but the component must have one: it is lowered in the end to what
  // the fullest pack needs. Ignored if relative_cost is above 0: then the capacity is searched.
  bool fits_packs = false;
};

struct DeviceProfile {
  // The most shapes that a client's compiler cache may take.
  static constexpr uint32_t kMaxDistinctShapes = 8;

  // l + 1 entries, `graphs` last.
  std::vector<ComponentProfile> components;
  // Bound: fixed_bytes + sum of bytes_per_row * capacity <= memory_bytes. 0: no bound.
  uint64_t memory_bytes = 0;
  uint64_t fixed_bytes = 0;
  // 1 to kMaxDistinctShapes.
  uint32_t max_distinct_shapes = 1;
  // Costs are seconds, as they were measured.
  bool has_measured_costs = false;
  // Cost of a batch whatever its capacities, in the unit of relative_cost: 0 to kMaxRelativeCost.
  double fixed_cost = 0;
  // A batch costs at least this, however small it is; 0: as its capacities say.
  double least_cost = 0;
  // The name of the measurements that were asked for, "MODEL/DEVICE"; empty: none.
  std::string measured_as;
  // What batches were seen to take of the memory; null: bytes_per_row and fixed_bytes say it. Its
  // capacities are with reserved rows.
  std::shared_ptr<const MeasuredBytes> measured_bytes;
};

// INVALID_ARGUMENT naming the component, the value and the bound, if no limits can be chosen: a
// wrong number of components, a number of shapes out of range, a cost out of range, multiple_of 0,
// no multiple within [min_rows, max_rows] that is above reserved_rows, a max_rows of kUnlimited, no
// component with max_rows, no such component with a cost, smallest capacities that exceed the
// memory.
absl::Status CheckDeviceProfile(const DeviceProfile& profile, const SizeSchema& schema);

// The smallest and the largest capacity to choose from; and the smallest capacity that holds
// `rows`, allowed or not. All without reserved rows. Requires that the profile is checked and that
// max_rows is not 0.
uint64_t SmallestCapacity(const ComponentProfile& component);
uint64_t LargestCapacity(const ComponentProfile& component);
uint64_t CapacityFor(const ComponentProfile& component, uint64_t rows);

// Capacities with the rows that padding keeps free. kUnlimited stays.
std::vector<uint64_t> WithReserved(const DeviceProfile& profile,
                                   absl::Span<const uint64_t> capacities);

// fixed_bytes + sum of bytes_per_row * (capacity + reserved_rows) over the components that have a
// limit, or what `measured_bytes` says; UINT64_MAX if it is more than that.
uint64_t BytesOfShape(const DeviceProfile& profile, absl::Span<const uint64_t> capacities);
// Whether BytesOfShape is within memory_bytes, and within what was seen to fit. If larger
// capacities fit, so do smaller ones.
bool FitsMemory(const DeviceProfile& profile, absl::Span<const uint64_t> capacities);

// Whether FitsMemory can be false: there is a bound of bytes, or capacities are known not to fit.
bool HasMemoryBound(const DeviceProfile& profile);

// The cost of one batch: fixed_cost + the sum of relative_cost * (capacity + reserved_rows) over
// the components that have a limit; at least least_cost.
double CostOfShape(const DeviceProfile& profile, absl::Span<const uint64_t> capacities);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_DEVICE_PROFILE_H_
