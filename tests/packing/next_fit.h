// Next-fit, the simplest packer, which jraph, PyG and TF-GNN have: what a better one is measured
// against.
#ifndef PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_
#define PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

// Graphs (by position) of each pack: a graph that does not fit the open pack closes it. `sizes` is
// row-major with l = limits.num_components() > 0 counts a graph, each of which fits by itself.
inline std::vector<std::vector<uint64_t>> NextFit(absl::Span<const uint32_t> sizes,
                                                  const Limits& limits) {
  const absl::Span<const uint64_t> capacities = limits.capacities();
  const std::size_t width = capacities.size() - 1;
  const auto fits = [&](const std::vector<uint64_t>& rows) {
    for (std::size_t k = 0; k <= width; ++k) {
      if (rows[k] > capacities[k]) return false;
    }
    return true;
  };
  std::vector<std::vector<uint64_t>> packs;
  std::vector<uint64_t> open(width + 1);
  for (std::size_t i = 0; i < sizes.size() / width; ++i) {
    std::vector<uint64_t> graph(sizes.begin() + static_cast<std::ptrdiff_t>(i * width),
                                sizes.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    graph.push_back(1);
    std::vector<uint64_t> joined(width + 1);
    for (std::size_t k = 0; k <= width; ++k) joined[k] = open[k] + graph[k];
    const bool opens = packs.empty() || !fits(joined);
    if (opens) packs.emplace_back();
    open = opens ? graph : joined;
    packs.back().push_back(i);
  }
  return packs;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_
