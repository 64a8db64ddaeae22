#include "service/algorithms/packing/online_packer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/limits.h"
#include "tests/packing/dense_sizes.h"
#include "tests/packing/next_fit.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Limits LimitsOf(std::vector<uint64_t> capacities) {
  return Limits::Create(std::move(capacities)).value();
}

OnlinePacker PackerOf(const Limits& limits, const OnlinePackerOptions& options) {
  return OnlinePacker::Create(limits, options).value();
}

OnlinePackerOptions LookAhead(size_t look_ahead, uint64_t max_age = 0) {
  OnlinePackerOptions options;
  options.look_ahead = look_ahead;
  options.max_age = max_age;
  return options;
}

constexpr VectorLevel kVectorLevels[] = {VectorLevel::kPlain, VectorLevel::kAvx2,
                                         VectorLevel::kAvx512};

absl::Time Second(int64_t second) { return absl::UnixEpoch() + absl::Seconds(second); }

// Limits, and graphs that each fit them.
struct World {
  Limits limits = LimitsOf({1});
  size_t num_graphs = 0;
  std::vector<uint32_t> sizes;  // Row-major.

  absl::Span<const uint32_t> tuple(size_t i) const {
    const size_t l = limits.num_components();
    return absl::MakeConstSpan(sizes).subspan(i * l, l);
  }
};

// 0 to 4 components, now and then up to 12; some have no limit, some graphs have zeros, fill a pack
// alone, or take most of one component.
World RandomWorld(Random& random) {
  const size_t l = random.Below(8) == 0 ? random.Between(5, 12) : random.Below(5);
  std::vector<uint64_t> capacities;
  for (size_t k = 0; k < l; ++k) {
    capacities.push_back(random.Below(4) == 0 ? kUnlimited : random.Between(1, 200));
  }
  const bool all_unlimited =
      std::all_of(capacities.begin(), capacities.end(), [](uint64_t c) { return c == kUnlimited; });
  capacities.push_back(!all_unlimited && random.Below(2) == 0 ? kUnlimited : random.Between(1, 40));

  World world;
  world.limits = LimitsOf(capacities);
  world.num_graphs = random.Below(600);
  const uint64_t typical_share = random.Between(1, 12);
  for (size_t i = 0; i < world.num_graphs; ++i) {
    const uint64_t kind = random.Below(20);
    for (size_t k = 0; k < l; ++k) {
      const uint64_t bound = std::min<uint64_t>(capacities[k], 1000);
      uint64_t size = random.Between(0, std::max<uint64_t>(bound / typical_share, 1));
      if (kind == 0) size = 0;
      if (kind == 1) size = bound;
      // Lopsided.
      if (kind == 2 && k == i % l) size = bound - bound / 4;
      world.sizes.push_back(static_cast<uint32_t>(std::min(size, bound)));
    }
  }
  return world;
}

// Sizes that have nothing to do with each other, so that packs are made by exchanges.
World UncorrelatedWorld(Random& random, size_t num_graphs) {
  World world;
  world.limits = LimitsOf({400, 3000, kUnlimited});
  world.num_graphs = num_graphs;
  for (size_t i = 0; i < num_graphs; ++i) {
    world.sizes.push_back(static_cast<uint32_t>(random.Between(1, 130)));
    world.sizes.push_back(static_cast<uint32_t>(random.Between(1, 1000)));
  }
  return world;
}

// What a packer made of a stream.
struct Replay {
  std::vector<Pack> packs;
  // After push i: how many packs were complete, how many graphs were pending.
  std::vector<size_t> num_complete;
  std::vector<size_t> num_pending;
};

// Pushes all graphs, each with its position as its handle, then packs what is pending.
Replay RunPacker(const World& world, const OnlinePackerOptions& options) {
  OnlinePacker packer = PackerOf(world.limits, options);
  Replay replay;
  for (size_t i = 0; i < world.num_graphs; ++i) {
    const absl::StatusOr<bool> complete = packer.Push(world.tuple(i), i, absl::UnixEpoch());
    EXPECT_THAT(complete, IsOk());
    if (complete.ok() && *complete) replay.packs.push_back(packer.TakePack());
    replay.num_complete.push_back(replay.packs.size());
    replay.num_pending.push_back(packer.num_pending());
  }
  while (packer.PackPending()) replay.packs.push_back(packer.TakePack());
  EXPECT_EQ(packer.num_pending(), 0);
  return replay;
}

