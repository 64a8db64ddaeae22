#include "service/algorithms/planning/packing_problem.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace packhouse {
namespace {

struct Column {
  size_t original = 0;
  uint64_t gcd = 0;
  uint64_t capacity = 0;  // In units of gcd.
};

// Whether another component is always full before `graphs`: each graph takes at least 1 / limit of
// that component.
bool GraphsNeverBind(const SizeHistogram& histogram, const Limits& limits) {
  for (size_t k = 0; k < limits.num_components(); ++k) {
    if (!limits.has_limit(k)) continue;
    uint32_t smallest = UINT32_MAX;
    for (size_t row = 0; row < histogram.num_distinct(); ++row) {
      smallest = std::min(smallest, histogram.tuple(row)[k]);
    }
    if (smallest != 0 && limits.capacity(k) / smallest <= limits.graphs()) return true;
  }
  return false;
}

}  // namespace

PackingProblem::PackingProblem(const SizeHistogram& histogram, const Limits& limits) {
  PlanItems plan_items = ItemsOf(histogram);
  counts_ = std::move(plan_items.counts);
  auto items = std::make_shared<Items>();
  items->empty_plan = std::move(plan_items.empty_plan);
  const size_t l = histogram.num_components();
  std::vector<Column> columns;
  for (size_t k = 0; k < l; ++k) {
    // A component binds only if all graphs together exceed its capacity.
    if (!limits.has_limit(k) || histogram.total(k) <= limits.capacity(k)) continue;
    uint64_t gcd = 0;
    for (size_t row = 0; row < histogram.num_distinct() && gcd != 1; ++row) {
      gcd = std::gcd(gcd, uint64_t{histogram.tuple(row)[k]});
    }
    columns.push_back({k, gcd, limits.capacity(k) / gcd});
  }
  if (limits.has_limit(l) && histogram.num_graphs() > limits.graphs() &&
      !GraphsNeverBind(histogram, limits)) {
    columns.push_back({l, 1, limits.graphs()});
  }
  const size_t m = columns.size();
  items->sizes.resize(counts_.size() * m);
  for (size_t j = 0; j < m; ++j) {
    const Column& column = columns[j];
    for (size_t i = 0; i < counts_.size(); ++i) {
      items->sizes[i * m + j] =
          column.original == l
              ? 1
              : static_cast<uint32_t>(items->empty_plan.tuple(i)[column.original] / column.gcd);
    }
    items->capacities.push_back(column.capacity);
    items->originals.push_back(column.original);
  }
  items_ = std::move(items);
  ComputeTotals();
}

PackingProblem::PackingProblem(const PackingProblem& problem, std::vector<uint64_t> counts)
    : items_(problem.items_), counts_(std::move(counts)) {
  ComputeTotals();
}

PackingProblem::PackingProblem(const PackingProblem& problem, absl::Span<const uint32_t> items,
                               absl::Span<const uint32_t> starts) {
  auto merged = std::make_shared<Items>();
  const PackingPlan& plan = problem.empty_plan();
  merged->empty_plan.num_components = plan.num_components;
  merged->capacities = problem.items_->capacities;
  merged->originals = problem.items_->originals;
  for (size_t run = 0; run + 1 < starts.size(); ++run) {
    const uint32_t first = items[starts[run]];
    const auto tuple = plan.tuple(first);
    merged->empty_plan.tuples.insert(merged->empty_plan.tuples.end(), tuple.begin(), tuple.end());
    const auto sizes = problem.sizes(first);
    merged->sizes.insert(merged->sizes.end(), sizes.begin(), sizes.end());
    uint64_t count = 0;
    for (uint32_t i = starts[run]; i < starts[run + 1]; ++i) count += problem.count(items[i]);
    counts_.push_back(count);
  }
  items_ = std::move(merged);
  ComputeTotals();
}

void PackingProblem::ComputeTotals() {
  num_graphs_ = std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
  totals_.assign(num_components(), 0);
  for (size_t i = 0; i < counts_.size(); ++i) {
    for (size_t k = 0; k < num_components(); ++k) totals_[k] += sizes(i)[k] * counts_[i];
  }
}

uint32_t PackingProblem::MostCopies(size_t i) const {
  uint64_t copies = UINT32_MAX;
  for (size_t k = 0; k < num_components(); ++k) {
    if (sizes(i)[k] != 0) copies = std::min(copies, capacity(k) / sizes(i)[k]);
  }
  return static_cast<uint32_t>(copies);
}

double PackingProblem::LargestShare(size_t i) const {
  double largest = 0;
  for (size_t k = 0; k < num_components(); ++k) {
    largest =
        std::max(largest, static_cast<double>(sizes(i)[k]) / static_cast<double>(capacity(k)));
  }
  return largest;
}

}  // namespace packhouse
