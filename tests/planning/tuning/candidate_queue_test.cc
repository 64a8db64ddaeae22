#include "service/algorithms/planning/tuning/candidate_queue.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/tuning/candidate_grid.h"
#include "tests/planning/tuning/tuning_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

std::vector<double> CostsOf(const DeviceProfile& profile) {
  std::vector<double> costs;
  for (const ComponentProfile& component : profile.components) {
    costs.push_back(component.max_rows == 0 ? 0 : component.relative_cost);
  }
  return costs;
}

std::vector<Candidate> AllOf(const CandidateGrid& grid,
                             size_t max_roots = CandidateQueue::kMaxRoots) {
  WorkBudget budget;
  CandidateQueue queue(grid, 1'000'000, budget, max_roots);
  std::vector<Candidate> candidates;
  while (std::optional<Candidate> candidate = queue.Next()) {
    candidates.push_back(*std::move(candidate));
  }
  EXPECT_TRUE(queue.complete());
  return candidates;
}

// How much each component can hold at most, in units of the sizes' divisor.
std::vector<uint64_t> Holds(const GraphDemand& demand, const std::vector<uint64_t>& capacities) {
  std::vector<uint64_t> units;
  for (size_t k = 0; k < capacities.size(); ++k) {
    units.push_back(std::min(capacities[k], demand.totals[k]) /
                    std::max<uint64_t>(demand.divisors[k], 1));
  }
  return units;
}

// Only candidates of the profile, by ascending bound, each once, with the volume bound; and all
// that matter: whatever else the profile allows can hold no more than one of them that is as small.
TEST(CandidateQueueTest, EveryCandidateThatMattersByAscendingBound) {
  uint64_t left_out = 0;
  uint64_t total = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random);
    ASSERT_THAT(CheckDeviceProfile(world.profile, world.schema), IsOk());
    const GraphDemand demand = DemandOf(world.histogram);
    const CandidateGrid grid(demand, world.profile, CostsOf(world.profile), {});
    const std::vector<Candidate> candidates = AllOf(grid);
    const std::vector<std::vector<uint64_t>> allowed = AllCandidates(world);
    std::set<std::vector<uint64_t>> different;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      EXPECT_TRUE(different.insert(candidate.capacities).second);
      // A component without a cost stops at the first capacity that holds as much as the largest.
      std::vector<uint64_t> most = candidate.capacities;
      for (size_t k = 0; k < most.size(); ++k) {
        const ComponentProfile& component = world.profile.components[k];
        if (component.max_rows == 0 || component.relative_cost > 0) continue;
        for (const std::vector<uint64_t>& other : allowed) {
          std::vector<uint64_t> same = other;
          same[k] = candidate.capacities[k];
          if (same == candidate.capacities) most[k] = other[k];
        }
      }
      EXPECT_EQ(Holds(demand, candidate.capacities), Holds(demand, most));
      EXPECT_TRUE(std::binary_search(allowed.begin(), allowed.end(), most));
      const uint64_t packs =
          ComputeVolumeBound(world.histogram, Limits::Create(candidate.capacities).value()).packs;
      EXPECT_EQ(candidate.least_packs, packs);
      EXPECT_EQ(candidate.bound,
                static_cast<double>(packs) * CostOfShape(world.profile, candidate.capacities));
      if (i != 0) {
        EXPECT_LE(candidates[i - 1].bound, candidate.bound);
      }
    }
    for (const std::vector<uint64_t>& capacities : allowed) {
      const Limits limits = Limits::Create(capacities).value();
      const uint64_t packs = ComputeVolumeBound(world.histogram, limits).packs;
      const double bound = static_cast<double>(packs) * CostOfShape(world.profile, capacities);
      const std::vector<uint64_t> held = Holds(demand, capacities);
      const auto is_no_worse = [&](const Candidate& other) {
        if (other.least_packs > packs || other.bound > bound) return false;
        const std::vector<uint64_t> other_held = Holds(demand, other.capacities);
        for (size_t k = 0; k < held.size(); ++k) {
          if (world.profile.components[k].relative_cost > 0) {
            if (other.capacities[k] > capacities[k] || other_held[k] != held[k]) return false;
          } else if (other_held[k] < held[k]) {
            return false;
          }
        }
        return true;
      };
      EXPECT_TRUE(std::any_of(candidates.begin(), candidates.end(), is_no_worse));
    }
    left_out += allowed.size() - candidates.size();
    total += allowed.size();
    if (HasFailure()) return;
  }
  // Both kinds occur.
  EXPECT_GT(left_out, total / 10);
  EXPECT_LT(left_out, total - total / 10);
}