// A component without a limit has the largest capacity all the same.
bool IsWithin(const World& world, const Pack& pack) {
  bool within = pack.size() <= world.limits.graphs();
  for (size_t k = 0; k < world.limits.num_components(); ++k) {
    uint64_t rows = 0;
    for (const uint64_t handle : pack) rows += world.tuple(handle)[k];
    within &= rows <= std::min(world.limits.capacity(k), kMaxCapacity);
  }
  return within;
}

void ExpectPartition(const World& world, const std::vector<Pack>& packs) {
  std::vector<int> seen(world.num_graphs, 0);
  for (const Pack& pack : packs) {
    EXPECT_FALSE(pack.empty());
    EXPECT_TRUE(IsWithin(world, pack));
    for (const uint64_t handle : pack) {
      ASSERT_LT(handle, world.num_graphs);
      ++seen[handle];
    }
  }
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], 1) << "graph " << i;
}

// "The pack that is open after push i" has the number num_complete[i].
void ExpectAgeBounded(const World& world, const Replay& replay, uint64_t max_age) {
  std::vector<size_t> pack_of(world.num_graphs);
  for (size_t p = 0; p < replay.packs.size(); ++p) {
    for (const uint64_t handle : replay.packs[p]) pack_of[handle] = p;
  }
  for (size_t i = 0; i + max_age < world.num_graphs; ++i) {
    EXPECT_LE(pack_of[i], replay.num_complete[i + max_age] + 1) << "graph " << i;
  }
}

TEST(OnlinePackerOptionsTest, DefaultsAreResolved) {
  const Limits limits = LimitsOf({100, kUnlimited});
  EXPECT_EQ(PackerOf(limits, {}).options().look_ahead, 64);
  EXPECT_EQ(PackerOf(limits, {}).options().max_age, 256);
  EXPECT_EQ(PackerOf(limits, LookAhead(10)).options().max_age, 40);
  EXPECT_EQ(PackerOf(limits, LookAhead(10, 17)).options().max_age, 17);
}

