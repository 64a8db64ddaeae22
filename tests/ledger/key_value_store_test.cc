// The laws of transactions, of changes that several servers race for, and of the cluster's life,
// over keys in memory.
#include "service/stores/keys/key_value_store.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/caller.h"
#include "service/base/status_macros.h"
#include "service/stores/keys/cluster_life.h"
#include "service/stores/keys/shared_change.h"
#include "service/stores/logs/logged_keys.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(TransactionTest, IsTakenUpToItsBounds) {
  Transaction most;
  for (size_t i = 0; i < Transaction::kMaxOperations; ++i) {
    most.then.push_back(Operation::Put(absl::StrCat("k", i), ""));
    most.otherwise.push_back(Operation::Put(absl::StrCat("k", i), ""));
    most.compares.push_back(Compare::Absent(absl::StrCat("k", i)));
  }
  size_t key_bytes = 0;
  for (const Operation& step : most.then) key_bytes += step.range.begin.size();
  EXPECT_EQ(most.NumBytes(), 3 * key_bytes + 3 * 128 * Transaction::kBytesPerOperation);
  const auto refused = [](const Transaction& transaction, const char* why) {
    EXPECT_THAT(transaction.Check(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  EXPECT_THAT(most.Check(), IsOk());
  Transaction more = most;
  more.compares.push_back(Compare::Absent("x"));
  refused(more, "129 compares, at most 128");
  more = most;
  more.then.push_back(Operation::Read(KeyRange::Of("x")));
  refused(more, "129 steps, at most 128");
  more = most;
  more.otherwise.push_back(Operation::Read(KeyRange::Of("x")));
  refused(more, "129 steps, at most 128");
  // Every byte counts: of values, of both ends of a range, of what is compared.
  more = most;
  more.then[0].value.resize(Transaction::kMaxBytes - most.NumBytes());
  EXPECT_THAT(more.Check(), IsOk());
  more.compares[0] = Compare::Value("k0", "v");
  refused(more, "transaction: 1572865 bytes, at most 1572864");
  more.compares[0] = Compare::Absent("k01");
  refused(more, "1572865 bytes");
  more.compares[0] = Compare::Absent("k0");
  more.otherwise[0].range = KeyRange{"k0", "l"};
  more.otherwise[0].kind = Operation::Kind::kRead;
  refused(more, "1572865 bytes");

  refused({{}, {Operation::Put("", "v")}, {}}, "a key is empty");
  refused({{}, {}, {Operation::Put("", "v")}}, "a key is empty");
  refused({{Compare::Absent("")}, {}, {}}, "a key is empty");
  refused({{}, {Operation::Put("k", "1"), Operation::Put("k", "2")}, {}}, "'k' is put twice");
  refused({{}, {Operation::Delete({"a", "l"}), Operation::Put("k", "2")}, {}},
          "'k' is put and deleted");
  refused({{}, {Operation::Put("k", "2"), Operation::Delete(KeyRange::Of("k"))}, {}},
          "'k' is put and deleted");
  EXPECT_THAT(Transaction({{},
                           {Operation::Put("k", "2"), Operation::Delete({"a", "k"}),
                            Operation::Delete(KeyRange::Of("ka")), Operation::Delete({"l", "m"}),
                            Operation::Read({"a", "z"})},
                           {Operation::Put("k", "3")}})
                  .Check(),
              IsOk());
}

TEST(TransactionTest, KnowsWhetherItChangesSomething) {
  const Operation read = Operation::Read(KeyRange::Of("k"));
  const Operation put = Operation::Put("k", "v");
  const Operation erase = Operation::Delete(KeyRange::Of("k"));
  EXPECT_FALSE(Transaction({{Compare::Absent("k")}, {read}, {read}}).ChangesSomething());
  for (const Operation& change : {put, erase}) {
    EXPECT_TRUE(Transaction({{}, {read, change}, {}}).ChangesSomething());
    EXPECT_TRUE(Transaction({{}, {}, {read, change}}).ChangesSomething());
  }
}

TEST(KeyRangeTest, APrefixHasItsKeysAlone) {
  for (const std::string prefix : {"a/", "a\xff", "a\xff\xff"}) {
    const KeyRange range = KeyRange::Prefix(prefix);
    EXPECT_TRUE(range.Contains(prefix));
    EXPECT_TRUE(range.Contains(prefix + "\xff"));
    EXPECT_FALSE(range.Contains(prefix.substr(0, prefix.size() - 1)));
    EXPECT_FALSE(range.Contains("b"));
  }
  EXPECT_FALSE(KeyRange::Prefix("a/").Contains("a0"));
  EXPECT_TRUE(KeyRange::Of("a").Contains("a"));
  EXPECT_FALSE(KeyRange::Of("a").Contains("aa"));
}

// Of a store that drops the state that is being read.
class DroppingKeys final : public KeyStore {
 public:
  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    if (revision != 0 && num_drops > 0) {
      --num_drops;
      return absl::OutOfRangeError("dropped");
    }
    if (revision != 0 && !error.ok()) return error;
    return keys->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    return keys->Commit(transaction);
  }

  const std::unique_ptr<LoggedKeys> keys = LoggedKeys::InMemory();
  int num_drops = 0;
  absl::Status error;
};

TEST(ReadAllTest, BeginsAgainWhenItsStateIsDropped) {
  DroppingKeys keys;
  for (const char* const key : {"k1", "k2", "k3"}) {
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(key, "v")}, {}}), IsOk());
  }
  const auto read = [&] { return keys.ReadAll(KeyRange::Prefix("k"), 2); };
  for (const int num_drops : {0, 1, 9}) {
    keys.num_drops = num_drops;
    PH_ASSERT_OK_AND_ASSIGN(const RangeResult all, read());
    ASSERT_THAT(all.values, SizeIs(3)) << num_drops;
    EXPECT_EQ(all.values[0].key, "k1");
    EXPECT_EQ(all.revision, 4U);
    EXPECT_EQ(keys.num_drops, 0);
  }
  keys.num_drops = 10;
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kUnavailable, "dropped"));
  EXPECT_EQ(keys.num_drops, 0);
  keys.error = absl::PermissionDeniedError("no");
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kPermissionDenied, "no"));
}

