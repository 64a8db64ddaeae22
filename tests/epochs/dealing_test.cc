#include "service/engine/epochs/dealing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint64_t> Queue(const Dealing& dealing, uint32_t queue) {
  std::vector<uint64_t> batches;
  for (uint64_t i = 0; i < dealing.queue_length(queue); ++i) {
    batches.push_back(dealing.BatchAt({queue, i}));
  }
  return batches;
}

TEST(DealingTest, RankROfNGetsStepsRAndRPlusN) {
  PH_ASSERT_OK_AND_ASSIGN(const Dealing padded, Dealing::Create({0, 8}, {}, Sharing::Ranked(3)));
  EXPECT_THAT(Queue(padded, 0), ElementsAre(0, 3, 6));
  EXPECT_THAT(Queue(padded, 1), ElementsAre(1, 4, 7));
  EXPECT_THAT(Queue(padded, 2), ElementsAre(2, 5, 8));
  EXPECT_TRUE(padded.IsPadding(8));
  EXPECT_THAT(padded.dropped(), IsEmpty());
  EXPECT_EQ(padded.num_places(), 9U);
  PH_ASSERT_OK_AND_ASSIGN(const Dealing dropped,
                          Dealing::Create({0, 8}, {}, Sharing::Ranked(3, LastSteps::kDropped)));
  EXPECT_THAT(Queue(dropped, 1), ElementsAre(1, 4));
  EXPECT_THAT(dropped.dropped(), ElementsAre(6, 7));
  EXPECT_EQ(dropped.PlaceOf(6), std::nullopt);
}

TEST(DealingTest, DynamicIsOneLaneInOrder) {
  PH_ASSERT_OK_AND_ASSIGN(const Dealing dealing,
                          Dealing::Create({0, 5}, BatchSet::Of({1, 2}), Sharing::Dynamic()));
  ASSERT_EQ(dealing.num_queues(), 1U);
  EXPECT_THAT(Queue(dealing, 0), ElementsAre(0, 3, 4));
  EXPECT_EQ(dealing.PlaceOf(5), std::nullopt);
  EXPECT_EQ(dealing.PlaceOf(1), std::nullopt);
}

// Each round gives each rank a batch of its rank group; the share of a step's graphs is told.
TEST(DealingTest, RankGroupsGetTheirOwnBatchesInTheSameNumberOfSteps) {
  Sharing sharing;
  sharing.rank_group_of_rank = {1, 0, 1};
  PH_ASSERT_OK_AND_ASSIGN(const Dealing dealing, Dealing::Create({0, 2, 5}, {}, sharing));
  EXPECT_THAT(Queue(dealing, 0), ElementsAre(2, 4));
  EXPECT_THAT(Queue(dealing, 1), ElementsAre(0, 1));
  EXPECT_THAT(Queue(dealing, 2), ElementsAre(3, 5));
  EXPECT_THAT(SharesOfStep(dealing, 1, [](uint64_t batch) { return 10 * batch; }),
              ElementsAre(StepShare{40, 50}, StepShare{10, 50}, StepShare{0, 50}));
}