TEST(OnlinePackerOptionsTest, LookAheadHasBounds) {
  const Limits limits = LimitsOf({100, kUnlimited});
  EXPECT_THAT(OnlinePacker::Create(limits, LookAhead(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, "look_ahead: 0, must be 1 to 16384"));
  EXPECT_THAT(
      OnlinePacker::Create(limits, LookAhead(16385)),
      StatusIs(absl::StatusCode::kInvalidArgument, "look_ahead: 16385, must be 1 to 16384"));
  EXPECT_THAT(OnlinePacker::Create(limits, LookAhead(1)), IsOk());
  EXPECT_THAT(OnlinePacker::Create(limits, LookAhead(16384)), IsOk());
}

TEST(OnlinePackerOptionsTest, MaxAgeIsAtLeastLookAhead) {
  const Limits limits = LimitsOf({100, kUnlimited});
  EXPECT_THAT(
      OnlinePacker::Create(limits, LookAhead(16, 15)),
      StatusIs(absl::StatusCode::kInvalidArgument, "max_age: 15, must be at least look_ahead, 16"));
  EXPECT_THAT(OnlinePacker::Create(limits, LookAhead(16, 16)), IsOk());
}

TEST(OnlinePackerOptionsTest, MaxDelayIsPositive) {
  const Limits limits = LimitsOf({100, kUnlimited});
  OnlinePackerOptions options;
  options.max_delay = absl::ZeroDuration();
  EXPECT_THAT(OnlinePacker::Create(limits, options),
              StatusIs(absl::StatusCode::kInvalidArgument, "max_delay: 0, must be positive"));
  options.max_delay = absl::Milliseconds(-5);
  EXPECT_THAT(OnlinePacker::Create(limits, options),
              StatusIs(absl::StatusCode::kInvalidArgument, "max_delay: -5ms, must be positive"));
  options.max_delay = absl::Nanoseconds(1);
  EXPECT_THAT(OnlinePacker::Create(limits, options), IsOk());
}

TEST(OnlinePackerOptionsTest, VectorLevelIsOneOfThisMachine) {
  const Limits limits = LimitsOf({100, kUnlimited});
  for (const VectorLevel level : kVectorLevels) {
    OnlinePackerOptions options;
    options.vector_level = level;
    if (level <= BestVectorLevel()) {
      EXPECT_THAT(OnlinePacker::Create(limits, options), IsOk());
    } else {
      EXPECT_THAT(OnlinePacker::Create(limits, options),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vector_level: ")));
    }
  }
}

TEST(OnlinePackerOptionsTest, CapacitiesHaveABound) {
  constexpr uint64_t kMax = kMaxCapacity;
  EXPECT_THAT(OnlinePacker::Create(LimitsOf({5, kMax + 1, 5}), {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "limits: capacity 2147483648 of component number 1 exceeds 2^31 - 1"));
  EXPECT_THAT(OnlinePacker::Create(LimitsOf({5, kMax + 1}), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("component number 1 ")));
  EXPECT_THAT(OnlinePacker::Create(LimitsOf({kMax, kMax}), {}), IsOk());
}

TEST(OnlinePackerPushTest, WrongNumberOfComponentsIsInvalid) {
  OnlinePacker packer = PackerOf(LimitsOf({10, 10, kUnlimited}), {});
  EXPECT_THAT(packer.Push({{1, 2, 3}}, 0, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kInvalidArgument, "graph of 3 components, expected 2"));
  EXPECT_THAT(packer.Push({}, 0, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kInvalidArgument, "graph of 0 components, expected 2"));
  EXPECT_EQ(packer.num_pending(), 0);
}

TEST(OnlinePackerPushTest, AGraphBeyondTheLimitsIsOutOfRange) {
  OnlinePacker packer = PackerOf(LimitsOf({10, 20, kUnlimited}), {});
  EXPECT_THAT(packer.Push({{10, 21}}, 0, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "graph of size (10, 21) exceeds capacity 20 of component number 1"));
  EXPECT_THAT(packer.Push({{UINT32_MAX, 0}}, 0, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("component number 0")));
  EXPECT_EQ(packer.num_pending(), 0);
  EXPECT_THAT(packer.Push({{10, 20}}, 0, absl::UnixEpoch()), IsOk());
  EXPECT_EQ(packer.num_pending(), 1);
}

TEST(OnlinePackerPushTest, AComponentWithoutALimitStillHasTheLargestCapacity) {
  OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited, kUnlimited}), LookAhead(2));
  constexpr uint32_t kMax = kMaxCapacity;
  EXPECT_THAT(packer.Push({{1, kMax + 1}}, 0, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("capacity 2147483647")));
  // Two that are as large as can be do not share a pack, nor do sums wrap around.
  for (uint64_t handle = 0; handle < 3; ++handle) {
    ASSERT_THAT(packer.Push({{1, kMax}}, handle, absl::UnixEpoch()), IsOk());
  }
  ASSERT_TRUE(packer.PackPending());
  EXPECT_THAT(packer.TakePack(), SizeIs(1));
}

// Refused graphs leave no trace in what is packed.
TEST(OnlinePackerPushTest, RefusedGraphsChangeNothing) {
  Random random(1);
  World world;
  world.limits = LimitsOf({50, 20});
  world.num_graphs = 500;
  for (size_t i = 0; i < world.num_graphs; ++i) world.sizes.push_back(random.Between(0, 50));
  const std::vector<Pack> undisturbed = RunPacker(world, LookAhead(16)).packs;

  OnlinePacker packer = PackerOf(world.limits, LookAhead(16));
  std::vector<Pack> packs;
  for (size_t i = 0; i < world.num_graphs; ++i) {
    EXPECT_THAT(packer.Push({51}, 7, absl::UnixEpoch()),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("(51)")));
    PH_ASSERT_OK_AND_ASSIGN(const bool complete, packer.Push(world.tuple(i), i, absl::UnixEpoch()));
    if (complete) packs.push_back(packer.TakePack());
  }
  while (packer.PackPending()) packs.push_back(packer.TakePack());
  EXPECT_EQ(packs, undisturbed);
}

// Conservation: packing may reorder graphs, never lose, repeat or overfill.
TEST(OnlinePackerTest, PacksPartitionTheStream) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    const size_t look_ahead = random.Between(1, 100);
    const uint64_t max_age = random.Below(2) == 0 ? 0 : look_ahead + random.Below(50);
    const Replay replay = RunPacker(world, LookAhead(look_ahead, max_age));
    ExpectPartition(world, replay.packs);
    if (HasFailure()) return;
  }
}

