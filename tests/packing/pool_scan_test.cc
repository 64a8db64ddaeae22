// Every level's scans against the obvious ones.
#include "service/algorithms/packing/pool_scan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

std::vector<VectorLevel> LevelsOfThisMachine() {
  std::vector<VectorLevel> levels;
  for (const VectorLevel level : {VectorLevel::kPlain, VectorLevel::kAvx2, VectorLevel::kAvx512}) {
    if (level <= BestVectorLevel()) levels.push_back(level);
  }
  return levels;
}

// Columns that end where a scan may no longer read, which AddressSanitizer watches.
struct Pool {
  size_t num_slots;
  size_t num_components;
  std::vector<int32_t> sizes;
  std::vector<int32_t> scores;

  size_t stride() const { return num_slots + PoolColumns::kOverrun; }
  int32_t size(size_t k, size_t slot) const { return sizes[k * stride() + slot]; }
  PoolColumns columns() const { return {sizes.data(), scores.data(), stride(), num_components}; }

  bool Fits(const std::vector<int32_t>& room, size_t slot) const {
    if (scores[slot] == 0) return false;
    for (size_t k = 0; k < num_components; ++k) {
      if (size(k, slot) > room[k]) return false;
    }
    return true;
  }

  size_t First(const std::vector<int32_t>& room, size_t begin, size_t end) const {
    for (size_t slot = begin; slot < end; ++slot) {
      if (Fits(room, slot)) return slot;
    }
    return PoolScan::kNone;
  }

  size_t Best(const std::vector<int32_t>& room, size_t begin, size_t end, int32_t floor) const {
    size_t best = PoolScan::kNone;
    for (size_t slot = begin; slot < end; ++slot) {
      if (!Fits(room, slot) || scores[slot] <= floor) continue;
      if (best == PoolScan::kNone || scores[slot] > scores[best]) best = slot;
    }
    return best;
  }

  PoolPair Pair(const std::vector<int32_t>& room, size_t begin, size_t limit, size_t end,
                int32_t floor) const {
    for (size_t first = begin; first < limit; ++first) {
      if (!Fits(room, first)) continue;
      PoolPair best = {PoolScan::kNone, PoolScan::kNone};
      for (size_t second = first + 1; second < end; ++second) {
        std::vector<int32_t> rest = room;
        for (size_t k = 0; k < num_components; ++k) rest[k] -= size(k, first);
        if (!Fits(rest, second) || scores[first] + scores[second] <= floor) continue;
        if (best.second == PoolScan::kNone || scores[second] > scores[best.second]) {
          best = {first, second};
        }
      }
      if (best.first != PoolScan::kNone) return best;
    }
    return {PoolScan::kNone, PoolScan::kNone};
  }
};

// The numbers are few, so that there are ties and exact fits, and go up to the largest that may be.
// Sizes that would fit are also after the end and in holes, where they must not be found.
Pool RandomPool(Random& random) {
  Pool pool;
  pool.num_slots = random.Below(150);
  pool.num_components = random.Below(11);
  const int32_t unit = random.Below(2) == 0 ? 1 : kMax / 40;
  pool.sizes.assign(pool.num_components * pool.stride(), 0);
  pool.scores.assign(pool.stride(), 0);
  const uint64_t holes = random.Between(2, 20);
  for (size_t slot = 0; slot < pool.num_slots; ++slot) {
    for (size_t k = 0; k < pool.num_components; ++k) {
      pool.sizes[k * pool.stride() + slot] = unit * static_cast<int32_t>(random.Below(20));
    }
    pool.scores[slot] =
        random.Below(holes) == 0 ? 0 : (1 << 30) - 1 - static_cast<int32_t>(random.Below(12));
    if (unit == 1) pool.scores[slot] %= 16;
  }
  return pool;
}

TEST(PoolScanTest, AllLevelsGiveWhatIsObvious) {
  const std::vector<VectorLevel> levels = LevelsOfThisMachine();
  int found = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const Pool pool = RandomPool(random);
    std::vector<int32_t> room(pool.num_components);
    const int32_t unit = random.Below(2) == 0 ? 1 : kMax / 40;
    for (int32_t& rows : room) {
      rows = random.Below(10) == 0 ? kMax : unit * static_cast<int32_t>(random.Between(8, 40));
    }
    const size_t end = pool.num_slots;
    const size_t begin = random.Between(0, end);
    const size_t limit = random.Between(begin, end);
    const int32_t floor = static_cast<int32_t>(
        random.Below(3) == 0 ? random.Below(kMax) : random.Below(2) * random.Below(30));

    const size_t first = pool.First(room, begin, end);
    const size_t best = pool.Best(room, begin, end, floor);
    const PoolPair pair = pool.Pair(room, begin, limit, end, floor);
    found += pair.first != PoolScan::kNone;
    std::vector<int32_t> rest(pool.num_components);
    for (const VectorLevel level : levels) {
      SCOPED_TRACE(testing::Message() << VectorLevelName(level));
      const PoolScan& scan = PoolScanOf(level, pool.num_components);
      EXPECT_EQ(scan.first(pool.columns(), room.data(), begin, end), first);
      EXPECT_EQ(scan.best(pool.columns(), room.data(), begin, end, floor), best);
      const PoolPair actual =
          scan.pair(pool.columns(), room.data(), begin, limit, end, floor, rest.data());
      EXPECT_EQ(std::tie(actual.first, actual.second), std::tie(pair.first, pair.second));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 4000);  // The seeds are worth something.
}

}  // namespace
}  // namespace packhouse
