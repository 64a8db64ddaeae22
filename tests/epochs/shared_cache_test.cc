#include "service/engine/epochs/shared_cache.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// A value takes as many bytes as it says.
using Cache = SharedCache<int>;

constexpr uint64_t kAll = UINT64_MAX;

Cache CacheOf(uint64_t kept_bytes) {
  return Cache(kept_bytes, [](int value) { return static_cast<uint64_t>(value); });
}

bool Never() { return false; }

absl::StatusOr<Cache::Pointer> Make(int value) { return std::make_shared<const int>(value); }

absl::StatusOr<Cache::Pointer> Get(Cache& cache, const std::string& key, int value) {
  return cache.Get(key, Never, [&] { return Make(value); });
}

// Whether the cache has it.
bool Has(Cache& cache, const std::string& key) {
  const auto found = cache.Get(key, Never, []() -> absl::StatusOr<Cache::Pointer> {
    return absl::NotFoundError("not there");
  });
  return found.ok();
}

TEST(SharedCacheTest, KeepsWhatWasUsedLastUpToItsBytes) {
  Cache cache = CacheOf(100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(**Get(cache, absl::StrCat("key ", i), 10), 10);
    EXPECT_LE(cache.unused_bytes(), 100);
  }
  // Used again, a value is the last to go.
  EXPECT_TRUE(Has(cache, "key 10"));
  EXPECT_THAT(Get(cache, "key 20", 50), IsOk());
  EXPECT_EQ(cache.unused_bytes(), 100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Has(cache, absl::StrCat("key ", i)), i == 10 || i > 15) << i;
  }
  // What is larger than all that may be kept is gone at once.
  EXPECT_THAT(Get(cache, "large", 101), IsOk());
  EXPECT_FALSE(Has(cache, "large"));
}

TEST(SharedCacheTest, WhatIsUsedStaysWhateverItTakes) {
  Cache cache = CacheOf(100);
  std::vector<Cache::Pointer> used;
  for (int i = 0; i < 20; ++i) used.push_back(*Get(cache, absl::StrCat("key ", i), 1000));
  EXPECT_EQ(cache.unused_bytes(), 0);
  EXPECT_FALSE(cache.ForgetOldest());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*Get(cache, absl::StrCat("key ", i), 7), used[i]);
  const std::weak_ptr<const int> first = used[0];
  used.erase(used.begin());
  EXPECT_TRUE(first.expired());
}

TEST(SharedCacheTest, ForgetsTheOldestOfTheUnused) {
  Cache cache = CacheOf(kAll);
  const Cache::Pointer used = *Get(cache, "used", 1);
  for (const char* key : {"a", "b", "c"}) EXPECT_THAT(Get(cache, key, 1), IsOk());
  EXPECT_TRUE(Has(cache, "a"));
  EXPECT_TRUE(cache.ForgetOldest());
  EXPECT_FALSE(Has(cache, "b"));
  EXPECT_TRUE(cache.ForgetOldest());
  EXPECT_FALSE(Has(cache, "c"));
  EXPECT_TRUE(cache.ForgetOldest());
  EXPECT_FALSE(cache.ForgetOldest());
  EXPECT_TRUE(Has(cache, "used"));
}

TEST(SharedCacheTest, ValuesMayOutliveTheCache) {
  Cache::Pointer used;
  {
    Cache cache = CacheOf(kAll);
    used = *Get(cache, "key", 1);
  }
  EXPECT_EQ(*used, 1);
}

TEST(SharedCacheTest, ErrorsAreNotKept) {
  Cache cache = CacheOf(kAll);
  EXPECT_THAT(cache.Get("key", Never,
                        []() -> absl::StatusOr<Cache::Pointer> {
                          return absl::UnavailableError("not now");
                        }),
              StatusIs(absl::StatusCode::kUnavailable, "not now"));
  EXPECT_EQ(**Get(cache, "key", 7), 7);
}

TEST(SharedCacheTest, DropsByPrefix) {
  Cache cache = CacheOf(kAll);
  EXPECT_THAT(Get(cache, "a/1", 1), IsOk());
  EXPECT_THAT(Get(cache, "b/1", 1), IsOk());
  std::weak_ptr<const int> used = *Get(cache, "a/2", 2);
  const Cache::Pointer held = used.lock();
  cache.Drop("a/");
  EXPECT_FALSE(Has(cache, "a/1"));
  EXPECT_TRUE(Has(cache, "b/1"));
  // Made anew, though the old one is still used.
  EXPECT_EQ(**Get(cache, "a/2", 3), 3);
}