// The same when flushes come in between.
TEST(OnlinePackerTest, PacksPartitionTheStreamWithFlushes) {
  Fingerprint everywhere;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    OnlinePacker packer = PackerOf(world.limits, LookAhead(random.Between(1, 100)));
    std::vector<Pack> packs;
    for (size_t i = 0; i < world.num_graphs; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const bool complete,
                              packer.Push(world.tuple(i), i, absl::UnixEpoch()));
      if (complete) packs.push_back(packer.TakePack());
      if (random.Below(40) == 0) {
        // Some flush all, some only one pack.
        const bool all = random.Below(2) == 0;
        while (packer.PackPending()) {
          packs.push_back(packer.TakePack());
          if (!all) break;
        }
        if (all) {
          EXPECT_EQ(packer.num_pending(), 0);
        }
      }
    }
    while (packer.PackPending()) packs.push_back(packer.TakePack());
    ExpectPartition(world, packs);
    for (const Pack& pack : packs) everywhere.AddAll(pack);
    if (HasFailure()) return;
  }
  EXPECT_EQ(everywhere.value(), 5762841308539133405U);
}

TEST(OnlinePackerTest, PendingGraphsAreThePoolAndTheOpenPack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    const size_t look_ahead = random.Between(1, 100);
    const Replay replay = RunPacker(world, LookAhead(look_ahead));
    for (size_t i = 0; i < world.num_graphs; ++i) {
      const size_t open = replay.num_complete[i];
      EXPECT_LE(replay.num_pending[i],
                look_ahead + (open < replay.packs.size() ? replay.packs[open].size() : 0));
    }
    if (HasFailure()) return;
  }
}

// Nothing leaves before the packer could choose among look_ahead graphs, unless it must for age.
TEST(OnlinePackerTest, WaitsForItsLookAhead) {
  for (const size_t look_ahead : {1, 2, 7, 64}) {
    OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), LookAhead(look_ahead));
    for (size_t i = 0; i < look_ahead; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const bool complete, packer.Push({10}, i, absl::UnixEpoch()));
      EXPECT_FALSE(complete) << "look_ahead " << look_ahead << " push " << i;
    }
  }
}

TEST(OnlinePackerTest, NoGraphAgesBeyondItsBound) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    const size_t look_ahead = random.Between(1, 60);
    const uint64_t max_age = look_ahead + random.Below(2 * look_ahead);
    ExpectAgeBounded(world, RunPacker(world, LookAhead(look_ahead, max_age)), max_age);
    if (HasFailure()) return;
  }
}

// The hard case: graphs of which no two share a pack come in a burst, and what comes later would
// fill the packs so slowly that the last of the burst would wait for very long.
TEST(OnlinePackerTest, NoGraphAgesBeyondItsBoundInABurst) {
  for (const size_t burst : {2, 10, 30, 63, 200}) {
    for (const uint64_t max_age : {64, 100, 256}) {
      SCOPED_TRACE(testing::Message() << "burst=" << burst << " max_age=" << max_age);
      World world;
      world.limits = LimitsOf({100, kUnlimited});
      for (int round = 0; round < 3; ++round) {
        world.sizes.insert(world.sizes.end(), burst, 60);
        world.sizes.insert(world.sizes.end(), 2000, 1);
      }
      world.num_graphs = world.sizes.size();
      const Replay replay = RunPacker(world, LookAhead(64, max_age));
      ExpectPartition(world, replay.packs);
      ExpectAgeBounded(world, replay, max_age);
      if (HasFailure()) return;
    }
  }
}

TEST(OnlinePackerTest, NoGraphAgesBeyondItsBoundWhereGraphsAreExchanged) {
  for (const size_t look_ahead : {2, 8, 64}) {
    for (const uint64_t max_age : {look_ahead, look_ahead + look_ahead / 2, 2 * look_ahead}) {
      SCOPED_TRACE(testing::Message() << "look_ahead=" << look_ahead << " max_age=" << max_age);
      Random random(look_ahead + max_age);
      const World world = UncorrelatedWorld(random, 5000);
      const Replay replay = RunPacker(world, LookAhead(look_ahead, max_age));
      ExpectPartition(world, replay.packs);
      ExpectAgeBounded(world, replay, max_age);
      if (HasFailure()) return;
    }
  }
}

