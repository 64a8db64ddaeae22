#include "client/cli/next_fit.h"

#include <algorithm>
#include <cstddef>

namespace packhouse::client {
namespace {

bool Fits(const std::vector<uint64_t>& rows, const std::vector<uint64_t>& capacities) {
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (capacities[k] != 0 && rows[k] > capacities[k]) return false;
  }
  return true;
}

}  // namespace

PackingTotals NextFit(const GraphSizes& sizes, const std::vector<uint64_t>& capacities) {
  const std::size_t width = sizes.components.size();
  PackingTotals totals;
  totals.rows.resize(width + 1);
  std::vector<uint64_t> open(width + 1);
  std::vector<uint64_t> graph(width + 1, 1);
  std::vector<uint64_t> joined(width + 1);
  for (std::size_t row = 0; row < sizes.num_rows; ++row) {
    std::copy_n(sizes.Row(row).begin(), width, graph.begin());
    if (!Fits(graph, capacities)) {
      ++totals.rejected;
      continue;
    }
    for (std::size_t k = 0; k <= width; ++k) {
      joined[k] = open[k] + graph[k];
      totals.rows[k] += graph[k];
    }
    const bool opens = open[width] == 0 || !Fits(joined, capacities);
    if (opens) ++totals.batches;
    open = opens ? graph : joined;
    ++totals.graphs;
  }
  return totals;
}

uint64_t VolumeBound(const std::vector<uint64_t>& rows, const std::vector<uint64_t>& capacities) {
  uint64_t bound = 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (capacities[k] == 0) continue;
    bound = std::max(bound, rows[k] / capacities[k] + (rows[k] % capacities[k] != 0));
  }
  return bound;
}

}  // namespace packhouse::client
