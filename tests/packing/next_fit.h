// The client's next-fit with the service's types: what a better packer is measured against.
#ifndef PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_
#define PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/next_fit.h"
#include "service/planning/limits.h"

namespace packhouse {

// Graphs (by position) of each pack. `sizes` is row-major with l = limits.num_components() > 0
// counts a graph, each of which fits by itself.
inline std::vector<std::vector<uint64_t>> NextFit(absl::Span<const uint32_t> sizes,
                                                  const Limits& limits) {
  std::vector<std::vector<uint64_t>> packs;
  uint64_t graph = 0;
  for (const uint64_t batch : client::NextFit(sizes, limits.capacities())) {
    if (batch == packs.size()) packs.emplace_back();
    packs.at(batch).push_back(graph++);
  }
  return packs;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PACKING_NEXT_FIT_H_
