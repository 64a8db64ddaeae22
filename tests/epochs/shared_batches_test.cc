// Made batches that jobs share: how often a batch is made, what each job gets, and what is kept.
#include "service/engine/epochs/shared_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

constexpr uint64_t kNoBound = uint64_t{1} << 40;
constexpr size_t kBatchBytes = 10'000;
constexpr uint64_t kNumBatches = 40;

// An epoch whose batches say which they are; counts how often they are made.
class CountedEpoch final : public LoadableEpoch {
 public:
  explicit CountedEpoch(std::string job, uint64_t seed = 1) {
    identity_ = {{std::move(job), 3}, "graphs", 7, seed, {{{24, 6}, 0, kNumBatches}}, "words", 0};
  }

  EpochIdentity& words() { return identity_; }
  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return schema_; }
  absl::Span<const BatchShape> shapes(size_t /*rank_group*/) const override { return {}; }
  uint64_t num_graphs() const override { return 1; }
  uint64_t NumGraphs(uint64_t /*number*/) const override { return 1; }
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override {
    ++num_made;
    if (while_made) while_made();
    if (num_to_fail != 0) {
      --num_to_fail;
      return absl::DataLossError("record 5");
    }
    auto buffer = std::make_shared<const std::string>(kBatchBytes, static_cast<char>(number));
    BuiltBatch built;
    built.batch.graph_ids = {identity_.seed, number};
    built.batch.framed = *buffer;
    built.batch.buffer = buffer;
    built.shape = number % 3;
    built.drawn_smaller = {{number, 1}};
    return built;
  }
  absl::StatusOr<BuiltBatch> BuildPadding(size_t /*rank_group*/) const override {
    return BuiltBatch();
  }

  mutable std::atomic<uint64_t> num_made = 0;
  mutable uint64_t num_to_fail = 0;
  std::function<void()> while_made;

 private:
  EpochIdentity identity_;
  const GraphSchema schema_ = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
};

using Members = std::vector<std::unique_ptr<SharedBatches::Member>>;

void ExpectBatch(const absl::StatusOr<BuiltBatch>& built, uint64_t number, uint64_t seed = 1) {
  ASSERT_THAT(built, IsOk());
  EXPECT_EQ(built->batch.graph_ids, (std::vector<uint64_t>{seed, number}));
  EXPECT_EQ(built->batch.framed, std::string(kBatchBytes, static_cast<char>(number)));
  EXPECT_EQ(built->shape, number % 3);
  EXPECT_EQ(built->drawn_smaller.size(), 1U);
}

// However many jobs, and streams of each, at one pace: each batch is made once, and nothing stays.
TEST(SharedBatchesTest, JobsAtOnePaceMakeEachBatchOnce) {
  for (const size_t num_jobs : {2, 4, 7}) {
    MemoryBudget memory(kNoBound);
    SharedBatches shared(kNoBound, &memory, nullptr);
    const CountedEpoch epoch("");
    Members members;
    for (size_t job = 0; job < num_jobs; ++job) {
      for (int rank = 0; rank < 2; ++rank) {
        members.push_back(shared.Join(CountedEpoch(absl::StrCat("job ", job)).identity()));
      }
    }
    for (uint64_t number = 0; number < kNumBatches; ++number) {
      for (size_t job = 0; job < num_jobs; ++job) {
        ExpectBatch(members[2 * job + number % 2]->Build(epoch, number), number);
        EXPECT_EQ(memory.held() != 0, job + 1 < num_jobs);
      }
    }
    EXPECT_EQ(epoch.num_made, kNumBatches);
    EXPECT_EQ(shared.num_taken(), (num_jobs - 1) * kNumBatches);
  }
}

TEST(SharedBatchesTest, AJobAloneKeepsNothing) {
  MemoryBudget memory(kNoBound);
  SharedBatches shared(kNoBound, &memory, nullptr);
  const CountedEpoch epoch("job");
  const auto one = shared.Join(epoch.identity());
  const auto two = shared.Join(epoch.identity());
  ExpectBatch(one->Build(epoch, 4), 4);
  ExpectBatch(two->Build(epoch, 4), 4);
  EXPECT_EQ(epoch.num_made, 2U);
  EXPECT_EQ(memory.held(), 0U);
  EXPECT_EQ(shared.num_taken(), 0U);
}

