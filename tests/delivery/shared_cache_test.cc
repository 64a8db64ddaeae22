#include "service/delivery/shared_cache.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using Cache = SharedCache<int>;

absl::StatusOr<Cache::Pointer> Make(int value) { return std::make_shared<const int>(value); }

TEST(SharedCacheTest, KeepsTheLatestAndWhatIsHeld) {
  Cache cache(2);
  int made = 0;
  const auto get = [&](int value) {
    return cache.Get(absl::StrCat("key ", value), [&] { return ++made, Make(value); }).value();
  };
  const Cache::Pointer held = get(0);
  for (int value = 1; value < 50; ++value) EXPECT_EQ(*get(value), value);
  EXPECT_EQ(made, 50);
  EXPECT_EQ(get(0), held);
  get(49);
  get(48);
  EXPECT_EQ(made, 50);
  get(1);
  EXPECT_EQ(made, 51);
}

TEST(SharedCacheTest, ErrorsAreNotKept) {
  Cache cache(2);
  EXPECT_THAT(cache.Get("key",
                        []() -> absl::StatusOr<Cache::Pointer> {
                          return absl::UnavailableError("not now");
                        }),
              StatusIs(absl::StatusCode::kUnavailable, "not now"));
  EXPECT_EQ(*cache.Get("key", [] { return Make(7); }).value(), 7);
}

TEST(SharedCacheTest, DropsByPrefix) {
  Cache cache(8);
  std::weak_ptr<const int> a = *cache.Get("a/1", [] { return Make(1); });
  std::weak_ptr<const int> b = *cache.Get("b/1", [] { return Make(2); });
  cache.Drop("a/");
  EXPECT_TRUE(a.expired());
  EXPECT_FALSE(b.expired());
}

// A value that is dropped while it is made is for who waits for it; it is not kept, and not found.
TEST(SharedCacheTest, WhatIsDroppedInTheMakingIsNotKept) {
  Cache cache(8);
  PH_ASSERT_OK_AND_ASSIGN(Cache::Pointer held, cache.Get("a/1", [&] {
    cache.Drop("a/");
    return Make(1);
  }));
  EXPECT_EQ(*held, 1);
  PH_ASSERT_OK_AND_ASSIGN(const Cache::Pointer anew, cache.Get("a/1", [] { return Make(2); }));
  EXPECT_EQ(*anew, 2);
  const std::weak_ptr<const int> dropped = held;
  held = nullptr;
  EXPECT_TRUE(dropped.expired());
}

TEST(SharedCacheTest, ManyWhoAskAtOnceShareOneValue) {
  Cache cache(4);
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int key = 0; key < 64; ++key) {
        const auto value =
            cache.Get(absl::StrCat(key % 16), [&] { return ++made, Make(key % 16); });
        EXPECT_EQ(**value, key % 16);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(made, 16);
}

}  // namespace
}  // namespace packhouse
