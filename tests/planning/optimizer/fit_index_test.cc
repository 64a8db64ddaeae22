#include "service/algorithms/planning/optimizer/fit_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// Item by item.
class SlowIndex {
 public:
  SlowIndex(const PackingProblem& problem, std::vector<uint32_t> order)
      : problem_(problem), order_(std::move(order)), present_(order_.size(), true) {}

  size_t FirstFit(size_t from, const std::vector<uint32_t>& room) const {
    for (size_t p = from; p < order_.size(); ++p) {
      if (present_[p] && Fits(order_[p], room)) return p;
    }
    return order_.size();
  }
  void Remove(size_t position) { present_[position] = false; }

 private:
  bool Fits(uint32_t item, const std::vector<uint32_t>& room) const {
    for (size_t k = 0; k < room.size(); ++k) {
      if (problem_.sizes(item)[k] > room[k]) return false;
    }
    return true;
  }

  const PackingProblem& problem_;
  std::vector<uint32_t> order_;
  std::vector<bool> present_;
};

// About `n` items of l components, all of which bind: sizes up to `most`, capacities so that two
// graphs never fit together in every component.
PackingProblem RandomProblem(Random& random, size_t n, size_t l, uint32_t most) {
  SizeHistogram histogram(l);
  std::vector<uint32_t> tuple(l);
  for (size_t i = 0; i < n; ++i) {
    for (uint32_t& size : tuple) {
      const uint64_t kind = random.Below(16);
      size = kind == 0   ? 0
             : kind == 1 ? most
                         : static_cast<uint32_t>(random.Below(uint64_t{most} + 1));
    }
    histogram.Add(tuple, 2).IgnoreError();
  }
  // This makes the common divisors 1, and leaves no component out.
  histogram.Add(std::vector<uint32_t>(l, 1), 2).IgnoreError();
  std::vector<uint64_t> capacities(l, most);
  capacities.push_back(kUnlimited);
  return PackingProblem(histogram, Limits::Create(std::move(capacities)).value());
}

std::vector<uint32_t> RandomRoom(Random& random, size_t m, uint32_t most) {
  std::vector<uint32_t> room(m);
  // Tight ones are rarely met in many components at once.
  const bool wide = random.Below(2) == 0;
  for (uint32_t& rows : room) {
    const uint64_t kind = random.Below(8);
    rows = kind == 0   ? 0
           : kind == 1 ? UINT32_MAX
           : wide      ? most - static_cast<uint32_t>(random.Below(uint64_t{most} / 4 + 1))
                       : static_cast<uint32_t>(random.Below(uint64_t{most} + 1));
  }
  return room;
}

void ComparedWithSlowIndex(Random& random, const PackingProblem& problem, uint32_t most,
                           VectorLevel level, size_t queries_a_removal) {
  std::vector<uint32_t> order(problem.num_items());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  order.resize(order.size() - random.Below(order.size() / 2 + 1));
  FitIndex index(problem, order, level);
  SlowIndex slow(problem, order);
  ASSERT_EQ(index.size(), order.size());
  // In a random order, with bursts that empty whole blocks.
  std::vector<size_t> removals(order.size());
  std::iota(removals.begin(), removals.end(), 0);
  for (size_t i = removals.size(); i > 1; --i)
    std::swap(removals[i - 1], removals[random.Below(i)]);
  std::sort(removals.begin(),
            removals.begin() + static_cast<std::ptrdiff_t>(random.Below(order.size() + 1)));
  for (const size_t removed : removals) {
    for (size_t query = 0; query < queries_a_removal; ++query) {
      const std::vector<uint32_t> room = RandomRoom(random, problem.num_components(), most);
      const size_t from = random.Below(3) == 0 ? 0 : random.Below(order.size() + 1);
      uint64_t looks = 0;
      ASSERT_EQ(index.FirstFit(from, room.data(), looks), slow.FirstFit(from, room));
      EXPECT_LE(looks, 2 + order.size() / 32) << "at most each block, and each block of blocks";
    }
    index.Remove(removed);
    slow.Remove(removed);
  }
  const std::vector<uint32_t> all(problem.num_components(), UINT32_MAX);
  EXPECT_EQ(index.FirstFit(0, all.data()), order.size()) << "nothing is left";
}

TEST(FitIndexTest, EqualsASearchItemByItem) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Between(1, 7);
    constexpr uint32_t kLargest[] = {3, 50, 1000, UINT32_MAX - 1, UINT32_MAX};
    const uint32_t most = kLargest[random.Below(std::size(kLargest))];
    const PackingProblem problem = RandomProblem(random, random.Between(1, 300), l, most);
    ASSERT_EQ(problem.num_components(), l);
    for (const VectorLevel level : VectorLevelsHere()) {
      ComparedWithSlowIndex(random, problem, most, level, 3);
    }
    if (HasFailure()) return;
  }
}

// More than 64 blocks of 64: blocks of blocks.
TEST(FitIndexTest, EqualsASearchItemByItemInManyBlocks) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const PackingProblem problem = RandomProblem(random, 16000, seed + 1, UINT32_MAX);
    ASSERT_GT(problem.num_items(), 3 * kFitBlock * kFitBlock);
    ComparedWithSlowIndex(random, problem, UINT32_MAX, BestVectorLevel(), 1);
    if (HasFailure()) return;
  }
}

TEST(FitIndexTest, NothingIsFoundInAnEmptyOrder) {
  Random random(0);
  const PackingProblem problem = RandomProblem(random, 10, 2, 100);
  const FitIndex index(problem, {}, BestVectorLevel());
  const std::vector<uint32_t> room(2, UINT32_MAX);
  EXPECT_EQ(index.size(), 0);
  EXPECT_EQ(index.FirstFit(0, room.data()), 0);
}

// Where nothing binds, everything fits.
TEST(FitIndexTest, WithoutComponents) {
  SizeHistogram histogram(1);
  for (uint32_t size = 0; size < 100; ++size) ASSERT_THAT(histogram.Add({{size}}), IsOk());
  const PackingProblem problem(histogram, Limits::Create({1'000'000, kUnlimited}).value());
  ASSERT_EQ(problem.num_components(), 0);
  std::vector<uint32_t> order(100);
  std::iota(order.begin(), order.end(), 0);
  for (const VectorLevel level : VectorLevelsHere()) {
    FitIndex index(problem, order, level);
    EXPECT_EQ(index.FirstFit(70, nullptr), 70);
    index.Remove(70);
    EXPECT_EQ(index.FirstFit(70, nullptr), 71);
    for (size_t p = 63; p < 100; ++p) index.Remove(p);
    EXPECT_EQ(index.FirstFit(63, nullptr), 100);
    EXPECT_EQ(index.FirstFit(0, nullptr), 0);
  }
}

}  // namespace
}  // namespace packhouse