// Passes of one share are as jobs; those of another share, and jobs, want other batches.
TEST(SharedBatchesTest, EvaluationsOfOneShareMakeEachBatchOnce) {
  SharedBatches shared(kNoBound, nullptr, nullptr);
  const CountedEpoch epoch("");
  const auto one = shared.JoinPass(epoch.identity(), "0 of 2");
  const auto two = shared.JoinPass(epoch.identity(), "0 of 2");
  const auto other_rank = shared.JoinPass(epoch.identity(), "1 of 2");
  const auto job = shared.Join(epoch.identity());
  for (uint64_t number = 0; number < kNumBatches; ++number) {
    for (const auto* member : {&one, &two}) ExpectBatch((*member)->Build(epoch, number), number);
  }
  EXPECT_EQ(epoch.num_made, kNumBatches);
  ExpectBatch(other_rank->Build(epoch, 4), 4);
  ExpectBatch(job->Build(epoch, 4), 4);
  EXPECT_EQ(epoch.num_made, kNumBatches + 2);
  EXPECT_EQ(shared.num_taken(), kNumBatches);
}

// What differs in any word is another epoch.
TEST(SharedBatchesTest, OtherEpochsShareNothing) {
  const std::vector<std::function<void(EpochIdentity&)>> changes = {
      [](EpochIdentity& words) { ++words.key.epoch; },
      [](EpochIdentity& words) { words.dataset = "others"; },
      [](EpochIdentity& words) { ++words.dataset_version; },
      [](EpochIdentity& words) { ++words.seed; },
      [](EpochIdentity& words) { ++words.rank_groups[0].capacities[0]; },
      [](EpochIdentity& words) { ++words.rank_groups[0].planned_ranks; },
      [](EpochIdentity& words) { words.options = "other words"; },
      [](EpochIdentity& words) { ++words.num_windows; }};
  for (const auto& change : changes) {
    SharedBatches shared(kNoBound, nullptr, nullptr);
    const CountedEpoch epoch("a");
    CountedEpoch other("b", 2);
    other.words().seed = 1;
    change(other.words());
    const auto one = shared.Join(epoch.identity());
    const auto two = shared.Join(other.identity());
    ExpectBatch(one->Build(epoch, 4), 4);
    ExpectBatch(two->Build(other, 4), 4, other.identity().seed);
    EXPECT_EQ(epoch.num_made + other.num_made, 2U);
  }
}

// A job that is further behind than what is kept makes its own.
TEST(SharedBatchesTest, ASlowJobFallsBackToItsOwn) {
  constexpr uint64_t kKept = 5;
  SharedBatches shared(kKept * (kBatchBytes + 5000), nullptr, nullptr);
  const CountedEpoch epoch("");
  const auto fast = shared.Join(CountedEpoch("fast").identity());
  const auto slow = shared.Join(CountedEpoch("slow").identity());
  for (const uint64_t behind : {kKept - 1, 3 * kKept}) {
    const uint64_t made_before = epoch.num_made;
    for (uint64_t number = 0; number < kNumBatches + behind; ++number) {
      if (number < kNumBatches) ExpectBatch(fast->Build(epoch, number), number);
      if (number >= behind) ExpectBatch(slow->Build(epoch, number - behind), number - behind);
    }
    EXPECT_EQ(epoch.num_made - made_before, (behind < kKept ? 1 : 2) * kNumBatches) << behind;
  }
}

