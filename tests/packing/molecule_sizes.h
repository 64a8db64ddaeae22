// A stand-in for real molecules where no data is at hand.
#ifndef PACKHOUSE_TESTS_PACKING_MOLECULE_SIZES_H_
#define PACKHOUSE_TESTS_PACKING_MOLECULE_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/random.h"

namespace packhouse {

// (nodes, edges) of `num_graphs` graphs, row-major: about 27 nodes, a few large ones, at most 208
// and 422; edges are even (two a bond) and follow the nodes closely.
inline std::vector<uint32_t> MoleculeSizes(size_t num_graphs, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> sizes;
  sizes.reserve(2 * num_graphs);
  for (size_t i = 0; i < num_graphs; ++i) {
    uint64_t nodes = 4 + random.Below(16) + random.Below(16) + random.Below(16);
    if (random.Below(64) == 0) nodes += random.Below(160);
    const uint64_t rings = random.Below(5);
    sizes.push_back(static_cast<uint32_t>(nodes));
    sizes.push_back(static_cast<uint32_t>(2 * (nodes - 1 + rings)));
  }
  return sizes;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PACKING_MOLECULE_SIZES_H_
