// The keys of a server that is alone: they answer as a cluster's do, and last as their log does.
#include "service/stores/logs/logged_keys.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ledger/test_disk.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<LoggedKeys> OpenOn(TestDisk& disk) {
  return LoggedKeys::Open(std::make_unique<TestLog>(&disk)).value();
}

std::map<std::string, std::string> AllOf(KeyStore& keys) {
  std::map<std::string, std::string> all;
  const auto read = keys.ReadAll(KeyRange::Prefix("k"), 3).value();
  for (const KeyValue& each : read.values) all[each.key] = each.value;
  return all;
}

KeyRange RandomRange(Random& random) {
  const std::string begin = absl::StrCat("k", random.Below(8));
  if (random.Below(3) == 0) return KeyRange::Of(begin);
  return {begin, absl::StrCat("k", random.Below(9))};
}

std::vector<Operation> RandomSteps(Random& random) {
  std::vector<Operation> steps;
  for (uint64_t i = random.Below(4); i > 0; --i) {
    switch (random.Below(3)) {
      case 0:
        steps.push_back(
            Operation::Put(absl::StrCat("k", random.Below(8)), absl::StrCat("v", random.Below(3))));
        break;
      case 1:
        steps.push_back(Operation::Delete(RandomRange(random)));
        break;
      default:
        steps.push_back(Operation::Read(RandomRange(random), random.Below(3)));
    }
  }
  return steps;
}

Transaction RandomTransaction(Random& random, Revision revision) {
  Transaction transaction;
  for (uint64_t i = random.Below(3); i > 0; --i) {
    const std::string key = absl::StrCat("k", random.Below(8));
    const Revision some = random.Below(2) == 0 ? 0 : revision - random.Below(3);
    switch (random.Below(3)) {
      case 0:
        transaction.compares.push_back(Compare::CreateRevision(key, some));
        break;
      case 1:
        transaction.compares.push_back(Compare::ModRevision(key, some));
        break;
      default:
        transaction.compares.push_back(Compare::Value(key, absl::StrCat("v", random.Below(3))));
    }
  }
  transaction.then = RandomSteps(random);
  transaction.otherwise = RandomSteps(random);
  return transaction;
}

void ExpectSame(const RangeResult& mine, const RangeResult& theirs) {
  EXPECT_EQ(mine.values, theirs.values);
  EXPECT_EQ(mine.has_more, theirs.has_more);
  EXPECT_EQ(mine.revision, theirs.revision);
}

// With an end of the process now and then, which nobody notices.
TEST(LoggedKeysTest, AnswersAsAClusterDoes) {
  const SimulatedClock clock;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    FakeKeyValueServers servers(&clock, seed);
    servers.SetForgetful(false);
    FakeConnection cluster(&servers);
    TestDisk disk;
    auto keys = OpenOn(disk);
    for (int step = 0; step < 60; ++step) {
      if (random.Below(10) == 0) keys = OpenOn(disk);
      const Transaction transaction = RandomTransaction(random, servers.revision());
      const auto theirs = cluster.Commit(transaction);
      const auto mine = keys->Commit(transaction);
      ASSERT_EQ(mine.status().code(), theirs.status().code());
      if (theirs.ok()) {
        ASSERT_EQ(mine->succeeded, theirs->succeeded);
        ASSERT_EQ(mine->revision, theirs->revision);
        ASSERT_EQ(mine->reads.size(), theirs->reads.size());
        for (size_t i = 0; i < mine->reads.size(); ++i) {
          ExpectSame(mine->reads[i], theirs->reads[i]);
        }
      }
      const KeyRange range = RandomRange(random);
      const size_t limit = random.Below(3);
      ExpectSame(keys->Range(range, limit, 0).value(), cluster.Range(range, limit, 0).value());
      ExpectSame(keys->ReadAll(range, 1).value(), cluster.ReadAll(range, 1).value());
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    EXPECT_EQ(AllOf(*keys), AllOf(*OpenOn(disk)));
  }
}