// Whoever comes, goes, is sent a batch again or fails meanwhile: each gets its own batches.
TEST(SharedBatchesTest, EachGetsWhatItWouldGetAlone) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    MemoryBudget memory(random.Below(2) == 0 ? kNoBound : 12 * kBatchBytes);
    SharedBatches shared(random.Below(8) * kBatchBytes, &memory, nullptr);
    std::vector<std::unique_ptr<CountedEpoch>> epochs;
    for (uint64_t i = 0; i < 5; ++i) {
      epochs.push_back(std::make_unique<CountedEpoch>(absl::StrCat("job ", i), i / 3));
    }
    std::vector<std::pair<CountedEpoch*, std::unique_ptr<SharedBatches::Member>>> members;
    std::vector<BuiltBatch> in_flight;
    for (int step = 0; step < 400; ++step) {
      const uint64_t dice = random.Below(20);
      CountedEpoch& epoch = *epochs[random.Below(epochs.size())];
      if (dice < 3 || members.empty()) {
        members.emplace_back(&epoch, shared.Join(epoch.identity()));
      } else if (dice == 3) {
        members.erase(members.begin() + static_cast<ptrdiff_t>(random.Below(members.size())));
      } else if (dice == 4) {
        shared.ForgetOldest();
      } else if (dice == 5) {
        in_flight.clear();
      } else {
        auto& [own, member] = members[random.Below(members.size())];
        const uint64_t number = static_cast<uint64_t>(step) / 30 + random.Below(3);
        own->num_to_fail = dice == 6 ? 2 : 0;
        auto built = member->Build(*own, number);
        own->num_to_fail = 0;
        if (dice == 6 && !built.ok()) {
          EXPECT_TRUE(absl::IsDataLoss(built.status())) << built.status();
          continue;
        }
        ExpectBatch(built, number, own->identity().seed);
        in_flight.push_back(*std::move(built));
      }
      EXPECT_LE(memory.held(), memory.bound());
    }
    for (const BuiltBatch& built : in_flight) {
      EXPECT_EQ(built.batch.framed,
                std::string(kBatchBytes, static_cast<char>(built.batch.graph_ids[1])));
    }
    members.clear();
    in_flight.clear();
    EXPECT_EQ(memory.held(), 0U);
  }
}

// As many bytes as a batch has, from when it is made until nobody has it; none above three quarters
// of the budget.
TEST(SharedBatchesTest, WhatIsKeptIsHeldOfTheBudget) {
  constexpr uint64_t kMost = 75'000 - kBatchBytes - 2 * sizeof(uint64_t) - 4096;
  for (const uint64_t held_by_others :
       {uint64_t{0}, kMost, kMost + 1, uint64_t{75'000}, uint64_t{99'000}}) {
    MemoryBudget memory(100'000);
    PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, memory.Hold("others", held_by_others));
    SharedBatches shared(kNoBound, &memory, nullptr);
    const CountedEpoch epoch("");
    const auto one = shared.Join(CountedEpoch("one").identity());
    const auto two = shared.Join(CountedEpoch("two").identity());
    const bool has_room = held_by_others <= kMost;
    {
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, one->Build(epoch, 1));
      // With two ids, and what is known of a batch besides.
      EXPECT_EQ(memory.held() - held_by_others,
                has_room ? kBatchBytes + 2 * sizeof(uint64_t) + 4096 : 0);
      // In flight, it cannot be forgotten.
      EXPECT_FALSE(shared.ForgetOldest());
    }
    EXPECT_EQ(shared.ForgetOldest(), has_room);
    EXPECT_EQ(memory.held(), held_by_others);
    ExpectBatch(two->Build(epoch, 1), 1);
    EXPECT_EQ(epoch.num_made, 2U);
  }
}

// Threads that want the same batch at the same time make it once; who would make it fails, and
// another does.
TEST(SharedBatchesTest, ThreadsMakeABatchOnce) {
  constexpr size_t kThreads = 4;
  SharedBatches shared(kNoBound, nullptr, nullptr);
  const CountedEpoch epoch("");
  Members members;
  for (size_t i = 0; i < kThreads; ++i) {
    members.push_back(shared.Join(CountedEpoch(absl::StrCat("job ", i)).identity()));
  }
  for (uint64_t number = 0; number < kNumBatches; ++number) {
    std::vector<std::thread> threads;
    for (const auto& member : members) {
      threads.emplace_back([&] { ExpectBatch(member->Build(epoch, number), number); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(epoch.num_made, number + 1);
  }
}

}  // namespace
}  // namespace packhouse
