// Groups of sizes, each of which has a shape of its own, where a memory bound takes each size but
// not all in one shape.
//
// A batch may have many nodes and few edges, or few nodes and many edges, and the memory may be
// short of many of both. Sizes of both kinds then need two shapes, of which none takes all that the
// other takes. Which sizes go together is a problem of its own: each group needs the largest
// capacities of its sizes.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_SIZE_GROUPS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_SIZE_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

struct SizeGroups {
  // Each size that is kept is in one group, and allowed limits take a group together. No group is
  // empty. The first has the most graphs that any of these shapes takes; the next, of the other
  // graphs, the most; and so on. Sizes are in lexicographic order.
  std::vector<std::vector<SizeTuple>> groups;
  // `apart` are those that no `most_groups` shapes take together with all that is kept.
  LeftOutSizes left_out;
};

// As FindOversize() for up to `most_groups` shapes, with as many graphs kept as possible, and then
// in as few groups as possible. With one group, and if one shape takes all sizes, it is that.
//
// Exact for two components with limits if all sizes can be kept, and for some dozens of sizes;
// otherwise the best that was found in a fraction of a second: never less than what is kept by
// leaving out, again and again, what does not fit the shape that takes the most. Equal arguments,
// equal results. Requires a checked profile with the histogram's components, and 1 <= most_groups.
// Memory O(d * l). Thread-safe.
//
// Uses no steps of `budget`, but asks it whether the caller gave up: then CANCELLED.
absl::StatusOr<SizeGroups> FindGroups(const SizeHistogram& histogram, const DeviceProfile& profile,
                                      size_t most_groups, WorkBudget& budget);
// At least the memory that FindGroups() takes while it runs, besides what it returns.
uint64_t BytesToFindGroups(const SizeHistogram& histogram, const DeviceProfile& profile);

// The numbers of the shapes (capacities, kUnlimited for none) that no earlier shape takes, that is
// that have more of some component than each before them: of these there is one for each group.
// Every graph that fits a shape fits one of them. The first shape is always one.
std::vector<size_t> LeadingShapes(absl::Span<const std::vector<uint64_t>> shapes);
// Whether `larger` has at least the capacities of `smaller`.
bool ShapeTakes(absl::Span<const uint64_t> larger, absl::Span<const uint64_t> smaller);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_SIZE_GROUPS_H_
