// Streams of graphs whose sizes have little to do with each other, and in no order.
#ifndef PACKHOUSE_TESTS_PACKING_DENSE_SIZES_H_
#define PACKHOUSE_TESTS_PACKING_DENSE_SIZES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "service/algorithms/planning/limits.h"
#include "tests/support/random.h"

namespace packhouse {

// The (nodes, edges) of row-major `sizes` in another order (Fisher and Yates).
inline std::vector<uint32_t> Shuffled(std::vector<uint32_t> sizes, uint64_t seed) {
  Random random(seed);
  for (size_t i = sizes.size() / 2; i > 1; --i) {
    const size_t j = random.Below(i);
    std::swap(sizes[2 * i - 2], sizes[2 * j]);
    std::swap(sizes[2 * i - 1], sizes[2 * j + 1]);
  }
  return sizes;
}

// The same graphs with 1.7 times the edges, if they have room for them: of ppa_standin_ego, which
// nodes alone decide at (1200, 36138), this makes graphs whose nodes and edges weigh alike there.
// What exceeds the limits is left out.
inline std::vector<uint32_t> Denser(const std::vector<uint32_t>& sizes, const Limits& limits) {
  std::vector<uint32_t> denser;
  denser.reserve(sizes.size());
  for (size_t i = 0; i < sizes.size(); i += 2) {
    const uint64_t nodes = sizes[i];
    const uint64_t edges =
        std::min<uint64_t>(nodes * (std::max<uint64_t>(nodes, 1) - 1), sizes[i + 1] * 17ULL / 10);
    if (nodes > limits.capacity(0) || edges > limits.capacity(1)) continue;
    denser.push_back(static_cast<uint32_t>(nodes));
    denser.push_back(static_cast<uint32_t>(edges));
  }
  return denser;
}

// A stand-in where no data is at hand: nodes and edges of which neither tells the other, with the
// same load at (1200, 36138).
inline std::vector<uint32_t> UncorrelatedSizes(size_t num_graphs, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> sizes;
  sizes.reserve(2 * num_graphs);
  for (size_t i = 0; i < num_graphs; ++i) {
    sizes.push_back(static_cast<uint32_t>(random.Between(1, 400)));
    sizes.push_back(static_cast<uint32_t>(random.Between(1, 12046)));
  }
  return sizes;
}

// In the manner of collaboration networks (TU's COLLAB): most graphs small, a few large, of any
// density, so that edges have a heavy tail. Within (1216, 80239), where edges weigh a little more.
inline std::vector<uint32_t> CollaborationSizes(size_t num_graphs, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> sizes;
  sizes.reserve(2 * num_graphs);
  while (sizes.size() < 2 * num_graphs) {
    const uint64_t nodes = 32 + random.Below(random.Below(3) == 0 ? 460 : 60);
    const uint64_t edges = nodes * (nodes - 1) * random.Between(1, 1000) / 1000;
    if (edges > 80239) continue;
    sizes.push_back(static_cast<uint32_t>(nodes));
    sizes.push_back(static_cast<uint32_t>(edges));
  }
  return sizes;
}

// Ego networks of a collaboration graph: edges grow like the square of the nodes, with any density;
// five in a hundred are near-cliques, the authors of one large paper. Within (1225, 80000), where a
// near-clique leaves much room for nodes and little for edges.
inline std::vector<uint32_t> EgoSizes(size_t num_graphs, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> sizes;
  sizes.reserve(2 * num_graphs);
  for (size_t i = 0; i < num_graphs; ++i) {
    const bool is_clique = random.Below(100) < 5;
    const uint64_t nodes = is_clique ? random.Between(240, 490) : random.Between(30, 200);
    const uint64_t pairs = nodes * (nodes - 1);
    const uint64_t edges =
        is_clique ? std::min(pairs, random.Between(57'000, 80'000))
                  : std::clamp<uint64_t>(pairs * random.Between(20, 500) / 1000, 100, 10'000);
    sizes.push_back(static_cast<uint32_t>(nodes));
    sizes.push_back(static_cast<uint32_t>(edges));
  }
  return sizes;
}

// The same graphs, those with fewer than `edges` first or last.
inline std::vector<uint32_t> ByKind(const std::vector<uint32_t>& sizes, uint64_t edges,
                                    bool fewer_first) {
  std::vector<uint32_t> sorted;
  sorted.reserve(sizes.size());
  for (const bool fewer : {fewer_first, !fewer_first}) {
    for (size_t i = 0; i < sizes.size(); i += 2) {
      if ((sizes[i + 1] < edges) == fewer) {
        sorted.insert(sorted.end(), {sizes[i], sizes[i + 1]});
      }
    }
  }
  return sorted;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PACKING_DENSE_SIZES_H_
