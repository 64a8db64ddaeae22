// How others make the batches of ranks that train together, written anew from what is told of them,
// for tests/benchmarks/balance_table.cc. Each bounds nodes alone.
#ifndef PACKHOUSE_TESTS_BENCHMARKS_STEP_SAMPLERS_H_
#define PACKHOUSE_TESTS_BENCHMARKS_STEP_SAMPLERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"

namespace packhouse {

struct SampledSteps {
  // Whole steps: the first `num_ranks` batches are step 0, and so on. Items by their numbers.
  std::vector<std::vector<uint32_t>> batches;
  // Items that are in no batch, and how often items come once more than once.
  uint64_t num_dropped = 0;
  uint64_t num_repeated = 0;
};

template <typename T>
void ShuffleAll(std::vector<T>& values, SeededRandom& random) {
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    std::swap(values[i], values[i + random.Below(values.size() - i)]);
  }
}

// Items in random order are added to the open batch; one that does not fit opens the next.
inline std::vector<std::vector<uint32_t>> NextFit(absl::Span<const uint32_t> nodes,
                                                  uint64_t most_nodes, SeededRandom& random,
                                                  uint64_t& num_dropped) {
  std::vector<uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  ShuffleAll(order, random);
  std::vector<std::vector<uint32_t>> batches;
  uint64_t sum = 0;
  for (const uint32_t item : order) {
    if (nodes[item] > most_nodes) {
      ++num_dropped;
      continue;
    }
    if (batches.empty() || sum + nodes[item] > most_nodes) {
      batches.emplace_back();
      sum = 0;
    }
    batches.back().push_back(item);
    sum += nodes[item];
  }
  return batches;
}

// fairchem's MaxAtomDistributedBatchSampler: batches are made once, by next-fit on atoms; each
// epoch has them in a random order. The last step is completed by the first batches once more.
inline SampledSteps StepsOfFairchem(absl::Span<const uint32_t> nodes, uint64_t most_nodes,
                                    size_t num_ranks, uint64_t seed) {
  SeededRandom random(seed);
  SampledSteps steps;
  steps.batches = NextFit(nodes, most_nodes, random, steps.num_dropped);
  ShuffleAll(steps.batches, random);
  const size_t n = steps.batches.size();
  for (size_t i = 0; n != 0 && steps.batches.size() % num_ranks != 0; ++i) {
    std::vector<uint32_t> again = steps.batches[i % n];
    steps.num_repeated += again.size();
    steps.batches.push_back(std::move(again));
  }
  return steps;
}

// PyG's DynamicBatchSampler: next-fit on nodes in a new order each epoch. It knows no ranks:
// batches are dealt in turn here, and those that do not fill a step are dropped.
inline SampledSteps StepsOfPyg(absl::Span<const uint32_t> nodes, uint64_t most_nodes,
                               size_t num_ranks, uint64_t seed) {
  SeededRandom random(seed);
  SampledSteps steps;
  steps.batches = NextFit(nodes, most_nodes, random, steps.num_dropped);
  while (steps.batches.size() % num_ranks != 0) {
    steps.num_dropped += steps.batches.back().size();
    steps.batches.pop_back();
  }
  return steps;
}

// The balanced batches for MACE (Firoz et al. 2025, algorithm 1): graphs by falling number of
// nodes, each to the batch with the most room; there are as few batches as the nodes need, a whole
// number of steps, and a step's more when a graph finds no room. Batches come in random order.
inline SampledSteps StepsOfMace(absl::Span<const uint32_t> nodes, uint64_t most_nodes,
                                size_t num_ranks, uint64_t seed) {
  SampledSteps steps;
  std::vector<uint32_t> order;
  uint64_t sum = 0;
  for (uint32_t item = 0; item < nodes.size(); ++item) {
    if (nodes[item] > most_nodes) {
      ++steps.num_dropped;
      continue;
    }
    order.push_back(item);
    sum += nodes[item];
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return nodes[a] > nodes[b]; });
  // Nodes, and the batch that has so many: the emptiest first.
  std::priority_queue<std::pair<uint64_t, uint32_t>, std::vector<std::pair<uint64_t, uint32_t>>,
                      std::greater<>>
      emptiest;
  const auto add_step = [&] {
    for (size_t i = 0; i < num_ranks; ++i) {
      emptiest.emplace(0, static_cast<uint32_t>(steps.batches.size()));
      steps.batches.emplace_back();
    }
  };
  while (steps.batches.size() * most_nodes < sum) add_step();
  for (const uint32_t item : order) {
    if (emptiest.empty() || emptiest.top().first + nodes[item] > most_nodes) add_step();
    const auto [filled, batch] = emptiest.top();
    emptiest.pop();
    steps.batches[batch].push_back(item);
    emptiest.emplace(filled + nodes[item], batch);
  }
  SeededRandom random(seed);
  ShuffleAll(steps.batches, random);
  return steps;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_BENCHMARKS_STEP_SAMPLERS_H_
