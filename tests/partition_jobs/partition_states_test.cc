// The states of partitions without threads and disks: whatever happens in whichever order, what was
// asked for is worked at or has an end that is written down.
#include "service/wings/partition/jobs/partition_states.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using Key = PartitionStates::Key;
using State = PartitionStates::State;

std::shared_ptr<PartitionWork> WorkOf(const ClientId& client) {
  auto work = std::make_shared<PartitionWork>();
  work->client = client;
  return work;
}

TEST(PartitionStatesTest, OneThatEndsIsAskedForAgain) {
  PartitionStates states;
  const Key key("g", "p");
  states.Ask(key, WorkOf("a"));
  const auto first = states.Begin();
  // It runs: nothing happens.
  states.Ask(key, WorkOf("b"));
  EXPECT_FALSE(states.has_waiting());
  states.Ending(first);
  // Its end can be read; the thread has it still.
  states.Ask(key, WorkOf("b"));
  EXPECT_FALSE(states.has_waiting());
  State state;
  EXPECT_EQ(states.Find(key, &state)->client, "b");
  EXPECT_EQ(state, State::kWaiting);
  states.End(first, absl::Seconds(1), absl::InternalError("broke"));
  EXPECT_TRUE(states.has_waiting());
  EXPECT_THAT(states.failure(key), IsOk());
  const auto second = states.Begin();
  EXPECT_EQ(second.work->client, "b");
  states.Ending(second);
  states.End(second, absl::Seconds(1), absl::InternalError("broke"));
  EXPECT_TRUE(states.empty());
  EXPECT_THAT(states.failure(key), StatusIs(absl::StatusCode::kInternal, "broke"));
}

TEST(PartitionStatesTest, OneGivesWayToClientsThatHadLess) {
  PartitionStates states;
  states.Ask({"g", "a1"}, WorkOf("a"));
  states.Ask({"g", "a2"}, WorkOf("a"));
  const auto turn = states.Begin();
  EXPECT_FALSE(states.IsTurnOfOthers(turn, absl::Hours(1)));
  states.Ask({"g", "b1"}, WorkOf("b"));
  EXPECT_TRUE(states.IsTurnOfOthers(turn, absl::Seconds(1)));
  ASSERT_TRUE(states.GiveWay(turn, absl::Seconds(1)));
  const auto other = states.Begin();
  EXPECT_EQ(other.key.second, "b1");
  // Its client has had a second.
  EXPECT_FALSE(states.IsTurnOfOthers(other, absl::Milliseconds(500)));
  EXPECT_TRUE(states.IsTurnOfOthers(other, absl::Seconds(2)));
  states.Cancel([](const Key&) { return true; });
  EXPECT_FALSE(states.has_waiting());
  EXPECT_FALSE(states.GiveWay(other, absl::Seconds(2)));
  states.Ending(other);
  states.End(other, absl::Seconds(2), absl::OkStatus());
  EXPECT_TRUE(states.empty());
}

TEST(PartitionStatesTest, WhatOneTookCountsWhileItsClientHasMore) {
  PartitionStates states;
  const auto end = [&states](const PartitionStates::Turn& turn, absl::Duration took) {
    states.Ending(turn);
    states.End(turn, took, absl::OkStatus());
  };
  states.Ask({"g", "a1"}, WorkOf("a"));
  states.Ask({"g", "a2"}, WorkOf("a"));
  states.Ask({"g", "b1"}, WorkOf("b"));
  end(states.Begin(), absl::Seconds(5));
  const auto other = states.Begin();
  EXPECT_EQ(other.key.second, "b1");
  EXPECT_FALSE(states.IsTurnOfOthers(other, absl::Seconds(4)));
  EXPECT_TRUE(states.IsTurnOfOthers(other, absl::Seconds(6)));
  end(other, absl::Seconds(4));
  end(states.Begin(), absl::Hours(1));
  // Nobody has one any more: all begin anew.
  states.Ask({"g", "b2"}, WorkOf("b"));
  const auto last = states.Begin();
  states.Ask({"g", "a3"}, WorkOf("a"));
  EXPECT_TRUE(states.IsTurnOfOthers(last, absl::Seconds(1)));
}

