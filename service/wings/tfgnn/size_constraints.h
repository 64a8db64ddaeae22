// The shapes that TF-GNN pads batches of a fixed number of graphs to, to compare plans with.
//
// A fixed shape has a total for `graphs` (TF-GNN's components) and for each set. Room for padding
// is part of it: one graph more, and one node more in every node set where some edge ends.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_SIZE_CONSTRAINTS_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_SIZE_CONSTRAINTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/seeded_random.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse::tfgnn {

struct SizeConstraints {
  uint64_t total_graphs = 0;
  // For each of node_sets() and edge_sets().
  std::vector<uint64_t> total_nodes;
  std::vector<uint64_t> total_edges;

  friend bool operator==(const SizeConstraints&, const SizeConstraints&) = default;
};

// tfgnn.find_tight_size_constraints: any `batch_size` of these graphs fit, since each total is that
// many times the largest graph's. `sizes` has the components of the sets' schema.
// `min_nodes_per_graph`, for each node set or empty, is the least that a padding graph gets.
//
// INVALID_ARGUMENT if there is no graph, batch_size is 0, or a total exceeds 2^63 - 1. O(n * l).
absl::StatusOr<SizeConstraints> FindTightSizeConstraints(
    const GraphSets& sets, SizesView sizes, uint64_t batch_size,
    absl::Span<const uint64_t> min_nodes_per_graph = {});

struct LearnOptions {
  uint64_t batch_size = 1;
  // The share of random batches that are to fit, in [0, 1].
  double success_ratio = 1.0;
  // How many random batches are tried, and how many candidates.
  uint64_t sample_size = 100'000;
  uint64_t num_thresholds = 1'000;
};

// tfgnn.learn_fit_or_skip_size_constraints: the smallest of `num_thresholds` candidates which so
// many random batches fit; the others are to be thrown away, so it is for training on shuffled,
// repeated data alone. A candidate takes all sets' totals at one quantile of the random batches,
// farther from the largest for sets whose totals vary more.
//
// INVALID_ARGUMENT naming the option. O(sample_size * (batch_size + log sample_size) * l) time,
// 8 * sample_size bytes for each set.
absl::StatusOr<SizeConstraints> LearnFitOrSkipSizeConstraints(const GraphSets& sets,
                                                              SizesView sizes,
                                                              const LearnOptions& options,
                                                              SeededRandom& random);

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_SIZE_CONSTRAINTS_H_
