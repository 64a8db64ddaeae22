// Next-fit, the packer of most frameworks, on the graphs of a histogram in random order.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_NEXT_FIT_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_NEXT_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"

namespace packhouse::page {

struct NextFitEstimate {
  uint64_t packs = 0;
  // All graphs were packed; otherwise a sample of kMostSampled of them, and `packs` is scaled up.
  bool is_exact = true;
};

inline constexpr uint64_t kMostSampled = uint64_t{1} << 18;

// A graph that does not fit the open pack closes it. `capacities`: l + 1 entries, `graphs` last;
// kUnlimited where there is no limit. Requires that each graph fits by itself. The order depends on
// the histogram and the seed alone. O(sizes log sizes + sampled graphs).
NextFitEstimate NextFitPacks(const SizeHistogram& histogram, absl::Span<const uint64_t> capacities,
                             uint64_t seed);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_NEXT_FIT_H_