// The laws of both ways of sharing, over random worlds.
TEST(DealingTest, EveryBatchThatIsLeftHasOnePlaceOrIsDropped) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::vector<uint64_t> first = {0};
    for (size_t j = random.Between(1, 3); j != 0; --j) {
      first.push_back(first.back() + random.Below(20));
    }
    BatchSet done;
    for (uint64_t batch = 0; batch < first.back(); ++batch) {
      if (random.Below(3) == 0) done.Insert(batch);
    }
    Sharing sharing;
    if (random.Below(4) != 0) {
      for (uint32_t j = 0; j + 1 < first.size(); ++j) sharing.rank_group_of_rank.push_back(j);
      for (size_t more = random.Below(5); more != 0; --more) {
        sharing.rank_group_of_rank.push_back(static_cast<uint32_t>(random.Below(first.size() - 1)));
      }
      sharing.last_steps = static_cast<LastSteps>(random.Below(2));
    }
    PH_ASSERT_OK_AND_ASSIGN(const Dealing dealing, Dealing::Create(first, done, sharing));
    std::set<uint64_t> dealt;
    uint64_t padding = 0;
    for (uint32_t queue = 0; queue < dealing.num_queues(); ++queue) {
      EXPECT_THAT(Dealing::QueueLength(first, done, sharing, queue),
                  IsOkAndHolds(dealing.queue_length(queue)));
      if (sharing.ranked()) {
        EXPECT_EQ(dealing.queue_length(queue), dealing.queue_length(0));
      }
      const uint32_t rank_group = sharing.ranked() ? sharing.rank_group_of_rank[queue] : queue;
      for (uint64_t i = 0; i < dealing.queue_length(queue); ++i) {
        const uint64_t batch = dealing.BatchAt({queue, i});
        EXPECT_TRUE(dealt.insert(batch).second);
        EXPECT_EQ(dealing.PlaceOf(batch), (Place{queue, i}));
        if (dealing.IsPadding(batch)) {
          EXPECT_LT(batch, dealing.num_batches() + dealing.num_places());
          ++padding;
          continue;
        }
        EXPECT_FALSE(done.Contains(batch));
        EXPECT_TRUE(first[rank_group] <= batch && batch < first[rank_group + 1]);
      }
    }
    if (sharing.last_steps == LastSteps::kDropped || !sharing.ranked()) {
      EXPECT_EQ(padding, 0U);
    } else {
      EXPECT_THAT(dealing.dropped(), IsEmpty());
    }
    EXPECT_EQ(dealt.size() - padding + dealing.dropped().size() + done.size(), first.back());
    for (const uint64_t batch : dealing.dropped()) EXPECT_FALSE(dealt.contains(batch));
    if (!sharing.ranked()) continue;
    const uint64_t steps = random.Below(dealing.queue_length(0) + 2);
    const BatchSet of_steps = dealing.BatchesOfSteps(steps);
    for (const uint64_t batch : dealt) {
      EXPECT_EQ(of_steps.Contains(batch),
                !dealing.IsPadding(batch) && dealing.PlaceOf(batch)->position < steps);
    }
  }
}

TEST(DealingTest, Refuses) {
  const auto refused = [](std::vector<uint64_t> first_batches, Sharing sharing = {},
                          const BatchSet& done = {}) {
    return Dealing::Create(first_batches, done, std::move(sharing)).status();
  };
  const absl::Status malformed = absl::InvalidArgumentError(
      "first_batches: must begin with 0, ascend, and end with the number of batches");
  EXPECT_EQ(refused({0}), malformed);
  EXPECT_EQ(refused({}), malformed);
  EXPECT_EQ(refused({1, 5}), malformed);
  EXPECT_EQ(refused({0, 5, 4}), malformed);
  constexpr uint64_t kMost = ~uint32_t{0};
  BatchSet all;
  all.InsertRun({0, kMost});
  EXPECT_EQ(refused({0, kMost}, {}, all), absl::OkStatus());
  EXPECT_EQ(refused({0, kMost + 1}),
            absl::InvalidArgumentError("first_batches: 4294967296 batches, at most 2^32 - 1"));
  Sharing sharing;
  sharing.rank_group_of_rank = {0, 2};
  EXPECT_EQ(refused({0, 1, 2}, sharing),
            absl::InvalidArgumentError("rank 1: of rank group 2, the epoch has 2 rank groups"));
  EXPECT_EQ(
      refused({0, 1, 2}, Sharing::Ranked(2)),
      absl::FailedPreconditionError("rank group 1: has 1 batches left, and no rank takes them"));
  EXPECT_EQ(refused({0, 1, 2}, Sharing::Ranked(2), BatchSet::Of({1})), absl::OkStatus());
  const absl::Status too_many = absl::InvalidArgumentError("ranks: 65537, at most 65536");
  EXPECT_EQ(refused({0, 1}, Sharing::Ranked(65536)), absl::OkStatus());
  EXPECT_EQ(refused({0, 1}, Sharing::Ranked(65537)), too_many);
  EXPECT_EQ(Dealing::QueueLength({0, 1, 2}, {}, {}, 2).status(),
            absl::InvalidArgumentError("queue 2: there are 2"));
  EXPECT_EQ(Dealing::QueueLength({0, 1}, {}, Sharing::Ranked(3), 3).status(),
            absl::InvalidArgumentError("queue 3: there are 3"));
  EXPECT_EQ(Dealing::QueueLength({0, 1}, {}, Sharing::Ranked(65537), 0).status(), too_many);
  EXPECT_EQ(Dealing::CreateGrowing({0, 4, 8}, {}, Sharing::Ranked(2)).status(),
            absl::FailedPreconditionError("rank group 1: no rank takes its batches"));
  EXPECT_EQ(Dealing::CreateGrowing({}, {}, {}).status(), malformed);
}

