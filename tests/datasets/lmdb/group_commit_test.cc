#include "service/stores/lmdb/group_commit.h"

#include <lmdb.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_status.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::Each;
using ::testing::ElementsAre;

class RecordingObserver final : public CommitObserver {
 public:
  void OnCommitBegin() override { ++begun; }
  void OnCommitEnd(const CommitSummary& summary) override {
    changes.push_back(summary.num_changes);
    durable.push_back(summary.is_durable);
    outcomes.push_back(summary.outcome ? summary.outcome->code()
                                       : std::optional<absl::StatusCode>());
    first_failures.push_back(summary.first_failure.code());
    change_bytes.push_back(summary.num_bytes);
    largest.push_back(summary.largest_change);
  }
  void OnStoreBytes(uint64_t bytes) override { num_bytes = bytes; }

  size_t begun = 0;
  std::vector<uint64_t> changes;
  std::vector<bool> durable;
  std::vector<std::optional<absl::StatusCode>> outcomes;
  std::vector<absl::StatusCode> first_failures;
  std::vector<uint64_t> change_bytes;
  std::vector<uint64_t> largest;
  uint64_t num_bytes = 0;
};

class GroupCommitTest : public ::testing::Test {
 protected:
  // Runs all changes so that they share one commit: a first one holds the disk until they wait.
  std::vector<absl::Status> RunTogether(const std::vector<GroupCommit::Change>& changes,
                                        uint64_t num_bytes = 1) {
    std::vector<absl::Status> statuses(changes.size());
    std::vector<std::thread> threads;
    const auto hold = [&](LmdbTransaction& transaction, StoreTotals&) {
      for (size_t i = 0; i < changes.size(); ++i) {
        threads.emplace_back([&, i] { statuses[i] = commits_.Run(changes[i], num_bytes); });
        while (commits_.num_waiting() != i + 1) std::this_thread::yield();
      }
      return transaction.Put("hold", "");
    };
    EXPECT_THAT(commits_.Run(hold, 1), IsOk());
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  bool Has(absl::string_view key) {
    const auto transaction =
        LmdbTransaction::Begin(*environment_, LmdbTransaction::Kind::kRead).value();
    return transaction.Get(key).value().has_value();
  }

  TemporaryFolder folder_;
  RecordingObserver observer_;
  std::unique_ptr<LmdbEnvironment> environment_ =
      LmdbEnvironment::Open(folder_.path(), uint64_t{1} << 28).value();
  GroupCommit commits_{environment_.get(), &observer_};
};

TEST_F(GroupCommitTest, WhoeverWaitsSharesOneCommit) {
  const auto put = [](absl::string_view key) {
    return [key](LmdbTransaction& transaction, StoreTotals& totals) {
      totals.num_bytes += 10;
      return transaction.Put(key, "value");
    };
  };
  const auto a = put("a");
  const auto b = put("b");
  const auto c = put("c");
  EXPECT_THAT(RunTogether({a, b, c}), ElementsAre(IsOk(), IsOk(), IsOk()));
  EXPECT_THAT(observer_.changes, ElementsAre(1, 3));
  EXPECT_THAT(observer_.durable, ElementsAre(true, true));
  EXPECT_EQ(observer_.begun, 2U);
  EXPECT_EQ(observer_.num_bytes, 30U);
  EXPECT_EQ(commits_.totals().num_bytes, 30U);
  EXPECT_TRUE(Has("a") && Has("b") && Has("c") && Has("hold"));
}

// As many as fit share one: by their bytes and by their number. A larger one has its own.
TEST_F(GroupCommitTest, ACommitIsBounded) {
  const auto put = [](LmdbTransaction& transaction, StoreTotals&) {
    return transaction.Put("key", "value");
  };
  const std::vector<GroupCommit::Change> four(4, put);
  constexpr uint64_t kMost = GroupCommit::kMaxBytes;
  EXPECT_THAT(RunTogether(four, kMost / 2), Each(IsOk()));
  EXPECT_THAT(observer_.changes, ElementsAre(1, 2, 2));
  EXPECT_THAT(observer_.change_bytes, ElementsAre(1, kMost, kMost));
  EXPECT_THAT(observer_.largest, ElementsAre(1, kMost / 2, kMost / 2));
  observer_.changes.clear();
  EXPECT_THAT(RunTogether(four, kMost / 2 + 1), Each(IsOk()));
  EXPECT_THAT(observer_.changes, ElementsAre(1, 1, 1, 1, 1));
  observer_.changes.clear();
  EXPECT_THAT(RunTogether({put, put}, kMost + 1), Each(IsOk()));
  EXPECT_THAT(observer_.changes, ElementsAre(1, 1, 1));
  observer_.changes.clear();
  const std::vector<GroupCommit::Change> many(GroupCommit::kMaxChanges + 1, put);
  EXPECT_THAT(RunTogether(many), Each(IsOk()));
  EXPECT_THAT(observer_.changes, ElementsAre(1, GroupCommit::kMaxChanges, 1));
}

// One that fails takes nobody with it, whether it had begun to write or not, and leaves nothing.
TEST_F(GroupCommitTest, AFailureIsTheFailingOnesAlone) {
  const auto good = [](LmdbTransaction& transaction, StoreTotals& totals) {
    totals.num_bytes += 1;
    return transaction.Put("good", "value");
  };
  const auto refused = [](LmdbTransaction&, StoreTotals& totals) {
    totals.num_bytes += 100;
    return absl::NotFoundError("refused");
  };
  const auto broken = [](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    totals.num_bytes += 1000;
    PH_RETURN_IF_ERROR(transaction.Put("broken", "value"));
    return absl::ResourceExhaustedError("broken");
  };
  const auto late = [](LmdbTransaction& transaction, StoreTotals& totals) {
    totals.num_bytes += 2;
    return transaction.Put("late", "value");
  };
  EXPECT_THAT(RunTogether({good, refused, late}),
              ElementsAre(IsOk(), StatusIs(absl::StatusCode::kNotFound, _), IsOk()));
  EXPECT_EQ(commits_.totals().num_bytes, 3U);
  EXPECT_THAT(observer_.changes, ElementsAre(1, 2));
  EXPECT_THAT(RunTogether({good, broken, refused, late}),
              ElementsAre(IsOk(), StatusIs(absl::StatusCode::kResourceExhausted, _),
                          StatusIs(absl::StatusCode::kNotFound, _), IsOk()));
  EXPECT_EQ(commits_.totals().num_bytes, 6U);
  EXPECT_TRUE(Has("good") && Has("late"));
  EXPECT_FALSE(Has("broken"));
}

// Who watches is told whether the disk takes what is written; what callers do wrong, and commits in
// which nothing was written, say nothing of it.
TEST_F(GroupCommitTest, TheOutcomeIsTheDisksAlone) {
  const auto put = [](LmdbTransaction& transaction, StoreTotals&) {
    return transaction.Put("key", "value");
  };
  const auto nothing = [](LmdbTransaction&, StoreTotals&) { return absl::OkStatus(); };
  const auto refused = [](LmdbTransaction&, StoreTotals&) { return absl::NotFoundError("x"); };
  const auto full = [](LmdbTransaction&, StoreTotals&) {
    return absl::ResourceExhaustedError("x");
  };
  EXPECT_THAT(commits_.Run(put, 1), IsOk());
  EXPECT_THAT(commits_.Run(nothing, 1), IsOk());
  EXPECT_THAT(commits_.Run(refused, 1), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(commits_.Run(full, 1), StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_THAT(observer_.outcomes,
              ElementsAre(absl::StatusCode::kOk, std::nullopt, std::nullopt, std::nullopt));
  EXPECT_THAT(observer_.first_failures,
              ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kOk, absl::StatusCode::kOk,
                          absl::StatusCode::kResourceExhausted));
}

// What is the store's own is told to who watches; what its callers do wrong is not.
TEST_F(GroupCommitTest, FailuresOfTheStoreAreTold) {
  const std::set<absl::StatusCode> of_store = {
      absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnavailable,
      absl::StatusCode::kDataLoss, absl::StatusCode::kInternal};
  for (int number = 1; number <= 16; ++number) {
    const auto code = static_cast<absl::StatusCode>(number);
    observer_ = {};
    const auto fails = [&](LmdbTransaction&, StoreTotals&) { return absl::Status(code, "why"); };
    EXPECT_THAT(commits_.Run(fails, 1), StatusIs(code, "why"));
    EXPECT_THAT(observer_.first_failures,
                ElementsAre(of_store.contains(code) ? code : absl::StatusCode::kOk));
  }
}

TEST_F(GroupCommitTest, ManyThreadsEachGetTheirOwn) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 25; ++i) {
        const std::string key = absl::StrCat("k", thread, "/", i);
        const auto put = [&](LmdbTransaction& transaction, StoreTotals& totals) {
          totals.num_bytes += 1;
          return transaction.Put(key, key);
        };
        ASSERT_THAT(commits_.Run(put, key.size()), IsOk());
        ASSERT_TRUE(Has(key));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(commits_.totals().num_bytes, 200U);
}

// The code says what the caller does next, and the message what failed.
TEST(LmdbStatusTest, EachCodeHasItsStatus) {
  using Code = absl::StatusCode;
  const TemporaryFolder folder;
  for (const auto& [code, status] : std::vector<std::pair<int, Code>>{
           {ENOSPC, Code::kResourceExhausted},
           {EDQUOT, Code::kResourceExhausted},
           {EFBIG, Code::kResourceExhausted},
           {ENOMEM, Code::kResourceExhausted},
           {MDB_TXN_FULL, Code::kResourceExhausted},
           {MDB_READERS_FULL, Code::kResourceExhausted},
           {MDB_MAP_FULL, Code::kResourceExhausted},
           {MDB_PANIC, Code::kUnavailable},
           {EIO, Code::kUnavailable},
           {EROFS, Code::kUnavailable},
           {EMFILE, Code::kUnavailable},
           {MDB_CORRUPTED, Code::kDataLoss},
           {MDB_PAGE_NOTFOUND, Code::kDataLoss},
           {MDB_INVALID, Code::kDataLoss},
           {MDB_VERSION_MISMATCH, Code::kFailedPrecondition},
           {EBUSY, Code::kFailedPrecondition},
           {MDB_BAD_TXN, Code::kInternal},
       }) {
    EXPECT_EQ(LmdbStatus(code, "cannot look", folder.path(), 77),
              absl::Status(status, absl::StrCat("store '", folder.path(),
                                                "': cannot look: ", mdb_strerror(code),
                                                code == MDB_MAP_FULL ? ", of 77 bytes" : "")));
  }
  EXPECT_THAT(LmdbStatus(0, "cannot look", folder.path(), 77), IsOk());
  // A short write is what a disk that becomes full does.
  const SmallDisk disk(size_t{1} << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  EXPECT_EQ(LmdbStatus(EIO, "cannot look", disk.path(), 77),
            absl::ResourceExhaustedError(
                absl::StrCat("store '", disk.path(),
                             "': cannot look: no space left on the disk, 1048576 bytes are free")));
}

// What nobody waits for runs on its own thread only, and though there are always others, its turn
// comes after a few commits.
TEST(GroupCommitBehindTest, ItsTurnComesOnItsOwnThread) {
  class Counting final : public CommitObserver {
   public:
    void OnCommitBegin() override { ++begun; }
    void OnCommitEnd(const CommitSummary&) override {}
    void OnStoreBytes(uint64_t) override {}
    std::atomic<size_t> begun = 0;
  };
  TemporaryFolder folder;
  Counting observer;
  const auto environment = LmdbEnvironment::Open(folder.path(), uint64_t{1} << 28).value();
  GroupCommit commits(environment.get(), &observer);
  std::atomic<bool> is_done = false;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const auto put = [&](LmdbTransaction& transaction, StoreTotals&) {
        return transaction.Put(absl::StrCat("k", thread), "value");
      };
      while (!is_done) ASSERT_THAT(commits.Run(put, 1), IsOk());
    });
  }
  const std::thread::id own = std::this_thread::get_id();
  for (int i = 0; i < 50; ++i) {
    const size_t begun = observer.begun;
    std::thread::id ran_on;
    size_t ran_in = 0;
    ASSERT_THAT(commits.RunBehind([&](LmdbTransaction& transaction, StoreTotals&) {
      ran_on = std::this_thread::get_id();
      ran_in = observer.begun;
      return transaction.Put("behind", "value");
    }),
                IsOk());
    EXPECT_EQ(ran_on, own);
    // One may have begun before it asked; its own is the last.
    EXPECT_LE(ran_in - begun, GroupCommit::kCommitsBetween + 2);
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
  const auto transaction =
      LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kRead).value();
  EXPECT_TRUE(transaction.Get("behind").value().has_value());
}

}  // namespace
}  // namespace packhouse
