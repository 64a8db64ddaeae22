#include "service/stores/datasets/store_prober.h"

#include <atomic>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

// It tries until a commit goes through, and leaves a store alone that can be written to.
TEST(StoreProberTest, TriesWhileCommitsFail) {
  absl::Mutex mutex;
  bool is_failing = false;
  int left = 3;
  int num_looks = 0;
  int num_tries = 0;
  const StoreProber prober(
      [&] {
        absl::MutexLock lock(&mutex);
        ++num_looks;
        return is_failing;
      },
      [&] {
        absl::MutexLock lock(&mutex);
        ++num_tries;
        is_failing = --left > 0;
      },
      absl::Milliseconds(1));
  const auto await_looks = [&](int count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const int until = num_looks + count;
    const auto looked = [&] { return num_looks >= until; };
    mutex.Await(absl::Condition(&looked));
  };
  absl::MutexLock lock(&mutex);
  await_looks(3);
  EXPECT_EQ(num_tries, 0);
  is_failing = true;
  await_looks(8);
  EXPECT_EQ(num_tries, 3);
  EXPECT_FALSE(is_failing);
}

}  // namespace
}  // namespace packhouse
