// The laws that every ObjectStore keeps, and that tries make up for faults.
#include "service/stores/objects/object_store.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/objects/retrying_object_store.h"
#include "tests/objects/fake_object_store.h"
#include "tests/objects/s3_server.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ObjectWorld {
 public:
  virtual ~ObjectWorld() = default;
  // Null where there is no such store; the test is skipped.
  virtual ObjectStore* store() = 0;
  virtual absl::Time deadline() = 0;
};

class FakeWorld final : public ObjectWorld {
 public:
  ObjectStore* store() override { return &fake_; }
  absl::Time deadline() override { return clock_.Now() + absl::Minutes(5); }

 private:
  SimulatedClock clock_;
  FakeObjectStore fake_{&clock_};
};

// Faults that a seed decides, behind tries.
class FaultyWorld final : public ObjectWorld {
 public:
  FaultyWorld() { fake_.SetFaults({4, 4, 4, 50}, 7); }
  ObjectStore* store() override { return &retrying_; }
  absl::Time deadline() override { return clock_.Now() + absl::Hours(1); }

 private:
  static RetryingObjectStore::Options Patient() {
    RetryingObjectStore::Options options;
    options.max_attempts = 100;
    return options;
  }

  SimulatedClock clock_;
  FakeObjectStore fake_{&clock_};
  RetryingObjectStore retrying_{&fake_, &clock_,
                                [this](absl::Duration delay) { clock_.Advance(delay); }, Patient()};
};

class S3World final : public ObjectWorld {
 public:
  S3World() : store_(S3Server::Shared().NewStore("laws")) {}
  ObjectStore* store() override { return store_.get(); }
  absl::Time deadline() override { return absl::Now() + absl::Seconds(30); }

 private:
  std::unique_ptr<ObjectStore> store_;
};

using MakeObjectWorld = std::function<std::unique_ptr<ObjectWorld>()>;

class ObjectStoreTest : public ::testing::TestWithParam<std::pair<const char*, MakeObjectWorld>> {
 protected:
  void SetUp() override {
    world_ = GetParam().second();
    if (world_->store() == nullptr) GTEST_SKIP() << S3Server::Shared().why_not();
  }
  ObjectStore& store() { return *world_->store(); }
  absl::Time deadline() { return world_->deadline(); }
  absl::StatusOr<std::string> Read(const std::string& key, const ByteRange& range = {}) {
    return ReadObject(store(), key, range, uint64_t{1} << 30, deadline());
  }
  std::vector<std::string> Keys(absl::string_view prefix) {
    std::vector<std::string> keys;
    std::string after;
    while (true) {
      const auto page = store().List(prefix, after, 3, deadline());
      EXPECT_THAT(page, IsOk());
      if (!page.ok()) return keys;
      EXPECT_LE(page->objects.size(), 3U);
      for (const ObjectInfo& object : page->objects) keys.push_back(object.key);
      if (!page->has_more) return keys;
      after = keys.back();
    }
  }

  std::unique_ptr<ObjectWorld> world_;
};

