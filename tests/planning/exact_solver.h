// The fewest packs there can be, by trying everything: for worlds of a few graphs.
#ifndef PACKHOUSE_TESTS_PLANNING_EXACT_SOLVER_H_
#define PACKHOUSE_TESTS_PLANNING_EXACT_SOLVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

// For every set of graphs: one pack if they fit together, else the best split in two parts of
// which one is a pack with the set's first graph. O(3^n) for n graphs, of which each must fit.
inline uint64_t OptimalPacks(const SizeHistogram& histogram, const Limits& limits) {
  std::vector<std::vector<uint32_t>> graphs;
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    const auto tuple = histogram.tuple(row);
    for (uint64_t i = 0; i < histogram.count(row); ++i) {
      graphs.emplace_back(tuple.begin(), tuple.end());
    }
  }
  const uint32_t num_sets = uint32_t{1} << graphs.size();
  std::vector<bool> fits(num_sets);
  for (uint32_t set = 0; set < num_sets; ++set) {
    std::vector<uint64_t> rows(limits.num_components() + 1, 0);
    for (size_t i = 0; i < graphs.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      for (size_t k = 0; k < graphs[i].size(); ++k) rows[k] += graphs[i][k];
      ++rows.back();
    }
    fits[set] = true;
    for (size_t k = 0; k < rows.size(); ++k) {
      if (rows[k] > limits.capacity(k)) fits[set] = false;
    }
  }
  std::vector<uint64_t> packs(num_sets, graphs.size());
  packs[0] = 0;
  for (uint32_t set = 1; set < num_sets; ++set) {
    const uint32_t first = set & -set;
    for (uint32_t pack = set; pack != 0; pack = (pack - 1) & set) {
      if ((pack & first) != 0 && fits[pack]) {
        packs[set] = std::min(packs[set], packs[set ^ pack] + 1);
      }
    }
  }
  return packs[num_sets - 1];
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_EXACT_SOLVER_H_