// A value that is dropped while it is made is for who waits for it; it is not kept, and not found.
TEST(SharedCacheTest, WhatIsDroppedInTheMakingIsNotKept) {
  Cache cache = CacheOf(kAll);
  PH_ASSERT_OK_AND_ASSIGN(Cache::Pointer held, cache.Get("a/1", Never, [&] {
    cache.Drop("a/");
    return Make(1);
  }));
  EXPECT_EQ(*held, 1);
  PH_ASSERT_OK_AND_ASSIGN(const Cache::Pointer anew, Get(cache, "a/1", 2));
  EXPECT_EQ(*anew, 2);
  const std::weak_ptr<const int> dropped = held;
  held = nullptr;
  EXPECT_TRUE(dropped.expired());
}

TEST(SharedCacheTest, WhoWaitsMayLeaveAndTheMakerGoesOn) {
  Cache cache = CacheOf(kAll);
  absl::Notification left;
  absl::Notification making;
  std::thread maker([&] {
    const auto made = cache.Get("key", Never, [&] {
      making.Notify();
      left.WaitForNotification();
      return Make(1);
    });
    EXPECT_THAT(made, IsOk());
  });
  making.WaitForNotification();
  EXPECT_THAT(cache.Get(
                  "key", [] { return true; }, [] { return Make(2); }),
              StatusIs(absl::StatusCode::kCancelled, "given up by the caller"));
  left.Notify();
  maker.join();
  EXPECT_EQ(**Get(cache, "key", 3), 1);
}

// How the first one ends who makes a value, while another waits: what the other gets.
absl::StatusOr<Cache::Pointer> WaitingFor(
    Cache& cache, const std::function<absl::StatusOr<Cache::Pointer>()>& end) {
  absl::Notification making;
  absl::Notification waits;
  std::thread maker([&] {
    cache
        .Get("key", Never,
             [&] {
               making.Notify();
               waits.WaitForNotification();
               return end();
             })
        .IgnoreError();
  });
  making.WaitForNotification();
  auto found = cache.Get(
      "key",
      [&] {
        if (!waits.HasBeenNotified()) waits.Notify();
        return false;
      },
      [] { return Make(2); });
  maker.join();
  return found;
}

TEST(SharedCacheTest, WhoWaitsGetsWhatTheOtherMakes) {
  Cache cache = CacheOf(kAll);
  EXPECT_EQ(**WaitingFor(cache, [] { return Make(1); }), 1);
}

TEST(SharedCacheTest, WhoWaitsGetsTheErrorOfTheOther) {
  Cache cache = CacheOf(kAll);
  EXPECT_THAT(WaitingFor(cache,
                         []() -> absl::StatusOr<Cache::Pointer> {
                           return absl::ResourceExhaustedError("too large");
                         }),
              StatusIs(absl::StatusCode::kResourceExhausted, "too large"));
}

TEST(SharedCacheTest, WhoWaitsMakesItIfTheOtherGivesUp) {
  Cache cache = CacheOf(kAll);
  EXPECT_EQ(**WaitingFor(cache,
                         []() -> absl::StatusOr<Cache::Pointer> {
                           return absl::CancelledError("its client has left");
                         }),
            2);
}

// Clients that come and go, values that are dropped and forgotten: one makes a value at a time,
// nobody waits for ever, and nobody is told that it was given up whose client has not gone.
TEST(SharedCacheTest, ManyWhoAskAtOnceShareWhatOneMakes) {
  constexpr int kKeys = 3;
  constexpr int kThreads = 8;
  Cache cache = CacheOf(2);
  std::atomic<int> making[kKeys] = {};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(thread);
      for (int i = 0; i < 300; ++i) {
        const auto key = static_cast<int>(random.Below(kKeys));
        if (random.Below(16) == 0) cache.ForgetOldest();
        uint64_t patience = random.Below(4);
        bool has_left = false;
        const auto is_cancelled = [&] {
          if (patience-- == 0) has_left = true;
          if (has_left) patience = 0;
          return has_left;
        };
        const auto value =
            cache.Get(absl::StrCat(key), is_cancelled, [&]() -> absl::StatusOr<Cache::Pointer> {
              EXPECT_EQ(making[key].fetch_add(1), 0);
              const bool gone = is_cancelled();
              std::this_thread::yield();
              EXPECT_EQ(making[key].fetch_sub(1), 1);
              if (gone) return absl::CancelledError("left");
              return Make(key + 1);
            });
        EXPECT_EQ(value.ok(), !has_left);
        if (value.ok()) {
          EXPECT_EQ(**value, key + 1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.unused_bytes(), 2);
}

}  // namespace
}  // namespace packhouse