// Others put `key` before each of the first commits; some commits fail.
class RacedKeys final : public KeyStore {
 public:
  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    return keys->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    ++num_commits;
    if (num_lost > 0) {
      --num_lost;
      EXPECT_THAT(keys->Commit({{}, {Operation::Put("k", "others")}, {}}), IsOk());
    }
    if (!errors.empty()) {
      const absl::Status error = errors.front();
      errors.erase(errors.begin());
      if (!error.ok()) return error;
    }
    return keys->Commit(transaction);
  }

  const std::unique_ptr<LoggedKeys> keys = LoggedKeys::InMemory();
  int num_lost = 0;
  int num_commits = 0;
  std::vector<absl::Status> errors;
};

class SharedChangesTest : public ::testing::Test {
 protected:
  // Puts "mine".
  absl::Status Put() {
    return changes_.Make(
        keys_, "the thing",
        [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
          told_.push_back(may_be_done);
          if (!next_.ok()) return next_;
          PH_ASSIGN_OR_RETURN(const auto now, keys_.Get("k"));
          return Transaction{{Compare::ModRevision("k", now ? now->mod_revision : 0)},
                             {Operation::Put("k", "mine")},
                             {}};
        },
        [&](const TransactionResult& result) { done_.push_back(result.revision); });
  }

  RacedKeys keys_;
  absl::Status next_;
  std::vector<absl::Duration> pauses_;
  std::vector<bool> told_;
  std::vector<Revision> done_;
  SharedChanges changes_{"replica", [this](absl::Duration pause) { pauses_.push_back(pause); }};
};

// Pauses double up to the longest, each somewhere in its second half.
TEST_F(SharedChangesTest, TriesAgainWhereOthersWereFaster) {
  keys_.num_lost = 20;
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(done_, ElementsAre(22));
  EXPECT_EQ(keys_.Get("k").value()->value, "mine");
  ASSERT_THAT(pauses_, SizeIs(20));
  absl::Duration longest = SharedChanges::kFirstPause;
  for (const absl::Duration pause : pauses_) {
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    longest = std::min(2 * longest, SharedChanges::kLongestPause);
  }
  EXPECT_GT(std::set<absl::Duration>(pauses_.begin() + 10, pauses_.end()).size(), 1U);
}

TEST_F(SharedChangesTest, GivesUpAfterItsRaces) {
  keys_.num_lost = 1000;
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnavailable,
                              "the thing: other servers are faster; try again"));
  EXPECT_EQ(keys_.num_commits, SharedChanges::kRaces);
  EXPECT_THAT(done_, IsEmpty());
  // One of them may have been done.
  keys_.errors = {absl::UnknownError("lost")};
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnavailable,
                              HasSubstr("not known whether the change is stored: other servers")));
}

