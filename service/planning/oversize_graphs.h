// Graphs too large for the limits that a device profile allows.
#ifndef PACKHOUSE_SERVICE_PLANNING_OVERSIZE_GRAPHS_H_
#define PACKHOUSE_SERVICE_PLANNING_OVERSIZE_GRAPHS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/histograms/size_histogram.h"
#include "service/planning/device_profile.h"

namespace packhouse {

// Graphs that are left out when limits are chosen: those that no allowed limits take, and, if the
// memory allows no limits that take all others at once, those of them whose own batch needs most
// memory, as many as must be.
struct OversizeGraphs {
  uint64_t num_graphs = 0;
  // Lexicographically.
  SizeTuple largest;
  // The least capacities that take all graphs of the histogram, per component, `graphs` last, with
  // what padding keeps free; 0 where there is no limit.
  std::vector<uint64_t> needed_rows;
  // Memory of such a batch; UINT64_MAX if it is more than that.
  uint64_t needed_bytes = 0;
};

// Their sizes, each once. Requires a checked profile with the histogram's components.
// O(d * (l + log d)).
std::vector<SizeTuple> FindOversize(const SizeHistogram& histogram, const DeviceProfile& profile);

// `tuples` are of the histogram.
OversizeGraphs DescribeOversize(absl::Span<const SizeTuple> tuples, const SizeHistogram& histogram,
                                const DeviceProfile& profile);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OVERSIZE_GRAPHS_H_
