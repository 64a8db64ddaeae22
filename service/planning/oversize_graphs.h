// Graphs that are too large for the limits of a device profile.
#ifndef PACKHOUSE_SERVICE_PLANNING_OVERSIZE_GRAPHS_H_
#define PACKHOUSE_SERVICE_PLANNING_OVERSIZE_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/histograms/size_histogram.h"
#include "service/planning/device_profile.h"

namespace packhouse {

// Graphs that are left out when limits are chosen. These are the graphs that fit no allowed limits.
// If no limits within the memory take all other graphs together, the graphs whose own batch needs
// most memory are left out too, as few as possible.
struct OversizeGraphs {
  uint64_t num_graphs = 0;
  // The lexicographically largest size.
  SizeTuple largest;
  // The least capacities that take all graphs of the histogram, with what padding keeps free, for
  // each component, `graphs` last; 0 for a component without a limit.
  std::vector<uint64_t> needed_rows;
  // Memory of a batch with these capacities; UINT64_MAX if it exceeds that.
  uint64_t needed_bytes = 0;
};

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

// The sizes of the left-out graphs, each once. Requires a checked profile with the histogram's
// components. O(d * (l + log d)).
std::vector<SizeTuple> FindOversize(const SizeHistogram& histogram, const DeviceProfile& profile);

// `tuples` must be sizes of the histogram.
OversizeGraphs DescribeOversize(absl::Span<const SizeTuple> tuples, const SizeHistogram& histogram,
                                const DeviceProfile& profile);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OVERSIZE_GRAPHS_H_
