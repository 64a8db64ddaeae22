#include "service/base/limited_log.h"

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/recorded_log.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

LimitedLog::Bounds TwoThenOneASecond() {
  LimitedLog::Bounds bounds;
  bounds.burst = 2;
  bounds.interval = absl::Seconds(1);
  bounds.total_burst = 100;
  bounds.total_interval = absl::Milliseconds(10);
  return bounds;
}

TEST(LimitedLogTest, TheNextLineOfAKeySaysHowManyWereLeftOut) {
  RecordedLog lines;
  absl::Time now = kStart;
  LimitedLog log(
      &lines, [&] { return now; }, TwoThenOneASecond());
  for (int i = 0; i < 5; ++i) log.Log("a", LogLevel::kInfo, "failed", {{"i", i}});
  log.Log("b", LogLevel::kWarning, "failed", {});
  now = kStart + absl::Seconds(1);
  log.Log("a", LogLevel::kInfo, "failed", {{"i", 5}});
  now = kStart + absl::Seconds(2);
  log.Log("a", LogLevel::kInfo, "failed", {{"i", 6}});
  EXPECT_THAT(
      lines.lines(),
      ElementsAre(R"(info "event":"failed","i":0)", R"(info "event":"failed","i":1)",
                  R"(warning "event":"failed")", R"(info "event":"failed","i":5,"suppressed":3)",
                  R"(info "event":"failed","i":6)"));
}

// A client that is the loudest does not hide how often others failed.
TEST(LimitedLogTest, WhatWasLeftOutIsToldByKey) {
  RecordedLog lines;
  LimitedLog::Bounds bounds = TwoThenOneASecond();
  bounds.burst = 0;
  bounds.max_named = 2;
  absl::Time now = kStart;
  LimitedLog log(
      &lines, [&] { return now; }, bounds);
  for (const char* key : {"a", "b", "b", "c", "c", "c", "d"}) {
    log.Log(key, LogLevel::kInfo, "failed", {});
  }
  EXPECT_THAT(lines.lines(), IsEmpty());
  log.LogSuppressed();
  EXPECT_THAT(lines.lines(),
              ElementsAre(R"(info "event":"log lines suppressed","of":"c","count":3)",
                          R"(info "event":"log lines suppressed","of":"b","count":2)",
                          R"(info "event":"log lines suppressed","of":"all others","count":2)"));
  log.LogSuppressed();
  EXPECT_THAT(lines.lines(), SizeIs(3));
}

// Clients that make up names cannot make memory, nor lines.
TEST(LimitedLogTest, ManyKeysShareOne) {
  RecordedLog lines;
  LimitedLog::Bounds bounds = TwoThenOneASecond();
  bounds.max_keys = 11;
  bounds.total_burst = 1000;
  absl::Time now = kStart;
  LimitedLog log(
      &lines, [&] { return now; }, bounds);
  for (int key = 0; key < 1000; ++key) {
    log.Log(absl::StrCat(key), LogLevel::kInfo, "failed", {});
  }
  EXPECT_THAT(lines.lines(), SizeIs(10 + 2));
  log.LogSuppressed();
  EXPECT_EQ(lines.lines().back(),
            R"(info "event":"log lines suppressed","of":"others","count":988)");
  // Keys of which nothing is to tell any more make room for others.
  now = kStart + absl::Seconds(10);
  log.LogSuppressed();
  log.Log("new", LogLevel::kInfo, "failed", {});
  log.Log("new", LogLevel::kInfo, "failed", {});
  log.Log("newer", LogLevel::kInfo, "failed", {});
  EXPECT_THAT(lines.lines(), SizeIs(13 + 3));
}

// Whatever the keys and times: lines and suppressed counts add up to the events, and in no interval
// are there more lines than the bounds say.
TEST(LimitedLogTest, EveryEventIsALineOrCounted) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    RecordedLog lines;
    LimitedLog::Bounds bounds = TwoThenOneASecond();
    bounds.total_burst = 5;
    bounds.total_interval = absl::Milliseconds(200);
    bounds.max_keys = 4;
    absl::Time now = kStart;
    LimitedLog log(
        &lines, [&] { return now; }, bounds);
    for (int i = 0; i < 300; ++i) {
      log.Log(absl::StrCat(random.Below(8)), LogLevel::kInfo, "x", {});
      now += absl::Milliseconds(random.Below(100));
    }
    const double elapsed = absl::ToDoubleSeconds(now - kStart);
    EXPECT_LE(lines.lines().size(), 5 + elapsed * 5 + 1);
    EXPECT_GT(lines.lines().size(), 5);
    log.LogSuppressed();
    uint64_t events = 0;
    for (const std::string& line : lines.lines()) {
      const size_t suppressed = line.find(R"("suppressed":)");
      const size_t count = line.find(R"("count":)");
      uint64_t number = 0;
      if (suppressed != std::string::npos) {
        ASSERT_TRUE(absl::SimpleAtoi(line.substr(suppressed + 13), &number));
        ++number;
      } else if (count != std::string::npos) {
        ASSERT_TRUE(absl::SimpleAtoi(line.substr(count + 8), &number));
      } else {
        number = 1;
      }
      events += number;
    }
    EXPECT_EQ(events, 300);
  }
}

TEST(LimitedLogTest, AClockThatIsSetBackTakesNothingAway) {
  RecordedLog lines;
  absl::Time now = kStart;
  LimitedLog log(
      &lines, [&] { return now; }, TwoThenOneASecond());
  log.Log("a", LogLevel::kInfo, "x", {});
  now = kStart - absl::Hours(1);
  log.Log("a", LogLevel::kInfo, "x", {});
  EXPECT_THAT(lines.lines(), SizeIs(2));
}

TEST(LimitedLogTest, ThreadsLoseNoEvent) {
  RecordedLog lines;
  LimitedLog::Bounds bounds = TwoThenOneASecond();
  bounds.burst = 0;
  absl::Time now = kStart;
  LimitedLog log(
      &lines, [&] { return now; }, bounds);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 1000; ++i) log.Log("a", LogLevel::kInfo, "x", {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  log.LogSuppressed();
  EXPECT_THAT(lines.lines(),
              ElementsAre(R"(info "event":"log lines suppressed","of":"a","count":4000)"));
}

}  // namespace
}  // namespace packhouse
