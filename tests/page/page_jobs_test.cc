// Questions that take longer: one at a time of each view, and none that nobody waits for.
#include "service/wings/page/page_jobs.h"

#include <optional>
#include <string>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "tests/support/simulated_clock.h"

namespace packhouse::page {
namespace {

// Asks until the answer is there.
PageAnswer Await(PageJobs& jobs, const PageJobs::Asker& asker, const std::string& question,
                 const PageJobs::Work& work) {
  while (true) {
    if (auto answer = jobs.Ask(asker, question, work)) return *answer;
  }
}

PageJobs::Work Says(const std::string& body) {
  return [body](StopSwitch&) { return PageAnswer{200, body}; };
}

// Work that ends when it is stopped.
struct Endless {
  absl::Notification begun;
  absl::Notification stopped;

  PageJobs::Work work() {
    return [this](StopSwitch& stop) {
      absl::Notification over;
      stop.OnStop([&over] {
        if (!over.HasBeenNotified()) over.Notify();
      });
      begun.Notify();
      over.WaitForNotification();
      stop.OnStop(nullptr);
      stopped.Notify();
      return PageAnswer{200, "stopped"};
    };
  }
};

TEST(PageJobsTest, AnAnswerIsGivenOnce) {
  SimulatedClock clock;
  PageJobs jobs({}, &clock, nullptr);
  EXPECT_EQ(Await(jobs, {"me", "v"}, "q", Says("a")).body, "a");
  EXPECT_EQ(jobs.num_jobs(), 0);
  EXPECT_EQ(Await(jobs, {"me", "v"}, "q", Says("b")).body, "b");
}

TEST(PageJobsTest, AnotherQuestionOfTheViewStopsTheLast) {
  SimulatedClock clock;
  Endless endless;
  Endless mine;
  PageJobs jobs({}, &clock, nullptr);
  EXPECT_EQ(jobs.Ask({"me", "v"}, "first", endless.work()), std::nullopt);
  endless.begun.WaitForNotification();
  EXPECT_EQ(Await(jobs, {"me", "v"}, "second", Says("b")).body, "b");
  endless.stopped.WaitForNotification();
  // Other views, and other viewers, go on.
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", mine.work()), std::nullopt);
  mine.begun.WaitForNotification();
  EXPECT_EQ(Await(jobs, {"you", "v"}, "q", Says("yours")).body, "yours");
  EXPECT_EQ(Await(jobs, {"me", "w"}, "q", Says("other")).body, "other");
  EXPECT_FALSE(mine.stopped.HasBeenNotified());
}

TEST(PageJobsTest, WhatNobodyAsksForAnyMoreIsStopped) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  Endless endless;
  PageJobs jobs(bounds, &clock, nullptr);
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", endless.work()), std::nullopt);
  endless.begun.WaitForNotification();
  clock.Advance(bounds.patience / 2);
  // Asking again keeps it.
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", nullptr), std::nullopt);
  clock.Advance(bounds.patience / 2);
  EXPECT_EQ(jobs.num_jobs(), 1);
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", nullptr), std::nullopt);
  // A little later the clock itself stops it: also if no thread is free, and nobody asks anything.
  clock.Advance(bounds.patience - bounds.patience / 10);
  EXPECT_EQ(jobs.num_jobs(), 1);
  clock.Advance(bounds.patience / 5);
  endless.stopped.WaitForNotification();
  EXPECT_EQ(jobs.num_jobs(), 0);
}

// Questions are worked on in their order, so one behind it would have been after it.
TEST(PageJobsTest, WhatWaitsIsNotBegunWhenNobodyAsksForItAnyMore) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  Endless endless;
  PageJobs jobs(bounds, &clock, nullptr);
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", endless.work()), std::nullopt);
  endless.begun.WaitForNotification();
  bool is_begun = false;
  EXPECT_EQ(jobs.Ask({"me", "w"}, "q",
                     [&is_begun](StopSwitch&) {
                       is_begun = true;
                       return PageAnswer{200, ""};
                     }),
            std::nullopt);
  clock.Advance(2 * bounds.patience);
  endless.stopped.WaitForNotification();
  EXPECT_EQ(Await(jobs, {"you", "v"}, "q", Says("a")).body, "a");
  EXPECT_FALSE(is_begun);
}

// What was held for the work is given back but for the answer, until that is taken.
TEST(PageJobsTest, AnAnswerThatWaitsIsHeld) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  MemoryBudget budget(2 * bounds.bytes_at_work);
  PageJobs jobs(bounds, &clock, &budget);
  const std::string body(1000, 'b');
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", Says(body)), std::nullopt);
  EXPECT_EQ(Await(jobs, {"me", "w"}, "q", Says("")).body, "");
  EXPECT_EQ(budget.held(), body.size());
  EXPECT_EQ(jobs.Ask({"me", "v"}, "q", nullptr)->body, body);
  EXPECT_EQ(budget.held(), 0);
}

