#include "service/base/recent_value.h"

#include <deque>
#include <functional>
#include <utility>

#include "gtest/gtest.h"

namespace packhouse {
namespace {

using Jobs = std::deque<std::function<void()>>;

TEST(RecentValueTest, GivesWhatIsReadAtOnce) {
  int value = 1;
  RecentValue<int> sampler([&] { return value; }, [](const std::function<void()>& job) { job(); },
                           absl::InfiniteDuration());
  EXPECT_EQ(sampler.Get(), 1);
  value = 2;
  EXPECT_EQ(sampler.Get(), 2);
  sampler.Stop();
  value = 3;
  EXPECT_EQ(sampler.Get(), 2);
}

// The function that reads may wait for a lock for any length of time.
TEST(RecentValueTest, GivesTheLastOneWhileReadingTakesLong) {
  Jobs jobs;
  int value = 1;
  RecentValue<int> sampler([&] { return value; },
                           [&](std::function<void()> job) { jobs.push_back(std::move(job)); },
                           absl::ZeroDuration());
  EXPECT_EQ(sampler.Get(), 0);
  EXPECT_EQ(sampler.Get(), 0);
  ASSERT_EQ(jobs.size(), 1U);
  jobs.front()();
  value = 2;
  EXPECT_EQ(sampler.Get(), 1);
  EXPECT_EQ(jobs.size(), 2U);
}

TEST(RecentValueTest, NothingIsReadOnceItIsStopped) {
  Jobs jobs;
  int reads = 0;
  {
    RecentValue<int> sampler([&] { return ++reads; },
                             [&](std::function<void()> job) { jobs.push_back(std::move(job)); },
                             absl::ZeroDuration());
    sampler.Get();
  }
  ASSERT_EQ(jobs.size(), 1U);
  jobs.front()();
  EXPECT_EQ(reads, 0);
}

}  // namespace
}  // namespace packhouse
