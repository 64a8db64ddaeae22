// Seals that go on when nobody waits for them.
#include "service/wings/graphs/source_graphs/seal_runs.h"

#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

class SealRunsTest : public ::testing::Test {
 protected:
  SealRunsTest() { Begin(); }
  ~SealRunsTest() override { End(); }

  void Begin() {
    runs_ =
        std::make_unique<SealRuns>(&store_, [this](const ClientId&, const std::string&, auto work) {
          if (has_no_memory_) throw std::bad_alloc();
          if (waits_in_queue_) return queue_.push_back(std::move(work));
          threads_.emplace_back([work = std::move(work)] { work([] { return false; }); });
        });
  }
  void End() {
    runs_ = nullptr;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  absl::StatusOr<std::unique_ptr<SealRuns::Watch>> Start(const SealOptions& options = {}) {
    return runs_->Start("client", "g", options, [this] {
      absl::MutexLock lock(&mutex_);
      ++wakes_;
    });
  }

  // What the run comes to, as one learns who only looks when he is woken.
  absl::StatusOr<SourceGraphInfo> ResultOf(const SealRuns::Watch& watch) {
    for (;;) {
      int seen;
      {
        absl::MutexLock lock(&mutex_);
        seen = wakes_;
      }
      if (const SealRuns::State state = watch.state(); state.result) return *state.result;
      const auto woken = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return wakes_ != seen; };
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&woken));
    }
  }

  HeldSealStore store_;
  std::vector<std::thread> threads_;
  std::vector<std::function<void(const std::function<bool()>&)>> queue_;
  bool waits_in_queue_ = false;
  std::unique_ptr<SealRuns> runs_;
  bool has_no_memory_ = false;
  absl::Mutex mutex_;
  int wakes_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(SealRunsTest, ASealGoesOnWhenNobodyWaitsAndIsJoinedByWhoComesLater) {
  PH_ASSERT_OK_AND_ASSIGN(auto first, Start());
  store_.AwaitSealing();
  first = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(const auto second, Start());
  PH_ASSERT_OK_AND_ASSIGN(const auto third, Start());
  EXPECT_FALSE(second->state().result.has_value());
  store_.Release();
  for (const auto* watch : {second.get(), third.get()}) {
    PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, ResultOf(*watch));
    EXPECT_EQ(info.state, SourceGraphState::kSealed);
  }
  // A sealed graph is answered at once.
  PH_ASSERT_OK_AND_ASSIGN(const auto late, Start());
  EXPECT_TRUE(late->state().result.has_value());
  EXPECT_EQ(store_.num_seals(), 1);
}

// Each step of its work is told once, to those who watch.
TEST_F(SealRunsTest, ProgressIsToldToThoseWhoWatch) {
  PH_ASSERT_OK_AND_ASSIGN(auto first, Start());
  {
    const auto is_told = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return wakes_ == 1; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_told));
  }
  EXPECT_EQ(first->state().progress.done, 1U);
  EXPECT_EQ(first->state().progress.total, 2U);
  first = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(const auto second, Start());
  EXPECT_EQ(second->state().progress.done, 1U);
  store_.Release();
  EXPECT_THAT(ResultOf(*second), IsOk());
  End();
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(wakes_, 2);
}

TEST_F(SealRunsTest, AnotherRuleIsRefusedWhileItIsAtWork) {
  PH_ASSERT_OK_AND_ASSIGN(const auto first, Start());
  store_.AwaitSealing();
  SealOptions other;
  other.duplicates = DuplicateNodes::kLast;
  EXPECT_THAT(Start(other).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "source graph 'g': is being sealed with another rule for nodes that were "
                       "appended twice"));
  store_.Release();
  EXPECT_THAT(ResultOf(*first), IsOk());
}

TEST_F(SealRunsTest, TheEndOfTheServerEndsItAndTheGraphIsOpen) {
  PH_ASSERT_OK_AND_ASSIGN(const auto watch, Start());
  store_.AwaitSealing();
  End();
  EXPECT_THAT(ResultOf(*watch), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("'g'")));
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, store_.Get("g"));
  EXPECT_EQ(info.state, SourceGraphState::kOpen);
  Begin();
  PH_ASSERT_OK_AND_ASSIGN(const auto again, Start());
  store_.Release();
  EXPECT_THAT(ResultOf(*again), IsOk());
}

// Who has heard that a seal failed may begin the next one, by another rule.
TEST_F(SealRunsTest, AResultIsToldWhenTheRunIsOver) {
  store_.FailSeals(100);
  SealOptions options;
  for (int i = 0; i < 100; ++i) {
    options.duplicates = i % 2 == 0 ? DuplicateNodes::kLast : DuplicateNodes::kFirst;
    PH_ASSERT_OK_AND_ASSIGN(const auto watch, Start(options));
    EXPECT_EQ(ResultOf(*watch).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Somebody deletes the graph, and makes one of the same name, while its seal waits for its turn.
TEST_F(SealRunsTest, AnotherGraphOfTheNameIsNotSealed) {
  waits_in_queue_ = true;
  PH_ASSERT_OK_AND_ASSIGN(const auto watch, Start());
  store_.Release();
  store_.MakeAnew();
  ASSERT_EQ(queue_.size(), 1);
  queue_[0]([] { return false; });
  EXPECT_THAT(ResultOf(*watch), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'g'")));
  EXPECT_EQ(store_.num_seals(), 0);
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, store_.Get("g"));
  EXPECT_EQ(info.state, SourceGraphState::kOpen);
}

TEST_F(SealRunsTest, WithoutMemoryForAThreadNothingIsLeftBehind) {
  has_no_memory_ = true;
  EXPECT_EQ(Start().status().code(), absl::StatusCode::kResourceExhausted);
  has_no_memory_ = false;
  store_.Release();
  PH_ASSERT_OK_AND_ASSIGN(const auto watch, Start());
  EXPECT_THAT(ResultOf(*watch), IsOk());
  EXPECT_EQ(runs_->Start("client", "absent", {}, [] {}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace packhouse
