// The obvious online packer that jraph, PyG and TF-GNN have: what a better one is measured against.
#ifndef PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_
#define PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/planning/limits.h"

namespace packhouse {

// Graphs (by position) of each pack; a graph that does not fit closes the pack. `sizes` is
// row-major with l = limits.num_components() > 0 counts a graph, each of which fits by itself.
inline std::vector<std::vector<uint64_t>> NextFit(absl::Span<const uint32_t> sizes,
                                                  const Limits& limits) {
  const size_t l = limits.num_components();
  std::vector<std::vector<uint64_t>> packs;
  std::vector<uint64_t> rows(l, 0);
  for (size_t i = 0; i * l < sizes.size(); ++i) {
    bool fits = !packs.empty() && packs.back().size() < limits.graphs();
    for (size_t k = 0; k < l; ++k) fits &= rows[k] + sizes[i * l + k] <= limits.capacity(k);
    if (!fits) {
      packs.emplace_back();
      rows.assign(l, 0);
    }
    packs.back().push_back(i);
    for (size_t k = 0; k < l; ++k) rows[k] += sizes[i * l + k];
  }
  return packs;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_