// What a dealing may take of a budget: a number of each batch, and some of each rank.
TEST(DealingTest, MostBytesAreThoseOfItsLists) {
  const uint64_t none = Dealing::MostBytes(0, 0, {});
  EXPECT_EQ(none, 512U);
  EXPECT_EQ(Dealing::MostBytes(100, 0, {}), none + 400);
  EXPECT_EQ(Dealing::MostBytes(100, 0, {{}, LastSteps::kDropped}), none + 1200);
  EXPECT_EQ(Dealing::MostBytes(0, 0, Sharing::Ranked(3)), none + 3 * 2 * (3 * 4 + 8));
  const uint64_t of_group = Dealing::MostBytes(0, 1, {}) - none;
  EXPECT_GT(of_group, 2 * sizeof(std::vector<uint32_t>));
  EXPECT_EQ(Dealing::MostBytes(0, 3, {}), none + 3 * of_group);
}

// Batches of each rank group become known one after the other: what was dealt stays where it is,
// ranks have equal numbers of steps at any time, and in the end each batch that was left is dealt.
TEST(DealingTest, WhatBecomesKnownFollowsWhatIsDealt) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::vector<uint64_t> first = {0};
    Sharing sharing;
    sharing.last_steps = static_cast<LastSteps>(random.Below(2));
    const bool is_ranked = random.Below(3) != 0;
    const uint32_t num_groups = static_cast<uint32_t>(random.Between(1, 3));
    for (uint32_t j = 0; j < num_groups; ++j) {
      first.push_back(first.back() + random.Between(1, 20));
      const uint64_t ranks = is_ranked ? random.Between(1, 3) : 0;
      for (uint64_t r = 0; r < ranks; ++r) sharing.rank_group_of_rank.push_back(j);
    }
    BatchSet done;
    for (uint64_t b = 0; b < first.back(); ++b) {
      if (random.Below(4) == 0) done.Insert(b);
    }
    PH_ASSERT_OK_AND_ASSIGN(Dealing dealing, Dealing::CreateGrowing(first, done, sharing));
    std::vector<uint64_t> known(num_groups);
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> dealt;
    std::set<uint64_t> given;
    for (int step = 0; step < 5; ++step) {
      for (uint32_t j = 0; j < num_groups; ++j) {
        known[j] += random.Below(first[j + 1] - first[j] - known[j] + 1);
      }
      dealing.Grow(known, step == 4);
      EXPECT_EQ(dealing.is_complete(), step == 4);
      for (uint32_t queue = 0; queue < dealing.num_queues(); ++queue) {
        if (is_ranked) {
          EXPECT_EQ(dealing.queue_length(queue), dealing.queue_length(0));
        }
        for (uint64_t at = 0; at < dealing.queue_length(queue); ++at) {
          const uint64_t batch = dealing.BatchAt({queue, at});
          EXPECT_EQ(dealt.emplace(std::pair(queue, at), batch).first->second, batch);
          EXPECT_EQ(dealing.PlaceOf(batch), (Place{queue, at}));
          if (dealing.IsPadding(batch)) {
            EXPECT_EQ(step, 4);
            continue;
          }
          given.insert(batch);
          EXPECT_TRUE(dealing.Knows(batch));
          EXPECT_EQ(dealing.RankGroupOf(batch),
                    is_ranked ? sharing.rank_group_of_rank[queue] : queue);
        }
      }
    }
    for (const uint64_t batch : dealing.dropped()) EXPECT_TRUE(given.insert(batch).second);
    for (uint32_t j = 0; j < num_groups; ++j) {
      for (uint64_t b = first[j]; b < first[j + 1]; ++b) {
        EXPECT_EQ(given.contains(b), b < first[j] + known[j] && !done.Contains(b)) << b;
        EXPECT_EQ(dealing.Knows(b), b < first[j] + known[j]) << b;
      }
    }
  }
}

}  // namespace
}  // namespace packhouse