TEST(LoggedKeysTest, WhatFailsIsNotDoneOrNobodyKnows) {
  using Fault = TestDisk::Fault;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TestDisk disk;
    auto keys = OpenOn(disk);
    for (int step = 0; step < 40; ++step) {
      const std::map<std::string, std::string> before = AllOf(*keys);
      auto after = before;
      Transaction change;
      const std::string key = absl::StrCat("k", random.Below(5));
      if (random.Below(3) == 0) {
        change.then = {Operation::Delete(KeyRange::Of(key))};
        after.erase(key);
      } else {
        change.then = {Operation::Put(key, absl::StrCat(step)), Operation::Put("kx", key)};
        after[key] = absl::StrCat(step);
        after["kx"] = key;
      }
      disk.fault = static_cast<Fault>(random.Below(4));
      disk.is_full = random.Below(4) == 0;
      const absl::Status done = keys->Commit(change).status();
      if (done.ok()) {
        EXPECT_EQ(AllOf(*keys), after);
        continue;
      }
      // Who reads sees what was answered.
      EXPECT_EQ(AllOf(*keys), before);
      if (OutcomeIsUnknown(done)) {
        EXPECT_TRUE(OutcomeIsUnknown(keys->Commit(change).status()));
        keys = OpenOn(disk);
        EXPECT_THAT(AllOf(*keys), testing::AnyOf(before, after));
      } else {
        EXPECT_EQ(AllOf(*OpenOn(disk)), before);
      }
    }
  }
}

// The number of a revision is never used again, whatever was deleted last.
TEST(LoggedKeysTest, TheLogIsAsLongAsWhatItHas) {
  TestDisk disk;
  auto keys = OpenOn(disk);
  const std::string value(100'000, 'v');
  uint64_t most = 0;
  Revision revision = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_THAT(keys->Commit({{}, {Operation::Put(absl::StrCat("k", i % 7), value)}, {}}), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(
        const TransactionResult gone,
        keys->Commit({{}, {Operation::Delete(KeyRange::Of(absl::StrCat("k", i % 7)))}, {}}));
    EXPECT_GT(gone.revision, revision);
    revision = gone.revision;
    if (i % 10 == 0) keys = OpenOn(disk);
    uint64_t bytes = 0;
    for (const std::string& record : disk.records) bytes += record.size();
    most = std::max(most, bytes);
  }
  EXPECT_LE(most, LoggedKeys::kSpareBytes + 2 * value.size());
  // A log that is full takes what makes it smaller.
  ASSERT_THAT(keys->Commit({{}, {Operation::Put("k", value)}, {}}), IsOk());
  disk.is_full = true;
  ASSERT_THAT(keys->Commit({{}, {Operation::Delete(KeyRange::Of("k"))}, {}}), IsOk());
  EXPECT_TRUE(AllOf(*OpenOn(disk)).empty());
  EXPECT_EQ(OpenOn(disk)->Range(KeyRange::Of("k"), 0, 0)->revision,
            keys->Range(KeyRange::Of("k"), 0, 0)->revision);
}

TEST(LoggedKeysTest, DamageIsNoticed) {
  TestDisk disk;
  ASSERT_THAT(OpenOn(disk)->Commit({{}, {Operation::Put("k", "v")}, {}}), IsOk());
  disk.records.emplace_back("nothing");
  EXPECT_THAT(LoggedKeys::Open(std::make_unique<TestLog>(&disk)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record 1")));
}

TEST(LoggedKeysTest, ChangesOfManyThreadsFollowEachOther) {
  const auto keys = LoggedKeys::InMemory();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&keys] {
      for (int i = 0; i < 100;) {
        const auto now = keys->Get("k").value();
        const std::string value = now ? now->value : "";
        const auto done = keys->Commit({{Compare::ModRevision("k", now ? now->mod_revision : 0)},
                                        {Operation::Put("k", value + "x")},
                                        {}});
        if (done->succeeded) ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(keys->Get("k").value()->value.size(), 400U);
}

// There are no leases and no older states.
TEST(LoggedKeysTest, WhatItHasNotItSays) {
  const auto keys = LoggedKeys::InMemory();
  EXPECT_THAT(keys->Commit({{}, {Operation::Put("k", "v", 7)}, {}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("lease 7")));
  ASSERT_THAT(keys->Commit({{}, {Operation::Put("k", "v")}, {}}), IsOk());
  EXPECT_THAT(keys->Range(KeyRange::Of("k"), 0, 1),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("revision 1")));
}

}  // namespace
}  // namespace packhouse
