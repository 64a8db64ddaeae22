#include "service/wings/cluster/datasets/object_read_ahead.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/caller.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

// Objects that are named by numbers, and whose bytes are numbers; counts those who read.
class NumberedObjects final : public ObjectStore {
 public:
  static std::string BytesOf(uint64_t number, size_t size) {
    std::string bytes = absl::StrCat(number, ":");
    bytes.resize(size, 'x');
    return bytes;
  }

  // Each Get waits for it.
  std::function<bool(uint64_t number)> may_end;
  std::function<absl::Status(uint64_t number)> status_of;

  uint64_t most_at_once() const {
    absl::MutexLock lock(&mutex_);
    return most_at_once_;
  }
  uint64_t num_gets() const {
    absl::MutexLock lock(&mutex_);
    return num_gets_;
  }
  uint64_t at_once() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return at_once_; }
  uint64_t num_begun() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_gets_; }

  absl::Status Put(absl::string_view, absl::string_view, absl::Time) override {
    return absl::UnimplementedError("Put");
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time /*deadline*/) override {
    uint64_t number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(key, &number));
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      ++num_gets_;
      most_at_once_ = std::max(most_at_once_, ++at_once_);
      const auto ends = [&] { return may_end == nullptr || may_end(number); };
      // As a store over the network, which looks now and then.
      while (!mutex_.AwaitWithTimeout(absl::Condition(&ends), absl::Milliseconds(1))) {
        status = CheckCaller();
        if (!status.ok()) break;
      }
      --at_once_;
    }
    if (status.ok() && status_of) status = status_of(number);
    if (!status.ok()) return status;
    return sink(BytesOf(number, range.end - range.begin));
  }
  absl::StatusOr<ObjectList> List(absl::string_view, absl::string_view, size_t,
                                  absl::Time) override {
    return absl::UnimplementedError("List");
  }
  absl::Status Delete(absl::string_view, absl::Time) override {
    return absl::UnimplementedError("Delete");
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t at_once_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t most_at_once_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_gets_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ObjectReadAheadTest : public ::testing::Test {
 protected:
  ObjectEngines Engines(size_t at_once) {
    ObjectEngines engines;
    engines.objects = &objects_;
    engines.clock = &clock_;
    engines.reads_at_once = at_once;
    return engines;
  }
  static ObjectReadAhead::Part PartOf(size_t number) { return {absl::StrCat(number), 0}; }

  SimulatedClock clock_;
  NumberedObjects objects_;
};

TEST_F(ObjectReadAheadTest, PartsComeInOrder) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::vector<uint64_t> sizes(random.Below(200));
    for (uint64_t& size : sizes) size = random.Below(4) == 0 ? 0 : 10 + random.Below(100);
    const ObjectEngines engines = Engines(1 + random.Below(9));
    ObjectReadAhead ahead(engines, sizes, PartOf);
    // Who leaves early leaves nothing behind.
    const size_t end = seed % 3 == 0 ? sizes.size() / 2 : sizes.size();
    for (size_t i = 0; i < end; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const std::string bytes, ahead.Next());
      EXPECT_EQ(bytes, sizes[i] == 0 ? "" : NumberedObjects::BytesOf(i, sizes[i]));
    }
  }
}

TEST_F(ObjectReadAheadTest, AsManyAreReadAtOnceAsTheEnginesSay) {
  // The first ends only once there are six.
  std::atomic<bool> were_six = false;
  objects_.may_end = [&](uint64_t) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (objects_.at_once() == 6) were_six = true;
    return were_six.load();
  };
  const ObjectEngines engines = Engines(6);
  ObjectReadAhead ahead(engines, std::vector<uint64_t>(100, 10), PartOf);
  for (size_t i = 0; i < 100; ++i) EXPECT_THAT(ahead.Next(), IsOk());
  EXPECT_EQ(objects_.most_at_once(), 6U);
  EXPECT_EQ(objects_.num_gets(), 100U);
}

TEST_F(ObjectReadAheadTest, CallsShareTheThreadsOfTheStore) {
  std::atomic<bool> is_open = false;
  objects_.may_end = [&](uint64_t number) { return number == 0 || is_open; };
  ObjectEngines engines = Engines(6);
  engines.read_threads = std::make_shared<SharedThreads>(8);
  constexpr size_t kParts = 40;
  const auto take = [](ObjectReadAhead& ahead, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      EXPECT_THAT(ahead.Next(), IsOkAndHolds(NumberedObjects::BytesOf(i, 10)));
    }
  };
  ObjectReadAhead last(engines, std::vector<uint64_t>(kParts, 10), PartOf);
  {
    // Each of them takes half of what is left.
    std::vector<std::unique_ptr<ObjectReadAhead>> others;
    for (const size_t left : {4, 2, 1, 0}) {
      others.push_back(
          std::make_unique<ObjectReadAhead>(engines, std::vector<uint64_t>(kParts, 10), PartOf));
      take(*others.back(), 0, 1);
      EXPECT_EQ(engines.read_threads->num_free(), left);
    }
    // Nobody waits for the threads of others.
    take(last, 0, 1);
    is_open = true;
    for (const auto& other : others) take(*other, 1, kParts);
  }
  EXPECT_LE(objects_.most_at_once(), 8U + 1U);
  EXPECT_EQ(engines.read_threads->num_free(), 8U);
  // They are there for who goes on.
  is_open = false;
  objects_.may_end = [&](uint64_t number) { return number == 1 || is_open; };
  take(last, 1, 2);
  EXPECT_EQ(engines.read_threads->num_free(), 4U);
  is_open = true;
  take(last, 2, kParts);
  EXPECT_EQ(objects_.num_gets(), 5 * kParts);
}