// Memory for few roots changes nothing but the work.
TEST(CandidateQueueTest, FewRootsAtATimeGiveTheSameOrder) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random);
    const CandidateGrid grid(DemandOf(world.histogram), world.profile, CostsOf(world.profile), {});
    const std::vector<Candidate> all = AllOf(grid);
    for (const size_t max_roots : {1, 2, 5}) {
      const std::vector<Candidate> few = AllOf(grid, max_roots);
      ASSERT_EQ(few.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(few[i].capacities, all[i].capacities);
    }
    if (HasFailure()) return;
  }
}

// What a cell of the grid is measured by agrees with the search.
TEST(CandidateGridTest, FillGivesWhatTheQueueGives) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random);
    const CandidateGrid grid(DemandOf(world.histogram), world.profile, CostsOf(world.profile), {});
    for (const Candidate& candidate : AllOf(grid)) {
      std::vector<uint64_t> costed = candidate.capacities;
      for (size_t k = 0; k < costed.size(); ++k) {
        if (world.profile.components[k].relative_cost == 0) costed[k] = kUnlimited;
      }
      const std::optional<Candidate> filled = grid.Fill(costed);
      ASSERT_TRUE(filled);
      EXPECT_EQ(filled->capacities, candidate.capacities);
      EXPECT_EQ(filled->least_packs, candidate.least_packs);
      EXPECT_EQ(filled->bound, candidate.bound);
    }
    if (HasFailure()) return;
  }
}

TEST(CandidateGridTest, FillRefusesWhatIsTooSmallOrTooLarge) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({9}, 5), IsOk());
  DeviceProfile profile;
  profile.components = {{1, 20, 1, 10, 1}, {1, 4, 1, 1, 0}};
  profile.memory_bytes = 150;
  const CandidateGrid grid(DemandOf(histogram), profile, {1, 0}, {});
  EXPECT_FALSE(grid.Fill({8, kUnlimited}));
  EXPECT_TRUE(grid.Fill({9, kUnlimited}));
  EXPECT_EQ(grid.Fill({14, kUnlimited})->capacities, (std::vector<uint64_t>{14, 4}));
  EXPECT_FALSE(grid.Fill({15, kUnlimited}));  // Not even one graph's bytes are left.
}

// Several components without a cost share what memory is left, in proportion to what they need.
TEST(CandidateGridTest, ComponentsWithoutACostShareTheMemory) {
  SizeHistogram histogram(3);
  ASSERT_THAT(histogram.Add({10, 4, 2}, 1000), IsOk());
  DeviceProfile profile;
  profile.components = {{10, 10, 1, 1, 1}, {1, 1000, 1, 1, 0}, {1, 1000, 1, 1, 0}, {1, 0, 1, 0, 0}};
  profile.memory_bytes = 10 + 61;
  const CandidateGrid grid(DemandOf(histogram), profile, {1, 0, 0, 0}, {});
  const std::vector<Candidate> candidates = AllOf(grid);
  ASSERT_EQ(candidates.size(), 1);
  EXPECT_EQ(candidates[0].capacities, (std::vector<uint64_t>{10, 40, 20, kUnlimited}));
}

