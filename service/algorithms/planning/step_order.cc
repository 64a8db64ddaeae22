#include "service/algorithms/planning/step_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace packhouse {
namespace {

// Fisher-Yates: every order is equally likely.
void ShuffleAll(absl::Span<uint32_t> values, SeededRandom& random) {
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    std::swap(values[i], values[i + random.Below(values.size() - i)]);
  }
}

// Appends the runs of `num_ranks` of `sorted`, a whole number of them, in the order of `steps`.
void AppendSteps(absl::Span<const uint32_t> sorted, size_t num_ranks,
                 absl::Span<const uint32_t> steps, SeededRandom& random,
                 std::vector<uint32_t>& order) {
  for (const uint32_t step : steps) {
    const size_t begin = order.size();
    const auto run = sorted.subspan(step * num_ranks, num_ranks);
    order.insert(order.end(), run.begin(), run.end());
    ShuffleAll(absl::MakeSpan(order).subspan(begin), random);
  }
}

std::vector<uint32_t> ShuffledSteps(size_t num_steps, SeededRandom& random) {
  std::vector<uint32_t> steps(num_steps);
  std::iota(steps.begin(), steps.end(), 0);
  ShuffleAll(absl::MakeSpan(steps), random);
  return steps;
}

// Takes `count` neighbours out of `sorted`, whose ends are neighbours, too: so each is equally
// likely to be taken. They come cheapest first.
std::vector<uint32_t> TakeNeighbours(size_t count, SeededRandom& random,
                                     std::vector<uint32_t>& sorted) {
  std::vector<uint32_t> taken;
  if (count == 0) return taken;
  const size_t n = sorted.size();
  const size_t first = random.Below(n);
  const size_t wrapped = first + count > n ? first + count - n : 0;
  const auto begin = sorted.begin();
  const auto at = [begin](size_t i) { return begin + static_cast<ptrdiff_t>(i); };
  taken.insert(taken.end(), at(0), at(wrapped));
  taken.insert(taken.end(), at(first), at(std::min(n, first + count)));
  sorted.erase(at(first), at(std::min(n, first + count)));
  sorted.erase(at(0), at(wrapped));
  return taken;
}

}  // namespace

std::vector<std::vector<uint32_t>> OrderByCost(absl::Span<const BatchesOfRanks<uint64_t>> groups,
                                               SeededRandom& random) {
  // Steps in which all ranks of all groups have a batch.
  size_t num_steps = std::numeric_limits<size_t>::max();
  for (const auto& group : groups) {
    const size_t num_first = std::min(group.num_first, group.costs.size());
    num_steps = std::min(num_steps, (group.costs.size() - num_first) / group.num_ranks);
  }
  if (groups.empty()) num_steps = 0;
  const std::vector<uint32_t> steps = ShuffledSteps(num_steps, random);
  std::vector<std::vector<uint32_t>> orders;
  for (const auto& [costs, num_ranks, num_first] : groups) {
    std::vector<uint32_t> sorted(costs.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&costs = costs](uint32_t a, uint32_t b) { return costs[a] < costs[b]; });
    // What these steps do not need is taken out at random places, so that each batch is equally
    // likely to be among it, and what stays are neighbours.
    std::vector<uint32_t> first =
        TakeNeighbours(std::min(num_first, sorted.size()), random, sorted);
    std::vector<uint32_t> rest =
        TakeNeighbours(sorted.size() - num_steps * num_ranks, random, sorted);
    std::vector<uint32_t>& order =
        orders.emplace_back(TakeNeighbours(first.size() % num_ranks, random, first));
    order.reserve(costs.size());
    ShuffleAll(absl::MakeSpan(order), random);
    AppendSteps(first, num_ranks, ShuffledSteps(first.size() / num_ranks, random), random, order);
    AppendSteps(sorted, num_ranks, steps, random, order);
    // Of what is too much for other groups, steps of like cost, too; then what fills no step.
    std::vector<uint32_t> last = TakeNeighbours(rest.size() % num_ranks, random, rest);
    AppendSteps(rest, num_ranks, ShuffledSteps(rest.size() / num_ranks, random), random, order);
    ShuffleAll(absl::MakeSpan(last), random);
    order.insert(order.end(), last.begin(), last.end());
  }
  return orders;
}

double StepEfficiency(absl::Span<const BatchesOfRanks<double>> groups) {
  size_t num_steps = std::numeric_limits<size_t>::max();
  size_t num_ranks = 0;
  size_t num_batches = 0;
  for (const auto& group : groups) {
    num_steps = std::min(num_steps, group.costs.size() / group.num_ranks);
    num_ranks += group.num_ranks;
    num_batches += group.costs.size();
  }
  if (num_batches == 0) return 1;
  num_steps = std::max<size_t>(num_steps, 1);
  double of_steps = 0;
  for (size_t step = 0; step < num_steps; ++step) {
    double sum = 0;
    double largest = 0;
    for (const auto& group : groups) {
      const size_t begin = std::min(step * group.num_ranks, group.costs.size());
      for (const double cost : group.costs.subspan(begin, group.num_ranks)) {
        sum += cost;
        largest = std::max(largest, cost);
      }
    }
    of_steps += largest > 0 ? sum / static_cast<double>(num_ranks) / largest : 1;
  }
  return of_steps / static_cast<double>(num_steps);
}

}  // namespace packhouse