// A pack that takes many times the pool, so that the pool's slots are used again while it is open.
TEST(OnlinePackerTest, APackMayBeMuchLargerThanThePool) {
  for (const size_t look_ahead : {1, 2, 4, 100}) {
    SCOPED_TRACE(testing::Message() << "look_ahead=" << look_ahead);
    Random random(look_ahead);
    World world;
    world.limits = LimitsOf({5000, 7500, kUnlimited});
    world.num_graphs = 200000;
    for (size_t i = 0; i < world.num_graphs; ++i) {
      world.sizes.push_back(static_cast<uint32_t>(random.Between(1, 9)));
      world.sizes.push_back(static_cast<uint32_t>(random.Between(1, 14)));
    }
    const Replay replay = RunPacker(world, LookAhead(look_ahead));
    ExpectPartition(world, replay.packs);
    ExpectAgeBounded(world, replay, 4 * look_ahead);
    // About 1,000 graphs a pack.
    EXPECT_LE(replay.packs.size(), 203U);
  }
}

// What is left waiting when a pack is complete does not fit into it.
TEST(OnlinePackerTest, CompletePacksHaveNoRoomForWhatWaits) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    OnlinePacker packer = PackerOf(world.limits, LookAhead(random.Between(1, 60)));
    std::set<uint64_t> pending;
    const auto take = [&] {
      const Pack pack = packer.TakePack();
      for (const uint64_t handle : pack) pending.erase(handle);
      for (const uint64_t handle : pending) {
        Pack more = pack;
        more.push_back(handle);
        EXPECT_FALSE(IsWithin(world, more)) << "graph " << handle;
      }
    };
    for (size_t i = 0; i < world.num_graphs; ++i) {
      pending.insert(i);
      PH_ASSERT_OK_AND_ASSIGN(const bool complete,
                              packer.Push(world.tuple(i), i, absl::UnixEpoch()));
      if (complete) take();
    }
    while (packer.PackPending()) take();
    if (HasFailure()) return;
  }
}

TEST(OnlinePackerTest, AnAgedGraphIsTakenBeforeOneThatFillsBetter) {
  for (const bool aged : {false, true}) {
    OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), LookAhead(4, aged ? 4 : 5));
    Pack first;
    for (const uint32_t size : {7, 1, 3, 3, 3, 3}) {
      PH_ASSERT_OK_AND_ASSIGN(const bool complete,
                              packer.Push({size}, packer.num_pending(), absl::UnixEpoch()));
      if (complete && first.empty()) first = packer.TakePack();
    }
    // 7 and 3 rows fill a pack, 7 and 1 do not.
    EXPECT_THAT(first, ElementsAre(0, aged ? 1 : 2));
  }
}

TEST(OnlinePackerTest, SamePacksWithAllVectorLevels) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = seed % 2 == 0 ? RandomWorld(random) : UncorrelatedWorld(random, 1000);
    OnlinePackerOptions options = LookAhead(random.Between(1, 200));
    options.vector_level = VectorLevel::kPlain;
    const std::vector<Pack> expected = RunPacker(world, options).packs;
    for (const VectorLevel level : kVectorLevels) {
      if (level > BestVectorLevel()) continue;
      options.vector_level = level;
      EXPECT_EQ(RunPacker(world, options).packs, expected) << VectorLevelName(level);
    }
    if (HasFailure()) return;
  }
}

// And on every machine, and in every build: a packer that packs otherwise has another number.
// Streams of all kinds, of which some need a large look-ahead, exchanges, or companions of lopsided
// graphs.
TEST(OnlinePackerTest, ThePacksOfAStreamAreTheseEverywhere) {
  Fingerprint packs;
  const auto add = [&packs](const World& world, size_t look_ahead) {
    for (const Pack& pack : RunPacker(world, LookAhead(look_ahead)).packs) packs.AddAll(pack);
  };
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const size_t look_ahead = random.Between(1, 200);
    add(seed % 3 == 0 ? UncorrelatedWorld(random, 2000) : RandomWorld(random), look_ahead);
  }
  for (const size_t look_ahead : {64, 2048}) {
    add({LimitsOf({1225, 80000, kUnlimited}), 4000, EgoSizes(4000, 1)}, look_ahead);
    add({LimitsOf({1216, 80239, kUnlimited}), 4000, CollaborationSizes(4000, 1)}, look_ahead);
  }
  EXPECT_EQ(packs.value(), 18069617797560323201U);
}