TEST_F(ObjectReadAheadTest, WhatIsReadAheadIsBounded) {
  const ObjectEngines engines = Engines(6);
  {
    ObjectReadAhead ahead(engines, std::vector<uint64_t>(20, ObjectReadAhead::kMaxBytes - 1),
                          PartOf);
    EXPECT_LE(ahead.bytes(), 2 * ObjectReadAhead::kMaxBytes + 20 * sizeof(uint64_t));
    for (size_t i = 0; i < 20; ++i) EXPECT_THAT(ahead.Next(), IsOk());
    EXPECT_EQ(objects_.most_at_once(), 1U);
  }
  // One that is larger is read all the same.
  ObjectReadAhead ahead(engines, {ObjectReadAhead::kMaxBytes + 1, 5, 5}, PartOf);
  EXPECT_GT(ahead.bytes(), 2 * ObjectReadAhead::kMaxBytes);
  for (size_t i = 0; i < 3; ++i) EXPECT_THAT(ahead.Next(), IsOk());
  // Small ones are bounded by their number: nobody takes the first.
  const uint64_t before = objects_.num_gets();
  std::atomic<bool> many_begun = false;
  objects_.may_end = [&](uint64_t number) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (objects_.num_begun() - before == 24) many_begun = true;
    return number != 0 || many_begun;
  };
  ObjectReadAhead small(engines, std::vector<uint64_t>(1000, 5), PartOf);
  EXPECT_THAT(small.Next(), IsOk());
  EXPECT_TRUE(many_begun);
}

// Whichever fails first.
TEST_F(ObjectReadAheadTest, TheFirstThatFailsByOrderIsTold) {
  for (const size_t at_once : {1, 2, 8}) {
    // The second failure waits for nothing, the first for the second.
    std::atomic<bool> has_second = at_once == 1;
    objects_.may_end = [&](uint64_t number) { return number != 5 || has_second; };
    objects_.status_of = [&](uint64_t number) -> absl::Status {
      if (number == 6) has_second = true;
      if (number == 5 || number == 6) {
        return absl::UnavailableError(absl::StrCat("object ", number));
      }
      return absl::OkStatus();
    };
    const ObjectEngines engines = Engines(at_once);
    const uint64_t before = objects_.num_gets();
    ObjectReadAhead ahead(engines, std::vector<uint64_t>(1000, 10), PartOf);
    for (size_t i = 0; i < 5; ++i) EXPECT_THAT(ahead.Next(), IsOk());
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(ahead.Next(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("object 5")));
    }
    EXPECT_LE(objects_.num_gets() - before, 5 + 4 * at_once);
  }
}

class LeavingCaller final : public Caller {
 public:
  bool IsGone() const override { return is_gone; }
  void OnWait() override { ++num_waits; }
  std::atomic<bool> is_gone = false;
  std::atomic<int> num_waits = 0;
};

TEST_F(ObjectReadAheadTest, ReadsEndWhenTheirCallIsGone) {
  LeavingCaller caller;
  const CallerScope scope(&caller);
  objects_.may_end = [&](uint64_t number) {
    if (number == 3) caller.is_gone = true;
    return number < 3;
  };
  const ObjectEngines engines = Engines(4);
  ObjectReadAhead ahead(engines, std::vector<uint64_t>(1000, 10), PartOf);
  absl::Status last;
  for (int i = 0; i < 4 && last.ok(); ++i) last = ahead.Next().status();
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_THAT(ahead.Next(), StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_LE(objects_.num_gets(), 8U);
}

// Others may use meanwhile what the call has.
TEST_F(ObjectReadAheadTest, TheCallIsToldThatItWaits) {
  LeavingCaller caller;
  const CallerScope scope(&caller);
  objects_.may_end = [&](uint64_t number) { return number != 0 || caller.num_waits != 0; };
  const ObjectEngines engines = Engines(2);
  ObjectReadAhead ahead(engines, {10, 10}, PartOf);
  EXPECT_THAT(ahead.Next(), IsOk());
  EXPECT_EQ(caller.num_waits, 1);
}

TEST_F(ObjectReadAheadTest, WhoLeavesDoesNotWaitForAStoreThatHangs) {
  objects_.may_end = [](uint64_t number) { return number == 0; };
  const ObjectEngines engines = Engines(4);
  ObjectReadAhead ahead(engines, std::vector<uint64_t>(1000, 10), PartOf);
  EXPECT_THAT(ahead.Next(), IsOk());
}

}  // namespace
}  // namespace packhouse
