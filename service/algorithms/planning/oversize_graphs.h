// Graphs that are too large for the limits of a device profile.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OVERSIZE_GRAPHS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OVERSIZE_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// Graphs that are left out when limits are chosen: those that fit no allowed limits and, if no
// limits within the memory take all others together, those that are apart (see LeftOutSizes).
struct OversizeGraphs {
  uint64_t num_graphs = 0;
  // How many of them some allowed limits take, but not together with the graphs that are kept.
  uint64_t num_apart = 0;
  // The number of shapes that the others are kept in.
  uint32_t num_shapes = 1;
  // The lexicographically largest size.
  SizeTuple largest;
  // The least capacities that take all graphs of the histogram, with what padding keeps free, for
  // each component, `graphs` last; 0 for a component without a limit.
  std::vector<uint64_t> needed_rows;
  // Memory of a batch with these capacities; UINT64_MAX if it exceeds that. 0 if the profile has no
  // bound of bytes, or one that takes them.
  uint64_t needed_bytes = 0;
};

// The least capacities that a batch of a graph of this size can have, `graphs` last, allowed or
// not; kUnlimited where the profile has no limit. For the largest sizes of several graphs: those
// that take each of them. Requires a checked profile. O(l).
std::vector<uint64_t> LeastCapacities(absl::Span<const uint32_t> sizes,
                                      const DeviceProfile& profile);

// What keeps one graph out of all limits that a profile allows.
struct ProfileExcess {
  // Stands for a component if the graph exceeds the memory.
  static constexpr size_t kMemory = SIZE_MAX;

  size_t component = 0;
  // Its count there, and the largest capacity, without what padding keeps free. For the memory: the
  // bytes of the smallest batch that takes the graph, and memory_bytes.
  uint64_t value = 0;
  uint64_t bound = 0;
};

// Nullopt if some allowed limits take a graph of this size. Requires a checked profile of these
// components. O(l).
std::optional<ProfileExcess> ExcessOverProfile(absl::Span<const uint32_t> tuple,
                                               const DeviceProfile& profile);

// What is kept as much of as possible, if no allowed limits take all graphs together.
enum class KeptMost {
  kNumGraphs,
  // Rows of the components that have a cost, all together.
  kCostedRows,
};

// Sizes that are left out, each once, in lexicographic order.
struct LeftOutSizes {
  // Each is too large for any allowed limits.
  std::vector<SizeTuple> alone;
  // Allowed limits take each of them, but none take it together with all that is kept.
  std::vector<SizeTuple> apart;

  size_t size() const { return alone.size() + apart.size(); }
};

// The sizes to leave out so that allowed limits take all others, and as much as possible is kept.
// Requires a checked profile with the histogram's components.
//
// What is kept is the most there can be, unless the search needs more than about 2^26 looks at a
// size; then it is the most that was found, and never less than the greedy choices by bytes and by
// weight give. Equal histograms, equal results. O(d * (l + log d)) if some limits take all sizes
// that fit alone; otherwise a fraction of a second more. Memory O(d * l). Thread-safe.
//
// Uses no steps of `budget`, but asks it whether the caller gave up: then CANCELLED.
absl::StatusOr<LeftOutSizes> FindOversize(const SizeHistogram& histogram,
                                          const DeviceProfile& profile, KeptMost kept,
                                          WorkBudget& budget);
// At least the memory that FindOversize() takes while it runs, besides what it returns.
uint64_t BytesToFindOversize(const SizeHistogram& histogram, const DeviceProfile& profile);

// `left_out` must be of the histogram.
OversizeGraphs DescribeOversize(const LeftOutSizes& left_out, const SizeHistogram& histogram,
                                const DeviceProfile& profile);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OVERSIZE_GRAPHS_H_