TEST_F(SharedChangesTest, SaysWhetherItMayBeDone) {
  const absl::Status lost = absl::UnknownError("lost");
  const auto not_known = StatusIs(absl::StatusCode::kUnavailable,
                                  HasSubstr("the thing: it is not known whether the change is "));
  keys_.errors = {lost, lost, lost};
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(told_, ElementsAre(false, true, true, true));
  // Nobody else was faster.
  EXPECT_THAT(pauses_, IsEmpty());
  keys_.errors = {lost, lost, lost, lost};
  EXPECT_THAT(Put(), not_known);
  EXPECT_THAT(keys_.errors, IsEmpty());
  // What is refused now may have been done before.
  const absl::Status full = absl::ResourceExhaustedError("full");
  keys_.errors = {lost, full};
  EXPECT_THAT(Put(), not_known);
  keys_.errors = {full};
  EXPECT_EQ(Put(), full);
  // The same of what the next transaction needs.
  next_ = absl::UnavailableError("away");
  EXPECT_EQ(Put(), next_);
  next_ = absl::NotFoundError("gone");
  EXPECT_EQ(Put(), next_);
}

TEST_F(SharedChangesTest, EndsWithItsCaller) {
  LeavingCaller caller;
  changes_.sleep = [&](absl::Duration) { caller.Leave(); };
  keys_.num_lost = 5;
  const CallerScope scope(&caller);
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(keys_.num_commits, 1);
}

// A life is seconds since 1970, with or without more behind them.
TEST(LivingStoreTest, ALifeBeginsWithItsSeconds) {
  const SimulatedClock clock;
  FakeKeyValueServers servers(&clock);
  const auto join = [&](const std::string& life) {
    FakeConnection connection(&servers);
    EXPECT_THAT(connection.Commit({{}, {Operation::Put(kClusterLifeKey, life)}, {}}), IsOk());
    return LivingStore::Join(std::make_unique<FakeConnection>(&servers));
  };
  const std::string padded = "1000000000" + std::string(54, 'x');
  for (const auto& [life, began] :
       std::vector<std::pair<std::string, uint64_t>>{{"1000000000", 1'000'000'000},
                                                     {"4294967295", 4'294'967'295},
                                                     {"1900000000-again", 1'900'000'000},
                                                     {padded, 1'000'000'000}}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, join(life));
    EXPECT_EQ(store->began(), began) << life;
    EXPECT_THAT(store->Commit({{}, {Operation::Put("k", "v")}, {}}), IsOk());
  }
  for (const std::string& life : {std::string("999999999"), std::string("4294967296"),
                                  std::string("x1900000000"), padded + "x"}) {
    EXPECT_THAT(join(life), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(life)));
  }
  // Once it is over nothing is asked any more.
  const auto before = *join("1900000000");
  ASSERT_THAT(join("1900000001"), IsOk());
  const Transaction read = {{Compare::Absent("none")}, {Operation::Read(KeyRange::Of("k"))}, {}};
  EXPECT_THAT(before->Commit(read), StatusIs(absl::StatusCode::kUnavailable,
                                             HasSubstr("its life is '1900000001', and this server "
                                                       "is of '1900000000'")));
  const uint64_t num_commits = servers.num_commits();
  EXPECT_EQ(before->Commit(read).status(), before->life());
  EXPECT_EQ(servers.num_commits(), num_commits);
  {
    auto away = std::make_unique<FakeConnection>(&servers);
    away->SetFaults([] { return StoreFault::kUnreachable; });
    EXPECT_THAT(LivingStore::Join(std::move(away)), StatusIs(absl::StatusCode::kUnavailable, _));
  }
  // Leases are the store's own, of whichever life.
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, before->GrantLease(absl::Seconds(7)));
  EXPECT_EQ(lease.length, absl::Seconds(7));
  EXPECT_THAT(before->KeepAlive(lease.id), IsOkAndHolds(absl::Seconds(7)));
  EXPECT_THAT(before->RevokeLease(lease.id), IsOk());
  EXPECT_THAT(before->KeepAlive(lease.id), StatusIs(absl::StatusCode::kNotFound, _));
  PH_ASSERT_OK_AND_ASSIGN(const RangeResult all, before->Range(KeyRange::Of("k"), 0, 0));
  EXPECT_EQ(all.values.size(), 1U);
  // What is only read says nothing of room.
  EXPECT_THAT(before->room(), IsOk());
}

}  // namespace
}  // namespace packhouse
