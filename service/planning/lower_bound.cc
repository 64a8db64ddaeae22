#include "service/planning/lower_bound.h"

#include <algorithm>
#include <numeric>

namespace packhouse {

VolumeBound ComputeVolumeBound(const SizeHistogram& histogram, const Limits& limits) {
  VolumeBound bound;
  if (histogram.num_graphs() == 0) return bound;
  bound.packs = 1;
  const size_t l = histogram.num_components();
  for (size_t k = 0; k <= l; ++k) {
    if (!limits.has_limit(k)) continue;
    uint64_t total = histogram.num_graphs();
    uint64_t capacity = limits.capacity(k);
    if (k < l) {
      total = histogram.total(k);
      uint64_t gcd = 0;
      for (size_t row = 0; row < histogram.num_distinct() && gcd != 1; ++row) {
        gcd = std::gcd(gcd, uint64_t{histogram.tuple(row)[k]});
      }
      // gcd 0: every size is 0. A gcd above the capacity: no graph fits, which the caller has
      // excluded, or a baseline ignores this limit.
      if (gcd != 0) capacity = std::max(capacity - capacity % gcd, gcd);
    }
    const uint64_t packs = total / capacity + (total % capacity != 0);
    // One pack is needed anyway; it, too, is put down to a component that has a limit.
    if (packs > bound.packs || !limits.has_limit(bound.component)) bound = {packs, k};
  }
  return bound;
}

}  // namespace packhouse