// A chain that is too long is thinned out where capacities are small; the largest come in full.
TEST(CandidateGridTest, LongChainsAreThinnedOut) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({3, 5}, uint64_t{1} << 59), IsOk());
  ASSERT_THAT(histogram.Add({4, 1}, uint64_t{1} << 59), IsOk());
  DeviceProfile profile;
  profile.components = {
      {1, uint64_t{1} << 32, 1, 0, 1}, {1, uint64_t{1} << 32, 3, 0, 1}, {1, 0, 1, 0, 0}};
  const CandidateGrid grid(DemandOf(histogram), profile, {1, 1, 0}, {});
  uint64_t visited = 0;
  uint64_t last_packs = 0;
  GridPositions last = {UINT64_MAX, UINT64_MAX};
  EXPECT_FALSE(grid.VisitBalanced(10'000, [&](uint64_t packs, const GridPositions& positions) {
    ++visited;
    EXPECT_GT(packs, last_packs);
    EXPECT_LE(positions[0], last[0]);
    EXPECT_LE(positions[1], last[1]);
    last_packs = packs;
    last = positions;
    return true;
  }));
  EXPECT_EQ(last, (GridPositions{0, 0}));
  EXPECT_GT(visited, 1000);
  EXPECT_LT(visited, 20'000);
  // Ended by the visitor.
  EXPECT_FALSE(grid.VisitBalanced(10'000, [](uint64_t, const GridPositions&) { return false; }));
}

TEST(CandidateQueueTest, ABudgetThatEndsLeavesTheLargest) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({3}, 1'000'000), IsOk());
  DeviceProfile profile;
  profile.components = {{1, 10'000, 1, 0, 1}, {1, 0, 1, 0, 0}};
  const CandidateGrid grid(DemandOf(histogram), profile, {1, 0}, {});
  WorkBudget none(0);
  CandidateQueue queue(grid, 1'000'000, none);
  const std::optional<Candidate> candidate = queue.Next();
  ASSERT_TRUE(candidate);
  EXPECT_EQ(candidate->least_packs, grid.fewest_packs());
  EXPECT_FALSE(queue.complete());
}

// Numbers at their limits: nothing wraps around, and bounds stay in order.
TEST(CandidateQueueTest, HugeCountsAndCapacities) {
  const uint64_t most = UINT64_MAX - 1;
  for (const auto& [size, count] : std::vector<std::pair<uint32_t, uint64_t>>{
           {1, UINT64_MAX}, {UINT32_MAX, (uint64_t{1} << 32) + 1}, {0, uint64_t{1} << 60}}) {
    SizeHistogram histogram(1);
    ASSERT_THAT(histogram.Add({size}, count), IsOk());
    for (const ComponentProfile& component :
         {ComponentProfile{1, most, 1, 0, 1}, ComponentProfile{most, most, 1, 0, 1},
          ComponentProfile{1, most, uint64_t{1} << 63, 1, 1},
          ComponentProfile{1, uint64_t{1} << 33, 4096, uint64_t{1} << 32, 1}}) {
      DeviceProfile profile;
      profile.components = {component, {1, most, 1, 1, 1}};
      const CandidateGrid grid(DemandOf(histogram), profile, {1, 1}, {});
      WorkBudget budget(50'000'000);
      CandidateQueue queue(grid, 10'000, budget);
      double last = 0;
      for (int i = 0; i < 100; ++i) {
        const std::optional<Candidate> candidate = queue.Next();
        if (!candidate) break;
        EXPECT_GE(candidate->bound, last);
        last = candidate->bound;
        EXPECT_GE(candidate->capacities[0], std::max<uint64_t>(size, component.min_rows));
        EXPECT_LE(candidate->capacities[0], component.max_rows);
        EXPECT_EQ(candidate->capacities[0] % component.multiple_of, 0);
        EXPECT_GE(candidate->least_packs, 1);
      }
    }
  }
}

}  // namespace
}  // namespace packhouse
