// When things were last used, while one of them is being removed.
#include "service/stores/limits/retention.h"

#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/disk_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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

// What is gone was not removed now, and is forgotten. Of what is not known nothing is kept.
TEST_F(LastUsesTest, WhatIsNotThereIsForgotten) {
  uses_.Use("c");
  uses_.Forget("c");
  EXPECT_FALSE(Goes("c"));
  EXPECT_THAT(uses_.RemoveIfUnused("a", [] { return absl::NotFoundError("a"); }),
              IsOkAndHolds(std::nullopt));
  EXPECT_EQ(uses_.num_expired(), 0U);
  EXPECT_FALSE(Goes("a"));
  uses_.Forget("b");
  EXPECT_FALSE(Goes("b"));
}

// A store of three things.
struct ListedThing {
  enum class State { kSealed, kDamaged };
  std::string name;
  uint64_t id = 0;
  State state = State::kSealed;
  uint64_t num_bytes = 0;
};
struct ListedPage {
  std::vector<ListedThing> things;
  std::string next_page_token;
};
struct ListingStore {
  static constexpr size_t kMaxPageSize = 10;
  absl::StatusOr<ListedPage> List(size_t /*page_size*/, absl::string_view /*token*/) const {
    if (!list_error.ok()) return list_error;
    return ListedPage{{{"a", 1, ListedThing::State::kSealed, 10},
                       {"b", 2, ListedThing::State::kDamaged, 20},
                       {"c", 3, ListedThing::State::kSealed, 30},
                       {"d", 4, ListedThing::State::kSealed, 40}},
                      ""};
  }
  absl::Status Delete(const std::pair<std::string, uint64_t>& target) {
    if (target.first == "a" && !error.ok()) return error;
    deleted.push_back(target);
    return absl::OkStatus();
  }
  absl::Status list_error;
  absl::Status error;
  std::vector<std::pair<std::string, uint64_t>> deleted;
};

// A deletion that fails keeps no other from its own; a damaged thing stays, whatever its age.
TEST_F(LastUsesTest, ASweepGoesOnBehindAnError) {
  uses_.Add("c");
  uses_.Add("d");
  now_ += absl::Hours(9);
  uses_.Use("d");
  ListingStore store;
  store.error = absl::UnavailableError("a stays");
  std::vector<Expired> expired;
  const auto sweep = [&] { return DeleteUnused(store, &ListedPage::things, uses_, expired); };
  EXPECT_EQ(sweep(), store.error);
  EXPECT_THAT(store.deleted, ElementsAre(Pair("c", 3U)));
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].name, "c");
  EXPECT_EQ(expired[0].unused, absl::Hours(9));
  EXPECT_EQ(expired[0].num_bytes, 30U);
  store.error = absl::OkStatus();
  EXPECT_THAT(sweep(), IsOk());
  EXPECT_EQ(store.deleted.back(), (std::pair<std::string, uint64_t>("a", 1)));
  EXPECT_EQ(expired.size(), 2U);
  EXPECT_EQ(uses_.num_expired(), 2U);
  // "b" is known: it stays since it is damaged. The file is written.
  EXPECT_THAT(ReadWhole(folder_.path() + "/last_uses").value(), HasSubstr(" b\n0 c\n0 d\nend "));
  store.list_error = absl::UnavailableError("list");
  EXPECT_EQ(sweep(), store.list_error);
  // An error of the file is told, too.
  store.list_error = absl::OkStatus();
  std::filesystem::remove_all(folder_.path());
  EXPECT_FALSE(sweep().ok());
}

}  // namespace
}  // namespace packhouse
