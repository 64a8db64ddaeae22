// When things were last used, while one of them is being removed.
#include "service/stores/limits/retention.h"

#include <new>
#include <optional>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;

class LastUsesTest : public ::testing::Test {
 protected:
  LastUsesTest() {
    uses_.Add("a");
    uses_.Add("b");
    now_ += absl::Hours(8);
  }
  // Whether it was unused for 8 hours, and is forgotten now.
  bool Goes(const std::string& name) {
    const auto unused = uses_.RemoveIfUnused(name, [] { return absl::OkStatus(); });
    EXPECT_THAT(unused, IsOk());
    return unused.ok() && unused->has_value();
  }

  const TemporaryFolder folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  LastUses uses_{folder_.path() + "/last_uses", *ParseRetention("8h"), [this] { return now_; },
                 [](absl::FunctionRef<void(const std::string&)>) {}};
};

// A removal takes as long as its files are large.
TEST_F(LastUsesTest, ARemovalHoldsUpItsOwnNameAlone) {
  absl::Mutex mutex;
  bool is_removing = false;
  bool other_was_used = false;
  bool same_was_used = false;
  std::thread user([&] {
    mutex.LockWhen(absl::Condition(&is_removing));
    mutex.Unlock();
    uses_.Use("b");
    {
      absl::MutexLock lock(&mutex);
      other_was_used = true;
    }
    uses_.Use("a");
    absl::MutexLock lock(&mutex);
    same_was_used = true;
  });
  const auto unused = uses_.RemoveIfUnused("a", [&] {
    absl::MutexLock lock(&mutex);
    is_removing = true;
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&other_was_used), absl::Seconds(30)));
    EXPECT_FALSE(mutex.AwaitWithTimeout(absl::Condition(&same_was_used), absl::Milliseconds(50)));
    return absl::OkStatus();
  });
  user.join();
  EXPECT_THAT(unused, IsOkAndHolds(std::optional(absl::Hours(8))));
  EXPECT_TRUE(same_was_used);
  EXPECT_EQ(uses_.num_expired(), 1U);
  EXPECT_FALSE(Goes("b"));
  // It was removed, and not used: what has its name now is another.
  EXPECT_FALSE(Goes("a"));
}

// One that fails, even without memory, lets the name go.
TEST_F(LastUsesTest, AFailedRemovalHoldsUpNobody) {
  EXPECT_THAT(uses_.RemoveIfUnused("a", [] { return absl::UnavailableError("disk"); }),
              StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THROW(
      uses_.RemoveIfUnused("b", []() -> absl::Status { throw std::bad_alloc(); }).IgnoreError(),
      std::bad_alloc);
  EXPECT_TRUE(Goes("b"));
  uses_.Use("a");
  EXPECT_FALSE(Goes("a"));
  EXPECT_EQ(uses_.num_expired(), 1U);
}

}  // namespace
}  // namespace packhouse
