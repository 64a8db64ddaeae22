#include "client/cli/next_fit.h"

#include <algorithm>
#include <cstddef>

namespace packhouse::client {
namespace {

bool Fits(absl::Span<const uint64_t> rows, absl::Span<const uint64_t> capacities) {
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (capacities[k] != 0 && rows[k] > capacities[k]) return false;
  }
  return true;
}

}  // namespace

std::vector<uint64_t> NextFit(absl::Span<const uint32_t> sizes,
                              absl::Span<const uint64_t> capacities) {
  const std::size_t width = capacities.size() - 1;
  std::vector<uint64_t> batches(sizes.size() / width, kNoBatch);
  uint64_t num_batches = 0;
  std::vector<uint64_t> open(width + 1);
  std::vector<uint64_t> graph(width + 1, 1);
  std::vector<uint64_t> joined(width + 1);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    std::copy_n(sizes.subspan(i * width).begin(), width, graph.begin());
    if (!Fits(graph, capacities)) continue;
    for (std::size_t k = 0; k <= width; ++k) joined[k] = open[k] + graph[k];
    const bool opens = num_batches == 0 || !Fits(joined, capacities);
    if (opens) ++num_batches;
    open = opens ? graph : joined;
    batches[i] = num_batches - 1;
  }
  return batches;
}

uint64_t VolumeBound(absl::Span<const uint64_t> rows, absl::Span<const uint64_t> capacities) {
  // Graphs without rows take a batch, too.
  uint64_t bound = !rows.empty() && rows.back() != 0 ? 1 : 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (capacities[k] == 0) continue;
    bound = std::max(bound, rows[k] / capacities[k] + (rows[k] % capacities[k] != 0));
  }
  return bound;
}

}  // namespace packhouse::client
