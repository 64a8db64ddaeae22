#include "service/wings/tfgnn/size_constraints.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse::tfgnn {
namespace {

constexpr uint64_t kMaxTotal = std::numeric_limits<int64_t>::max();

// Components of the node sets, then of the edge sets.
std::vector<size_t> ComponentsOf(const GraphSets& sets) {
  std::vector<size_t> components;
  for (const RowSet& set : sets.node_sets()) components.push_back(set.component);
  for (const EdgeSet& set : sets.edge_sets()) components.push_back(set.component);
  return components;
}

absl::Status CheckGraphs(SizesView sizes, uint64_t batch_size) {
  if (sizes.num_graphs() == 0) return absl::InvalidArgumentError("there is no graph");
  // Sums of counts below 2^32 then stay below 2^63.
  constexpr uint64_t kMaxBatchSize = uint64_t{1} << 31;
  if (batch_size >= 1 && batch_size <= kMaxBatchSize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("batch_size ", batch_size, " is not in [1, ", kMaxBatchSize, "]"));
}

// Totals of real graphs, with room for padding.
absl::StatusOr<SizeConstraints> WithRoomForPadding(const GraphSets& sets, uint64_t num_graphs,
                                                   const std::vector<uint64_t>& totals,
                                                   absl::Span<const uint64_t> min_nodes) {
  const size_t num_node_sets = sets.node_sets().size();
  std::vector<uint64_t> room(totals.size(), 0);
  for (size_t s = 0; s < min_nodes.size() && s < num_node_sets; ++s) room[s] = min_nodes[s];
  for (const EdgeSet& edges : sets.edge_sets()) {
    for (const size_t s : {edges.source_set, edges.target_set}) {
      room[s] = std::max<uint64_t>(room[s], 1);
    }
  }
  SizeConstraints constraints;
  constraints.total_graphs = num_graphs + 1;
  for (size_t s = 0; s < totals.size(); ++s) {
    const std::optional<uint64_t> total = CheckedAdd(totals[s], room[s]);
    if (!total || *total > kMaxTotal) {
      return absl::InvalidArgumentError(absl::StrCat("a total exceeds ", kMaxTotal));
    }
    (s < num_node_sets ? constraints.total_nodes : constraints.total_edges).push_back(*total);
  }
  return constraints;
}

double StandardDeviation(const std::vector<uint64_t>& values) {
  double mean = 0;
  for (const uint64_t value : values) mean += static_cast<double>(value);
  mean /= static_cast<double>(values.size());
  double squares = 0;
  for (const uint64_t value : values) {
    const double difference = static_cast<double>(value) - mean;
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

absl::StatusOr<SizeConstraints> FindTightSizeConstraints(
    const GraphSets& sets, SizesView sizes, uint64_t batch_size,
    absl::Span<const uint64_t> min_nodes_per_graph) {
  PH_RETURN_IF_ERROR(CheckGraphs(sizes, batch_size));
  const std::vector<size_t> components = ComponentsOf(sets);
  std::vector<uint64_t> totals(components.size(), 0);
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    const uint32_t* const tuple = sizes.counts().data() + i * sizes.num_components();
    for (size_t s = 0; s < components.size(); ++s) {
      totals[s] = std::max<uint64_t>(totals[s], tuple[components[s]]);
    }
  }
  for (uint64_t& total : totals) total *= batch_size;
  return WithRoomForPadding(sets, batch_size, totals, min_nodes_per_graph);
}

absl::StatusOr<SizeConstraints> LearnFitOrSkipSizeConstraints(const GraphSets& sets,
                                                              SizesView sizes,
                                                              const LearnOptions& options,
                                                              SeededRandom& random) {
  PH_RETURN_IF_ERROR(CheckGraphs(sizes, options.batch_size));
  if (!(options.success_ratio >= 0 && options.success_ratio <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("success_ratio ", options.success_ratio, " is not in [0, 1]"));
  }
  if (options.sample_size == 0) return absl::InvalidArgumentError("sample_size is 0");
  if (options.num_thresholds == 0) return absl::InvalidArgumentError("num_thresholds is 0");

  const std::vector<size_t> components = ComponentsOf(sets);
  const size_t num_sets = components.size();
  std::vector<std::vector<uint64_t>> totals(num_sets, std::vector<uint64_t>(options.sample_size));
  for (uint64_t batch = 0; batch < options.sample_size; ++batch) {
    for (uint64_t j = 0; j < options.batch_size; ++j) {
      const uint64_t graph = random.Below(sizes.num_graphs());
      const uint32_t* const tuple = sizes.counts().data() + graph * sizes.num_components();
      for (size_t s = 0; s < num_sets; ++s) totals[s][batch] += tuple[components[s]];
    }
  }
  std::vector<double> importance(num_sets);
  for (size_t s = 0; s < num_sets; ++s) importance[s] = StandardDeviation(totals[s]);
  const double largest =
      num_sets == 0 ? 0 : *std::max_element(importance.begin(), importance.end());
  std::vector<std::vector<uint64_t>> descending = totals;
  for (size_t s = 0; s < num_sets; ++s) {
    importance[s] = largest > 0 ? importance[s] / largest : 0;
    std::sort(descending[s].begin(), descending[s].end(), std::greater<>());
  }
  const auto candidate = [&](uint64_t t) {
    std::vector<uint64_t> bounds(num_sets);
    for (size_t s = 0; s < num_sets; ++s) {
      const double place = static_cast<double>(t) / static_cast<double>(options.num_thresholds) *
                           static_cast<double>(options.sample_size) * importance[s];
      bounds[s] = descending[s][static_cast<size_t>(place)];
    }
    return bounds;
  };
  const auto fits_often_enough = [&](const std::vector<uint64_t>& bounds) {
    uint64_t fitting = 0;
    for (uint64_t batch = 0; batch < options.sample_size; ++batch) {
      bool fits = true;
      for (size_t s = 0; s < num_sets; ++s) fits = fits && totals[s][batch] <= bounds[s];
      fitting += fits ? 1 : 0;
    }
    return static_cast<double>(fitting) >=
           options.success_ratio * static_cast<double>(options.sample_size);
  };
  // Bounds fall as t rises, and with them the share that fits: the last good one is found by
  // halving. Candidate 0 fits all.
  uint64_t good = 0;
  uint64_t bad = options.num_thresholds;
  while (bad - good > 1) {
    const uint64_t middle = good + (bad - good) / 2;
    (fits_often_enough(candidate(middle)) ? good : bad) = middle;
  }
  return WithRoomForPadding(sets, options.batch_size, candidate(good), {});
}

}  // namespace packhouse::tfgnn