// A model of the users, the threads and the disk around the states.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_.Below(6)) {
      case 0:
      case 1:
        return Ask();
      case 2:
        return Cancel();
      case 3:
        return Begin();
      default:
        return GoOn();
    }
  }

  // No user does anything any more.
  void Drain() {
    for (int i = 0; i < 1000 && !(states_.empty() && turns_.empty()); ++i) {
      FinishCancel();
      Begin();
      GoOn();
    }
    EXPECT_TRUE(states_.empty());
    EXPECT_TRUE(turns_.empty());
    // The law: nothing waits for ever.
    for (const auto& [key, end] : disk_) {
      EXPECT_NE(end, End::kNone) << key.second << ": was asked for, and nobody works at it";
    }
  }

  uint64_t num_asked_while_ending() const { return num_asked_while_ending_; }

 private:
  enum class End { kNone, kFailed, kCancelled, kDone };
  enum class At { kRuns, kEnds, kIsWritten };
  struct Thread {
    PartitionStates::Turn turn;
    At at = At::kRuns;
    absl::Status failure;
  };

  Key AnyKey() { return {"g", std::string(1, static_cast<char>('a' + random_.Below(3)))}; }
  bool HasThread(const Key& key) const {
    for (const Thread& thread : turns_) {
      if (thread.turn.key == key) return true;
    }
    return false;
  }

  // As PartitionJobs::Partition(): under the lock of changes, which a cancellation holds.
  void Ask() {
    if (cancelling_) return;
    const Key key = AnyKey();
    const auto found = disk_.find(key);
    if (found != disk_.end() && (found->second == End::kNone || found->second == End::kDone)) {
      return;
    }
    num_asked_while_ending_ += HasThread(key) ? 1 : 0;
    disk_[key] = End::kNone;
    states_.Ask(key, WorkOf(std::string(1, static_cast<char>('x' + random_.Below(2)))));
    State state;
    EXPECT_NE(states_.Find(key, &state), nullptr);
    EXPECT_EQ(state, State::kWaiting);
  }

  void Cancel() {
    if (cancelling_) return;
    const Key key = AnyKey();
    const auto found = disk_.find(key);
    if (found == disk_.end() || found->second != End::kNone) return;
    found->second = End::kCancelled;
    cancelling_ = key;
    states_.Cancel([&key](const Key& other) { return other == key; });
    FinishCancel();
  }
  void FinishCancel() {
    if (!cancelling_) return;
    const Key key = *cancelling_;
    if (!states_.HasAny([&key](const Key& other) { return other == key; })) cancelling_.reset();
  }

  void Begin() {
    if (!states_.has_waiting() || turns_.size() == 2) return;
    const auto turn = states_.Begin();
    EXPECT_FALSE(HasThread(turn.key)) << "two threads have " << turn.key.second;
    turns_.push_back({turn, At::kRuns, absl::OkStatus()});
  }

  // One thread does its next step.
  void GoOn() {
    if (turns_.empty()) return;
    const size_t at = random_.Below(turns_.size());
    Thread& thread = turns_[at];
    const absl::Duration took = absl::Seconds(random_.Below(3));
    switch (thread.at) {
      case At::kRuns:
        if (random_.Below(4) == 0 && states_.GiveWay(thread.turn, took)) {
          turns_.erase(turns_.begin() + static_cast<std::ptrdiff_t>(at));
          return;
        }
        states_.Ending(thread.turn);
        thread.at = At::kEnds;
        return;
      case At::kEnds:
        if (!thread.turn.work->cancelled) {
          const bool failed = random_.Below(2) == 0;
          EXPECT_EQ(disk_[thread.turn.key], End::kNone);
          disk_[thread.turn.key] = failed ? End::kFailed : End::kDone;
          if (failed) thread.failure = absl::InternalError("broke");
        }
        thread.at = At::kIsWritten;
        return;
      case At::kIsWritten:
        states_.End(thread.turn, took, thread.failure);
        turns_.erase(turns_.begin() + static_cast<std::ptrdiff_t>(at));
        FinishCancel();
        return;
    }
  }

  Random random_;
  PartitionStates states_;
  std::map<Key, End> disk_;
  std::vector<Thread> turns_;
  std::optional<Key> cancelling_;
  uint64_t num_asked_while_ending_ = 0;
};

TEST(PartitionStatesTest, NothingThatWasAskedForWaitsForEver) {
  uint64_t asked_while_ending = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    World world(seed);
    for (int i = 0; i < 200; ++i) world.Step();
    world.Drain();
    asked_while_ending += world.num_asked_while_ending();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(asked_while_ending, 100U);
}

}  // namespace
}  // namespace packhouse
