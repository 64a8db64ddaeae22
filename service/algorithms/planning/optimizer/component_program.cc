#include "service/algorithms/planning/optimizer/component_program.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/optimizer/column_generation.h"
#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"
#include "service/algorithms/planning/pattern_pricing.h"
#include "service/algorithms/planning/plan.h"

namespace packhouse {
namespace {

constexpr uint64_t kMostSizesAlone = 1024;
constexpr uint64_t kMostRoomsAlone = uint64_t{1} << 18;
constexpr uint64_t kShareOfBudget = 2;
// The fewest pricings, of n * rooms steps each, and pivots, of n^2 / 16, that are worth a try.
constexpr uint64_t kLeastPricings = 4;

// The number of the component `graphs`, where it is one.
std::optional<size_t> GraphsOf(const PackingProblem& problem) {
  for (size_t k = 0; k < problem.num_components(); ++k) {
    if (problem.original(k) == problem.empty_plan().num_components) return k;
  }
  return std::nullopt;
}

// One component, and the number of graphs unless `most_graphs` is kUnlimited. Nullopt if there are
// too many sizes, or so many graphs that a sum overflows.
std::optional<PackingProblem> Alone(const PackingProblem& problem, size_t k, uint64_t most_graphs) {
  SizeHistogram histogram(1);
  for (size_t i = 0; i < problem.num_items(); ++i) {
    const uint32_t size = problem.sizes(i)[k];
    // A graph of size 0 only needs one of the places for graphs.
    if (size == 0 && most_graphs == kUnlimited) continue;
    if (!histogram.Add({size}, problem.count(i)).ok()) return std::nullopt;
    if (histogram.num_distinct() > kMostSizesAlone) return std::nullopt;
  }
  absl::StatusOr<Limits> limits = Limits::Create({problem.capacity(k), most_graphs});
  if (!limits.ok() || histogram.num_graphs() == 0) return std::nullopt;
  return PackingProblem(histogram, *limits);
}

bool IsWorthTrying(const PackingProblem& problem, uint64_t steps) {
  const uint64_t n = problem.num_items();
  const uint64_t rooms = PatternPricing::NumRooms(problem);
  return problem.num_components() != 0 && n <= kMostSizesAlone && rooms <= kMostRoomsAlone &&
         n * rooms * kLeastPricings + n * n <= steps;
}

uint64_t ProgramBound(const PackingProblem& problem, uint64_t known, VectorLevel level,
                      WorkBudget& budget) {
  const uint64_t share = budget.remaining() / kShareOfBudget;
  if (!IsWorthTrying(problem, share)) return known;
  WorkBudget part = budget.Part(share);
  std::vector<Pattern> pool = PlanByFirstFitDecreasing(problem, level, &part);
  uint64_t packs = 0;
  for (const Pattern& pattern : pool) packs += pattern.repeats;
  if (packs > known && part.remaining() != 0) {
    ColumnGenerationOptions options;
    options.lower_bound = known;
    options.vector_level = level;
    options.only_bound = true;
    known = std::max(known, PlanByColumnGeneration(problem, pool, options, part).lower_bound);
  }
  budget.Spend(share - part.remaining());
  return known;
}

}  // namespace

uint64_t ComponentProgramBytes(uint64_t num_distinct) {
  const uint64_t items = std::min(num_distinct, kMostSizesAlone);
  // Its sizes and counts, the inverse of the basis, and the worth of all rooms.
  return 64 * items + sizeof(double) * items * items + sizeof(int32_t) * kMostRoomsAlone;
}

uint64_t ComponentProgramBound(const PackingProblem& problem, uint64_t known, VectorLevel level,
                               WorkBudget& budget) {
  const std::optional<size_t> graphs = GraphsOf(problem);
  for (size_t k = 0; k < problem.num_components() && budget.remaining() != 0; ++k) {
    if (k == graphs) continue;
    if (graphs) {
      const std::optional<PackingProblem> both = Alone(problem, k, problem.capacity(*graphs));
      if (both && IsWorthTrying(*both, budget.remaining() / kShareOfBudget)) {
        known = ProgramBound(*both, known, level, budget);
        continue;
      }
    }
    const std::optional<PackingProblem> alone = Alone(problem, k, kUnlimited);
    if (alone) known = ProgramBound(*alone, known, level, budget);
  }
  return known;
}

}  // namespace packhouse