TEST(OnlinePackerTest, SameCallsSamePacksWhateverTheTime) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    const OnlinePackerOptions options = LookAhead(random.Between(1, 100));
    const std::vector<Pack> expected = RunPacker(world, options).packs;

    OnlinePacker packer = PackerOf(world.limits, options);
    std::vector<Pack> packs;
    absl::Time now = absl::UnixEpoch();
    for (size_t i = 0; i < world.num_graphs; ++i) {
      now += absl::Microseconds(random.Below(1'000'000'000));
      PH_ASSERT_OK_AND_ASSIGN(const bool complete, packer.Push(world.tuple(i), i, now));
      if (complete) packs.push_back(packer.TakePack());
      EXPECT_FALSE(packer.PackOverdue(now));
      EXPECT_EQ(packer.NextDeadline(), absl::InfiniteFuture());
    }
    while (packer.PackPending()) packs.push_back(packer.TakePack());
    EXPECT_EQ(packs, expected);
  }
}

// Handles are the caller's: they need not be distinct, nor do they matter.
TEST(OnlinePackerTest, HandlesComeBackAsTheyWere) {
  OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), {});
  for (const uint64_t handle : {UINT64_MAX, uint64_t{7}, uint64_t{7}}) {
    ASSERT_THAT(packer.Push({1}, handle, absl::UnixEpoch()), IsOk());
  }
  ASSERT_TRUE(packer.PackPending());
  EXPECT_THAT(packer.TakePack(), testing::UnorderedElementsAre(UINT64_MAX, 7, 7));
  EXPECT_FALSE(packer.PackPending());
}

TEST(OnlinePackerTest, WithoutAChoiceItIsNextFit) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    if (world.limits.num_components() == 0) continue;
    EXPECT_EQ(RunPacker(world, LookAhead(1)).packs, NextFit(world.sizes, world.limits));
    if (HasFailure()) return;
  }
}

TEST(OnlinePackerTest, GraphsAloneArePackedByTheirNumber) {
  World world;
  world.limits = LimitsOf({3});
  world.num_graphs = 10;
  std::vector<Pack> packs = RunPacker(world, LookAhead(4)).packs;
  EXPECT_THAT(packs, ElementsAre(SizeIs(3), SizeIs(3), SizeIs(3), SizeIs(1)));
}

// Graphs of size zero take no room, but they count.
TEST(OnlinePackerTest, EmptyGraphsFillUpToTheNumberOfGraphs) {
  World world;
  world.limits = LimitsOf({5, 5, 8});
  world.num_graphs = 32;
  world.sizes.assign(64, 0);
  for (const Pack& pack : RunPacker(world, LookAhead(16)).packs) EXPECT_THAT(pack, SizeIs(8));
}

// Scores of two graphs that each fill a whole pack must not overflow when they are summed (which
// UndefinedBehaviorSanitizer tells). Such a sum needs an open pack with room for either, that is,
// with nothing but an empty graph; other packs would have taken that along, so it comes after a
// flush.
TEST(OnlinePackerTest, GraphsThatFillAPackAloneBesideAnEmptyOne) {
  for (const uint64_t capacity : {uint64_t{1}, uint64_t{100}, kMaxCapacity}) {
    World world;
    world.limits = LimitsOf({capacity, kUnlimited});
    world.sizes.assign(200, static_cast<uint32_t>(capacity));
    world.sizes[128] = 0;
    world.num_graphs = world.sizes.size();
    OnlinePacker packer = PackerOf(world.limits, LookAhead(16));
    std::vector<Pack> packs;
    for (size_t i = 0; i < world.num_graphs; ++i) {
      if (i == 128) {
        while (packer.PackPending()) packs.push_back(packer.TakePack());
      }
      PH_ASSERT_OK_AND_ASSIGN(const bool complete,
                              packer.Push(world.tuple(i), i, absl::UnixEpoch()));
      if (complete) packs.push_back(packer.TakePack());
    }
    while (packer.PackPending()) packs.push_back(packer.TakePack());
    ExpectPartition(world, packs);
    EXPECT_THAT(packs, SizeIs(199));
  }
}

TEST(OnlinePackerPendingTest, NothingPendingMakesNoPack) {
  OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), {});
  EXPECT_FALSE(packer.PackPending());
  EXPECT_FALSE(packer.PackOverdue(absl::InfiniteFuture()));
  EXPECT_EQ(packer.NextDeadline(), absl::InfiniteFuture());
}