TEST(PageJobsTest, QuestionsOfAllAndOfOneViewerAreBounded) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  bounds.most = 3;
  bounds.most_of_viewer = 2;
  Endless endless;
  PageJobs jobs(bounds, &clock, nullptr);
  EXPECT_EQ(jobs.Ask({"me", "1"}, "q", endless.work()), std::nullopt);
  endless.begun.WaitForNotification();
  EXPECT_EQ(jobs.Ask({"me", "2"}, "q", Says("")), std::nullopt);
  EXPECT_EQ(jobs.Ask({"me", "3"}, "q", Says(""))->status, 503);
  EXPECT_EQ(jobs.Ask({"you", "1"}, "q", Says("")), std::nullopt);
  EXPECT_EQ(jobs.Ask({"you", "2"}, "q", Says(""))->status, 503);
  EXPECT_EQ(jobs.Ask({"you", "2"}, "q", Says(""))->body,
            R"({"code":"RESOURCE_EXHAUSTED","error":"the page has too many open questions; ask )"
            R"(again soon"})");
}

// Answers that nobody has taken yet count too, though no thread works on them.
TEST(PageJobsTest, AnswersThatWaitAreBounded) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  bounds.most = 2;
  PageJobs jobs(bounds, &clock, nullptr);
  absl::Notification last;
  EXPECT_EQ(jobs.Ask({"me", "1"}, "q", Says("a")), std::nullopt);
  EXPECT_EQ(jobs.Ask({"me", "2"}, "q",
                     [&last](StopSwitch&) {
                       last.Notify();
                       return PageAnswer{200, "b"};
                     }),
            std::nullopt);
  last.WaitForNotification();
  // The thread takes this when it is done with the others.
  absl::Notification done;
  jobs.RunSoon([&done] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_EQ(jobs.num_jobs(), 2);
  const auto refused = jobs.Ask({"you", "1"}, "q", Says("c"));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(jobs.Ask({"me", "1"}, "q", nullptr)->body, "a");
  EXPECT_EQ(Await(jobs, {"you", "1"}, "q", Says("c")).body, "c");
  EXPECT_EQ(jobs.Ask({"me", "2"}, "q", nullptr)->body, "b");
}

TEST(PageJobsTest, TheClockGoesOnWithoutThem) {
  SimulatedClock clock;
  const PageJobs::Bounds bounds;
  { const PageJobs jobs(bounds, &clock, nullptr); }
  clock.Advance(bounds.patience);
  PageJobs others(bounds, &clock, nullptr);
  EXPECT_EQ(Await(others, {"me", "v"}, "q", Says("a")).body, "a");
}

TEST(PageJobsTest, WorkThatIsBeingStoppedStillCounts) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  bounds.most = 2;
  absl::Notification begun;
  absl::Notification go_on;
  PageJobs jobs(bounds, &clock, nullptr);
  const PageJobs::Work stubborn = [&](StopSwitch&) {
    begun.Notify();
    go_on.WaitForNotification();
    return PageAnswer();
  };
  EXPECT_EQ(jobs.Ask({"me", "v"}, "first", stubborn), std::nullopt);
  begun.WaitForNotification();
  EXPECT_EQ(jobs.Ask({"me", "v"}, "second", Says("b")), std::nullopt);
  EXPECT_EQ(jobs.num_jobs(), 1);
  const auto other = jobs.Ask({"you", "v"}, "q", Says("c"));
  go_on.Notify();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->status, 503);
  EXPECT_EQ(Await(jobs, {"me", "v"}, "second", Says("b")).body, "b");
  EXPECT_EQ(Await(jobs, {"you", "v"}, "q", Says("c")).body, "c");
}

// It is short: no memory is held for it.
TEST(PageJobsTest, WhatThePageDoesItselfTakesNoMemory) {
  SimulatedClock clock;
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  MemoryBudget budget(1);
  PageJobs jobs(bounds, &clock, &budget);
  bool is_done = false;
  jobs.RunSoon([&] { is_done = true; });
  EXPECT_EQ(Await(jobs, {"me", "v"}, "q", Says("a")).body,
            R"({"code":"RESOURCE_EXHAUSTED","error":"the server has no memory for this now; ask )"
            R"(again soon"})");
  EXPECT_TRUE(is_done);
}

TEST(PageJobsTest, WithoutMemoryTheAnswerSaysSo) {
  SimulatedClock clock;
  const PageJobs::Bounds bounds;
  MemoryBudget budget(bounds.bytes_at_work);
  PageJobs jobs(bounds, &clock, &budget);
  {
    const auto hold = budget.Hold("a trainer", 1);
    EXPECT_EQ(Await(jobs, {"me", "v"}, "q", Says("a")).status, 503);
  }
  EXPECT_EQ(Await(jobs, {"me", "v"}, "q", Says("a")).body, "a");
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace packhouse::page