TEST_P(ObjectStoreTest, WhatWasPutIsRead) {
  Random random(1);
  std::map<std::string, std::string> expected;
  for (const size_t size : {0, 1, 100, 70'000, 3'000'000}) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    const std::string key = absl::StrCat("d/1/c/", size);
    ASSERT_THAT(store().Put(key, bytes, deadline()), IsOk());
    expected[key] = std::move(bytes);
  }
  for (const auto& [key, bytes] : expected) {
    PH_ASSERT_OK_AND_ASSIGN(const std::string read, Read(key));
    EXPECT_TRUE(read == bytes) << key;
  }
  // A second Put replaces it as a whole.
  ASSERT_THAT(store().Put("d/1/c/100", "short", deadline()), IsOk());
  EXPECT_EQ(Read("d/1/c/100").value(), "short");
  EXPECT_THAT(Read("d/1/c/2"), StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_P(ObjectStoreTest, RangesAreCutAtTheEnd) {
  ASSERT_THAT(store().Put("k", "0123456789", deadline()), IsOk());
  for (uint64_t begin = 0; begin <= 11; ++begin) {
    for (uint64_t end = begin; end <= 12; ++end) {
      const std::string want =
          begin >= 10 ? "" : std::string("0123456789").substr(begin, end - begin);
      PH_ASSERT_OK_AND_ASSIGN(const std::string read, Read("k", {begin, end}));
      EXPECT_EQ(read, want) << begin << ", " << end;
    }
  }
  EXPECT_EQ(Read("k", {4}).value(), "456789");
  EXPECT_THAT(Read("none", {4, 5}), StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_P(ObjectStoreTest, ListsAreOrderedAndPaged) {
  EXPECT_TRUE(Keys("").empty());
  const std::vector<std::string> keys = {"a",        "d/1/c/x", "d/1/c/y", "d/1/m/0",
                                         "d/10/c/x", "d/2/c",   "d-1",     "e/f"};
  for (const std::string& key : keys) ASSERT_THAT(store().Put(key, key, deadline()), IsOk());
  std::vector<std::string> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(Keys(""), sorted);
  EXPECT_THAT(Keys("d/1/"), ElementsAre("d/1/c/x", "d/1/c/y", "d/1/m/0"));
  EXPECT_THAT(Keys("d/1"), ElementsAre("d/1/c/x", "d/1/c/y", "d/1/m/0", "d/10/c/x"));
  EXPECT_TRUE(Keys("x").empty());
  PH_ASSERT_OK_AND_ASSIGN(const ObjectList page, store().List("d/2", "", 0, deadline()));
  ASSERT_EQ(page.objects.size(), 1U);
  EXPECT_EQ(page.objects[0].num_bytes, 5U);
  EXPECT_GT(page.objects[0].modified, absl::UnixEpoch());
}

TEST_P(ObjectStoreTest, DeletedIsGone) {
  ASSERT_THAT(store().Put("a/b", "1", deadline()), IsOk());
  ASSERT_THAT(store().Put("a/c", "2", deadline()), IsOk());
  ASSERT_THAT(store().Delete("a/b", deadline()), IsOk());
  EXPECT_THAT(store().Delete("a/b", deadline()), IsOk());
  EXPECT_THAT(Read("a/b"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(Keys("a/"), ElementsAre("a/c"));
}

TEST_P(ObjectStoreTest, KeysThatAreNone) {
  for (const std::string& bad :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("../a"), std::string("a/./b"), std::string("a b"), std::string("a?b"),
        std::string("a\0b", 3), std::string(ObjectStore::kMaxKeyLength + 1, 'a')}) {
    EXPECT_THAT(store().Put(bad, "", deadline()), StatusIs(absl::StatusCode::kInvalidArgument, _));
    EXPECT_THAT(Read(bad), StatusIs(absl::StatusCode::kInvalidArgument, _));
    EXPECT_THAT(store().Delete(bad, deadline()), StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
  for (const auto& [prefix, after] : {std::pair{"../", ""}, std::pair{"", "../"}}) {
    EXPECT_THAT(store().List(prefix, after, 0, deadline()),
                StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
}

TEST_P(ObjectStoreTest, ASinkThatRefusesEndsTheCall) {
  ASSERT_THAT(store().Put("k", std::string(100'000, 'x'), deadline()), IsOk());
  int calls = 0;
  const auto refuse = [&](absl::string_view) -> absl::Status {
    ++calls;
    return absl::UnavailableError("the disk");
  };
  EXPECT_THAT(store().Get("k", {}, refuse, deadline()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the disk")));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(ReadObject(store(), "k", {}, 99'999, deadline()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("99999")));
}

TEST_P(ObjectStoreTest, NothingIsDoneAfterTheDeadline) {
  ASSERT_THAT(store().Put("k", "v", deadline()), IsOk());
  const absl::Time past = deadline() - absl::Hours(2);
  EXPECT_THAT(store().Put("k", "w", past), StatusIs(absl::StatusCode::kDeadlineExceeded, _));
  EXPECT_THAT(store().Delete("k", past), StatusIs(absl::StatusCode::kDeadlineExceeded, _));
  EXPECT_EQ(Read("k").value(), "v");
}

INSTANTIATE_TEST_SUITE_P(
    All, ObjectStoreTest,
    ::testing::Values(
        std::pair<const char*, MakeObjectWorld>("Fake",
                                                [] { return std::make_unique<FakeWorld>(); }),
        std::pair<const char*, MakeObjectWorld>("Faulty",
                                                [] { return std::make_unique<FaultyWorld>(); }),
        std::pair<const char*, MakeObjectWorld>("S3", [] { return std::make_unique<S3World>(); })),
    [](const auto& instance) { return std::string(instance.param.first); });

// What a try can mend, tries mend; the times between them double and end.
class RetryingTest : public ::testing::Test {
 protected:
  RetryingObjectStore Make(const RetryingObjectStore::Options& options) {
    return RetryingObjectStore(
        &fake_, &clock_,
        [this](absl::Duration delay) {
          delays_.push_back(delay);
          clock_.Advance(delay);
        },
        options);
  }

  SimulatedClock clock_;
  FakeObjectStore fake_{&clock_};
  std::vector<absl::Duration> delays_;
};

TEST(ObjectKeyTest, BoundsAndCharactersOfKeysAndPrefixes) {
  const std::string longest(ObjectStore::kMaxKeyLength, 'a');
  const auto refusal = [](absl::string_view what, absl::string_view shown) {
    return absl::InvalidArgumentError(
        absl::StrCat("object: ", what, " '", shown, "' is not 1 to ", ObjectStore::kMaxKeyLength,
                     " characters of [A-Za-z0-9_./-] without empty parts, '.' and '..'"));
  };
  for (const std::string& good :
       {longest, std::string("azAZ09_.-/..."), std::string("a/.b/c.."), std::string("-")}) {
    EXPECT_EQ(CheckObjectKey(good), absl::OkStatus()) << good;
    EXPECT_EQ(CheckObjectPrefix(good), absl::OkStatus()) << good;
  }
  // A prefix may end within a part, or before one.
  for (const std::string beginning : {"", "a/", "a/.", "a/..", ".", ".."}) {
    EXPECT_EQ(CheckObjectKey(beginning), refusal("key", beginning)) << beginning;
    EXPECT_EQ(CheckObjectPrefix(beginning), absl::OkStatus()) << beginning;
  }
  for (const std::string bad :
       {"/", "/a", "a//b", "./a", "a/../b", "a b", "a:", "a@", "a[", "a`"}) {
    EXPECT_EQ(CheckObjectKey(bad), refusal("key", bad)) << bad;
    EXPECT_EQ(CheckObjectPrefix(bad), refusal("prefix", bad)) << bad;
  }
  // Told as far as a key goes.
  EXPECT_EQ(CheckObjectKey(longest + "b"), refusal("key", longest));
  EXPECT_EQ(CheckObjectPrefix(longest + "b"), refusal("prefix", longest));
  EXPECT_EQ(CheckObjectKey("a\n"), refusal("key", "a\\n"));
}

TEST_F(RetryingTest, GivesUpAfterItsAttempts) {
  fake_.SetFaults({1, 0, 0, 0}, 1);
  RetryingObjectStore::Options options;
  options.max_attempts = 13;
  auto store = Make(options);
  EXPECT_THAT(store.Put("k", "v", clock_.Now() + absl::Hours(1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("tried 13 times")));
  ASSERT_EQ(delays_.size(), 12U);
  EXPECT_EQ(store.num_retries(), 12U);
  absl::Duration whole = options.first_delay;
  for (const absl::Duration delay : delays_) {
    EXPECT_GE(delay, whole / 2 - absl::Microseconds(1));
    EXPECT_LE(delay, whole);
    whole = std::min(2 * whole, options.longest_delay);
  }
}

TEST_F(RetryingTest, StopsAtTheDeadline) {
  fake_.SetFaults({1, 0, 0, 0}, 1);
  RetryingObjectStore::Options options;
  options.max_attempts = 1'000'000;
  auto store = Make(options);
  const absl::Time deadline = clock_.Now() + absl::Minutes(1);
  EXPECT_THAT(store.Delete("k", deadline), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_LE(clock_.Now(), deadline);
  EXPECT_GE(delays_.size(), 10U);
}

// A store that hangs is asked again before the call's own deadline.
TEST_F(RetryingTest, AnAttemptHasItsOwnDeadline) {
  fake_.SetFaults({0, 0, 0, 2}, 3);
  auto store = Make({});
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(store.Put(absl::StrCat(i), "v", clock_.Now() + absl::Hours(1)), IsOk());
  }
  EXPECT_GT(store.num_retries(), 10U);
}

// Who is gone is told of no further attempt; the call knows before each that it may wait.
TEST_F(RetryingTest, NobodyTriesForWhoIsGone) {
  fake_.SetFaults({1, 0, 0, 0}, 1);
  LeavingCaller caller;
  RetryingObjectStore::Options options;
  options.max_attempts = 100;
  int attempts = 1;
  RetryingObjectStore store(
      &fake_, &clock_,
      [&](absl::Duration) {
        if (++attempts == 3) caller.Leave();
      },
      options);
  const CallerScope scope(&caller);
  EXPECT_THAT(store.Delete("k", clock_.Now() + absl::Hours(1)),
              StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(caller.num_waits(), 3);
  {
    const CallerScope nobody(nullptr);
    EXPECT_THAT(store.Delete("k", clock_.Now() + absl::Hours(1)),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("tried 100 times")));
  }
}

// Fails after it has given all that was asked for; notes how much time each try had.
class UntilStore final : public ObjectStore {
 public:
  explicit UntilStore(const Clock* clock) : clock_(clock) {}
  absl::Status Put(absl::string_view, absl::string_view, absl::Time deadline) override {
    return Note(deadline);
  }
  absl::Status Get(absl::string_view, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    const absl::Status noted = Note(deadline);
    const absl::Status given =
        sink(std::string(range.is_whole() ? 7 : range.end - range.begin, 'g'));
    return given.ok() ? noted : given;
  }
  absl::StatusOr<ObjectList> List(absl::string_view, absl::string_view, size_t,
                                  absl::Time deadline) override {
    return Note(deadline);
  }
  absl::Status Delete(absl::string_view, absl::Time deadline) override { return Note(deadline); }

  std::vector<absl::Duration> times;

 private:
  absl::Status Note(absl::Time deadline) {
    times.push_back(deadline - clock_->Now());
    return absl::UnavailableError("away");
  }
  const Clock* const clock_;
};

// By what it has to send or to get; and never beyond that of the call.
TEST_F(RetryingTest, EachTryHasItsTime) {
  UntilStore until(&clock_);
  RetryingObjectStore::Options options;
  options.max_attempts = 1;
  RetryingObjectStore store(
      &until, &clock_, [](absl::Duration) { ADD_FAILURE(); }, options);
  const absl::Time later = clock_.Now() + absl::Hours(1);
  std::string got;
  const auto sink = [&](absl::string_view piece) {
    absl::StrAppend(&got, piece);
    return absl::OkStatus();
  };
  const auto away = StatusIs(absl::StatusCode::kUnavailable, "away (tried 1 times)");
  EXPECT_THAT(store.Put("k", std::string((3 << 20) + 5, 'p'), later), away);
  EXPECT_THAT(store.Delete("k", later), away);
  EXPECT_THAT(store.List("", "", 0, later), away);
  EXPECT_THAT(store.Get("k", {}, sink, later), away);
  EXPECT_THAT(store.Get("k", {5, 5 + (2 << 20)}, sink, later), away);
  EXPECT_THAT(store.Delete("k", clock_.Now() + absl::Seconds(3)), away);
  EXPECT_THAT(until.times,
              testing::ElementsAre(absl::Seconds(13), absl::Seconds(10), absl::Seconds(10),
                                   absl::Seconds(74), absl::Seconds(12), absl::Seconds(3)));
  EXPECT_EQ(got.size(), 7U + (2 << 20));
  // What has come is not asked for again, nor is what nobody wants.
  options.max_attempts = 3;
  RetryingObjectStore again(
      &until, &clock_, [](absl::Duration) {}, options);
  until.times.clear();
  EXPECT_THAT(again.Get("k", {5, 9}, sink, later), IsOk());
  EXPECT_EQ(until.times.size(), 1U);
  const auto refuse = [](absl::string_view) { return absl::UnavailableError("not wanted"); };
  EXPECT_THAT(again.Get("k", {}, refuse, later),
              StatusIs(absl::StatusCode::kUnavailable, "not wanted"));
  EXPECT_EQ(until.times.size(), 2U);
  EXPECT_THAT(again.Put("k", "v", clock_.Now()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("the time is over")));
  EXPECT_EQ(until.times.size(), 2U);
  // A pause that would take the rest of the time is none.
  options.first_delay = options.longest_delay = absl::Microseconds(2);
  RetryingObjectStore hasty(
      &until, &clock_, [this](absl::Duration delay) { clock_.Advance(delay); }, options);
  EXPECT_THAT(hasty.Put("k", "v", clock_.Now() + absl::Microseconds(1)),
              StatusIs(absl::StatusCode::kUnavailable, "away"));
  EXPECT_EQ(until.times.size(), 3U);
}

TEST_F(RetryingTest, WhatNoTryChangesIsToldAtOnce) {
  auto store = Make({});
  EXPECT_THAT(ReadObject(store, "none", {}, 10, clock_.Now() + absl::Hours(1)),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_TRUE(delays_.empty());
}

}  // namespace
}  // namespace packhouse