// After a flush the packer is as good as new, and keeps what it has learnt of the stream.
TEST(OnlinePackerPendingTest, EachCallCompletesOnePack) {
  OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), {});
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_THAT(packer.Push({5}, i, absl::UnixEpoch()), IsOk());
  }
  for (size_t left = 6; left != 0; left -= 2) {
    EXPECT_EQ(packer.num_pending(), left);
    ASSERT_TRUE(packer.PackPending());
    EXPECT_THAT(packer.TakePack(), SizeIs(2));
  }
  EXPECT_FALSE(packer.PackPending());
}

OnlinePackerOptions MaxDelay(size_t look_ahead, absl::Duration max_delay) {
  OnlinePackerOptions options = LookAhead(look_ahead);
  options.max_delay = max_delay;
  return options;
}

TEST(OnlinePackerOverdueTest, OneGraphLeavesAtItsDeadline) {
  OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), MaxDelay(64, absl::Seconds(3)));
  ASSERT_THAT(packer.Push({1}, 42, Second(100)), IsOk());
  EXPECT_EQ(packer.NextDeadline(), Second(103));
  EXPECT_FALSE(packer.PackOverdue(Second(103) - absl::Nanoseconds(1)));
  EXPECT_EQ(packer.num_pending(), 1);
  ASSERT_TRUE(packer.PackOverdue(Second(103)));
  EXPECT_THAT(packer.TakePack(), ElementsAre(42));
  EXPECT_EQ(packer.NextDeadline(), absl::InfiniteFuture());
}

// What is not overdue may leave beside what is, if it fits; the rest waits on.
TEST(OnlinePackerOverdueTest, YoungerGraphsMayGoAlongButNeedNot) {
  OnlinePacker packer = PackerOf(LimitsOf({10, kUnlimited}), MaxDelay(64, absl::Seconds(3)));
  ASSERT_THAT(packer.Push({6}, 0, Second(0)), IsOk());
  ASSERT_THAT(packer.Push({8}, 1, Second(2)), IsOk());
  ASSERT_THAT(packer.Push({4}, 2, Second(2)), IsOk());
  ASSERT_TRUE(packer.PackOverdue(Second(3)));
  EXPECT_THAT(packer.TakePack(), testing::UnorderedElementsAre(0, 2));
  EXPECT_FALSE(packer.PackOverdue(Second(4)));
  EXPECT_EQ(packer.NextDeadline(), Second(5));
  EXPECT_EQ(packer.num_pending(), 1);
}

// The law on random streams: once PackOverdue() has nothing more to do, no graph has waited for
// max_delay; until the deadline that the packer names it does nothing; that deadline is the oldest
// pending graph's.
TEST(OnlinePackerOverdueTest, NoGraphWaitsForLonger) {
  Fingerprint everywhere;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const World world = RandomWorld(random);
    const absl::Duration max_delay = absl::Seconds(random.Between(1, 50));
    OnlinePacker packer = PackerOf(world.limits, MaxDelay(random.Between(1, 100), max_delay));
    std::vector<Pack> packs;
    std::map<uint64_t, absl::Time> pending;
    const auto take = [&] {
      packs.push_back(packer.TakePack());
      for (const uint64_t handle : packs.back()) EXPECT_EQ(pending.erase(handle), 1);
    };
    absl::Time now = Second(0);
    for (size_t i = 0; i < world.num_graphs; ++i) {
      now += absl::Milliseconds(random.Below(3000));
      while (packer.PackOverdue(now)) take();
      for (const auto& [handle, since] : pending) EXPECT_GT(since + max_delay, now);

      pending.emplace(i, now);
      PH_ASSERT_OK_AND_ASSIGN(const bool complete, packer.Push(world.tuple(i), i, now));
      if (complete) take();
      EXPECT_EQ(packer.num_pending(), pending.size());
      absl::Time oldest = absl::InfiniteFuture();
      for (const auto& [handle, since] : pending) oldest = std::min(oldest, since);
      EXPECT_EQ(packer.NextDeadline(), oldest + max_delay);
    }
    while (packer.PackOverdue(absl::InfiniteFuture())) take();
    EXPECT_EQ(packer.num_pending(), 0);
    ExpectPartition(world, packs);
    for (const Pack& pack : packs) everywhere.AddAll(pack);
    if (HasFailure()) return;
  }
  EXPECT_EQ(everywhere.value(), 5005840742200805394U);
}

}  // namespace
}  // namespace packhouse
