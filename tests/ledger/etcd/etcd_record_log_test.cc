#include "service/wings/cluster/jobs/etcd_record_log.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ledger/record_log_laws.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(10);
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kFaultySeeds = 100;
#else
constexpr uint64_t kFaultySeeds = 1000;
#endif

std::vector<StoreFault> AllFaults() {
  return {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
          StoreFault::kDoneLater,   StoreFault::kCrashBefore, StoreFault::kCrashAfter};
}

// A cluster in one process: processes come and go, each with a lease, and open logs of a job.
class Cluster {
 public:
  explicit Cluster(uint64_t seed = 0, uint64_t fault_percent = 0)
      : servers_(&clock_, seed), random_(seed), fault_percent_(fault_percent) {}

  // A process that nothing goes wrong for, unless there are faults.
  FakeConnection& StartProcess() {
    connections_.push_back(std::make_unique<FakeConnection>(
        &servers_, RandomFaults(random_.Next(), fault_percent_, AllFaults())));
    return *connections_.back();
  }

  absl::StatusOr<EtcdRecordLog::Acquired> Acquire(KeyValueStore& process, LeaseId lease,
                                                  const std::string& address) {
    return EtcdRecordLog::Acquire(&process,
                                  {"a/job", address, absl::StrCat(++num_attempts_), lease});
  }

  // For one process at a time: the one before has ended, and so has its lease; or the same process
  // opens its log again.
  absl::StatusOr<std::unique_ptr<RecordLog>> OpenAgain() {
    if (current_ == nullptr || current_->crashed() || lease_ == 0 || random_.Below(2) == 0) {
      clock_.Advance(kLease + absl::Seconds(1));
      current_ = &StartProcess();
      lease_ = 0;
    }
    if (lease_ == 0) {
      auto lease = current_->GrantLease(kLease);
      if (!lease.ok()) return lease.status();
      lease_ = lease->id;
    }
    auto acquired = Acquire(*current_, lease_, "here:1");
    if (!acquired.ok()) return acquired.status();
    if (acquired->log == nullptr) return absl::InternalError("somebody else owns it");
    return std::move(acquired->log);
  }

  SimulatedClock& clock() { return clock_; }
  FakeKeyValueServers& servers() { return servers_; }

 private:
  SimulatedClock clock_;
  FakeKeyValueServers servers_;
  Random random_;
  const uint64_t fault_percent_;
  std::vector<std::unique_ptr<FakeConnection>> connections_;
  FakeConnection* current_ = nullptr;
  LeaseId lease_ = 0;
  uint64_t num_attempts_ = 0;
};

TEST(EtcdRecordLogTest, IsAListThatLasts) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Cluster cluster(seed);
    ASSERT_NO_FATAL_FAILURE(TestIsAListThatLasts([&] { return cluster.OpenAgain(); }, seed));
  }
}

TEST(EtcdRecordLogTest, ManyThreadsAppend) {
  Cluster cluster;
  TestManyThreadsAppend([&] { return cluster.OpenAgain(); }, 8, 40);
}

// Requests and replies are lost, requests are done late, and processes crash at each point.
TEST(EtcdRecordLogTest, LosesNothingAcknowledged) {
  for (uint64_t seed = 0; seed < kFaultySeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Cluster cluster(seed, /*fault_percent=*/seed % 4 * 15 + 5);
    ASSERT_NO_FATAL_FAILURE(
        TestLosesNothingAcknowledged([&] { return cluster.OpenAgain(); }, seed, 25));
  }
}

// Three replicas, of which any may believe that it owns the job: leases end, keep-alives are late,
// what is sent arrives late. What any of them was told is stored, is in the log exactly once, in
// the order in which they were told so; and a new owner reads all of it.
TEST(EtcdRecordLogTest, ReplacedOwnersStoreNothing) {
  uint64_t num_owners = 0;
  uint64_t num_fenced = 0;
  for (uint64_t seed = 0; seed < kFaultySeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    Cluster cluster(seed, /*fault_percent=*/seed % 3 * 15);
    struct Replica {
      FakeConnection* process = nullptr;
      LeaseId lease = 0;
      std::unique_ptr<EtcdRecordLog> log;
    };
    std::vector<Replica> replicas(3);
    LogRecords acknowledged;
    std::set<std::string> refused;
    Revision last_owner = 0;
    for (int step = 0; step < 60; ++step) {
      Replica& replica = replicas[random.Below(replicas.size())];
      if (replica.process == nullptr || replica.process->crashed()) {
        replica = {&cluster.StartProcess(), 0, nullptr};
      }
      if (random.Below(6) == 0) cluster.clock().Advance(kLease / 3);
      if (replica.lease != 0 && random.Below(3) == 0) {
        if (absl::IsNotFound(replica.process->KeepAlive(replica.lease).status())) {
          replica.lease = 0;
          // It may go on with its log until it is told: that is what must not matter.
          if (random.Below(2) == 0) replica.log = nullptr;
        }
      }
      if (replica.lease == 0) {
        const auto lease = replica.process->GrantLease(kLease);
        if (!lease.ok()) continue;
        replica.lease = lease->id;
      }
      if (replica.log == nullptr) {
        auto acquired = cluster.Acquire(*replica.process, replica.lease,
                                        absl::StrCat("replica:", &replica - replicas.data() + 1));
        if (absl::IsNotFound(acquired.status())) replica.lease = 0;
        if (!acquired.ok() || acquired->log == nullptr) continue;
        replica.log = std::move(acquired->log);
        EXPECT_GT(replica.log->owner_revision(), last_owner);
        last_owner = replica.log->owner_revision();
        ++num_owners;
        const auto records = replica.log->ReadAll();
        if (records.ok()) {
          for (const std::string& record : acknowledged) {
            ASSERT_THAT(*records, testing::Contains(record)) << step;
          }
        }
        continue;
      }
      const std::string record = absl::StrCat(step);
      const absl::Status status = replica.log->Append({record});
      if (status.ok()) {
        acknowledged.push_back(record);
      } else if (replica.log->failure().ok()) {
        refused.insert(record);
      } else {
        num_fenced += absl::StrContains(status.message(), "owns it since") ? 1 : 0;
        replica.log = nullptr;
      }
    }
    for (Replica& replica : replicas) replica.log = nullptr;
    cluster.servers().DoLateRequests();
    cluster.clock().Advance(kLease);
    FakeConnection last(&cluster.servers());
    PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, last.GrantLease(kLease));
    PH_ASSERT_OK_AND_ASSIGN(const auto acquired, cluster.Acquire(last, lease.id, "last:1"));
    ASSERT_NE(acquired.log, nullptr);
    PH_ASSERT_OK_AND_ASSIGN(const LogRecords records, acquired.log->ReadAll());
    ASSERT_EQ(std::set<std::string>(records.begin(), records.end()).size(), records.size());
    auto at = records.begin();
    for (const std::string& record : acknowledged) {
      at = std::find(at, records.end(), record);
      ASSERT_NE(at, records.end()) << "lost, or in another order: " << record;
    }
    for (const std::string& record : records) ASSERT_FALSE(refused.contains(record)) << record;
  }
  EXPECT_GT(num_owners, 2 * kFaultySeeds);
  EXPECT_GT(num_fenced, kFaultySeeds / 10);
}

TEST(EtcdRecordLogTest, AReplacedOwnerIsToldByWhom) {
  Cluster cluster;
  FakeConnection& first = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease first_lease, first.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(first, first_lease.id, "first:1"));
  ASSERT_THAT(owned.log->Append({"a", "b"}), IsOk());

  FakeConnection& second = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease second_lease, second.GrantLease(2 * kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto asked, cluster.Acquire(second, second_lease.id, "second:1"));
  ASSERT_TRUE(asked.owner.has_value());
  EXPECT_EQ(asked.owner->address, "first:1");
  EXPECT_EQ(asked.owner->revision, owned.log->owner_revision());

  cluster.clock().Advance(kLease);
  PH_ASSERT_OK_AND_ASSIGN(const auto taken, cluster.Acquire(second, second_lease.id, "second:1"));
  ASSERT_NE(taken.log, nullptr);
  EXPECT_THAT(taken.log->ReadAll(), IsOkAndHolds(LogRecords{"a", "b"}));
  EXPECT_THAT(owned.log->Append({"late"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("second:1 owns it since")));
  EXPECT_THAT(owned.log->ReadAll(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("second")));
  EXPECT_THAT(owned.log->failure(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("second")));
  EXPECT_THAT(taken.log->Append({"c"}), IsOk());
  EXPECT_THAT(taken.log->ReadAll(), IsOkAndHolds(LogRecords{"a", "b", "c"}));
}

// Also a change that changes nothing writes a head of its own.
TEST(EtcdRecordLogTest, NoHeadIsWrittenTwice) {
  Cluster cluster;
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(process, lease.id, "here:1"));
  std::set<std::string> heads;
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(owned.log->Replace({}), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const auto head, process.Get(JobKeys("a/job").log().head));
    EXPECT_TRUE(heads.insert(head->value).second) << head->value;
  }
}

// Other keys change all the time, and the store drops each state as soon as there is a later one.
TEST(EtcdRecordLogTest, ALogIsReadWhateverTheStoreForgetsMeanwhile) {
  Cluster cluster;
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(process, lease.id, "here:1"));
  // Several pages of entries.
  LogRecords records;
  for (int i = 0; i < 200; ++i) {
    records.push_back(absl::StrCat(i, std::string(20'000, 'x')));
    ASSERT_THAT(owned.log->Append({records.back()}), IsOk());
  }
  Revision revision = 1 << 20;
  int calls_left = std::numeric_limits<int>::max();
  process.SetFaults([&] {
    if (--calls_left > 0) {
      cluster.servers().SkipTo(++revision);
      cluster.servers().Compact(revision);
    }
    return StoreFault::kNone;
  });
  EXPECT_THAT(owned.log->ReadAll(), IsOkAndHolds(records));
  // Who does not own it asks for an older state, so that it is of one moment.
  EXPECT_THAT(EtcdRecordLog::Read(process, "a/job"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("10 times")));
  calls_left = 5;
  EXPECT_THAT(EtcdRecordLog::Read(process, "a/job"), IsOkAndHolds(records));
}

TEST(EtcdRecordLogTest, WhatIsGivenBackCanBeTakenAtOnce) {
  Cluster cluster;
  FakeConnection& first = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, first.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(first, lease.id, "first:1"));
  ASSERT_THAT(owned.log->Append({"a"}), IsOk());
  EXPECT_THAT(owned.log->Release(), IsOk());
  EXPECT_THAT(owned.log->Append({"b"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ended")));
  FakeConnection& second = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease other, second.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto taken, cluster.Acquire(second, other.id, "second:1"));
  ASSERT_NE(taken.log, nullptr);
  EXPECT_THAT(taken.log->ReadAll(), IsOkAndHolds(LogRecords{"a"}));
}

// Jobs whose names begin alike, or look like keys, have logs of their own.
TEST(EtcdRecordLogTest, NamesOfJobsDoNotMeet) {
  SimulatedClock clock;
  FakeKeyValueServers servers(&clock);
  FakeConnection process(&servers);
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  for (int turn = 0; turn < 2; ++turn) {
    for (const std::string job : {"a", "a/log", "a/log/0000000000000000", "a/head", "a%2Fhead"}) {
      PH_ASSERT_OK_AND_ASSIGN(
          const auto acquired,
          EtcdRecordLog::Acquire(&process,
                                 {job, "here:1", absl::StrCat(job.size(), turn), lease.id}));
      ASSERT_NE(acquired.log, nullptr);
      if (turn == 0) {
        ASSERT_THAT(acquired.log->Append({job}), IsOk());
      }
      EXPECT_THAT(acquired.log->ReadAll(), IsOkAndHolds(LogRecords{job}));
    }
  }
}

// A record, and a replacement, that no transaction takes.
TEST(EtcdRecordLogTest, LargeRecordsAreCut) {
  Cluster cluster;
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(process, lease.id, "here:1"));
  const std::string large(3 * SharedLog::kMaxEntryBytes + 5, 'l');
  const uint64_t before = cluster.servers().num_commits();
  ASSERT_THAT(owned.log->Append({"before", large, "after"}), IsOk());
  // Each part is a transaction of its own.
  EXPECT_EQ(cluster.servers().num_commits(), before + 4);
  EXPECT_THAT(owned.log->ReadAll(), IsOkAndHolds(LogRecords{"before", large, "after"}));
  ASSERT_THAT(owned.log->Replace({large, "b"}), IsOk());
  EXPECT_THAT(owned.log->ReadAll(), IsOkAndHolds(LogRecords{large, "b"}));
  ASSERT_THAT(owned.log->Replace({}), IsOk());
  EXPECT_THAT(owned.log->ReadAll(), IsOkAndHolds(LogRecords()));
  // Nothing is left of what was replaced.
  PH_ASSERT_OK_AND_ASSIGN(const RangeResult left, process.Range(KeyRange::Prefix("job/"), 0, 0));
  EXPECT_EQ(left.values.size(), 2U);
}

// One job cannot fill the store that all servers share.
TEST(EtcdRecordLogTest, HasAsManyBytesAsItMay) {
  Cluster cluster;
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  TestHasAsManyBytesAsItMay([&](uint64_t max_bytes) {
    const std::string job = absl::StrCat("job", max_bytes);
    auto log =
        EtcdRecordLog::Acquire(&process, {job, "here:1", job, lease.id, max_bytes}).value().log;
    return BoundedLog{
        std::move(log), [&process, job] {
          return SharedLogHead::Decode(**process.Get(JobKeys(job).log().head))->num_bytes;
        }};
  });
}

// Damage is found and named, at every byte of an entry and of the head.
TEST(EtcdRecordLogTest, DamageIsNamed) {
  SimulatedClock clock;
  FakeKeyValueServers servers(&clock);
  FakeConnection process(&servers);
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  const JobKeys keys("job");
  int attempt = 0;
  const auto acquire = [&] {
    return EtcdRecordLog::Acquire(&process, {"job", "here:1", absl::StrCat(++attempt), lease.id});
  };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto owned, acquire());
    ASSERT_THAT(owned.log->Append({"some"}), IsOk());
    ASSERT_THAT(owned.log->Append({"more"}), IsOk());
  }
  const auto put = [&](const std::string& key, const std::string& value) {
    Transaction change;
    change.then = {Operation::Put(key, value)};
    ASSERT_THAT(process.Commit(change), IsOk());
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto entry, process.Get(keys.log().Entry(1)));
  for (size_t i = 0; i < entry->value.size(); ++i) {
    std::string damaged = entry->value;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    put(keys.log().Entry(1), damaged);
    PH_ASSERT_OK_AND_ASSIGN(const auto owned, acquire());
    EXPECT_THAT(owned.log->ReadAll(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'job', entry 1")));
  }
  put(keys.log().Entry(1), entry->value);
  Transaction remove;
  remove.then = {Operation::Delete(KeyRange::Of(keys.log().Entry(0)))};
  ASSERT_THAT(process.Commit(remove), IsOk());
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto owned, acquire());
    EXPECT_THAT(owned.log->ReadAll(), StatusIs(absl::StatusCode::kDataLoss,
                                               HasSubstr("entry 0 of its log: it is missing")));
  }
  put(keys.log().head, "2 2 x");
  EXPECT_THAT(acquire(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("head is damaged")));
  put(keys.log().head, "3 anything else");
  EXPECT_THAT(acquire(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("format '3'")));
}

// Whatever a replaced owner does late: the log, who owns it and the mark stay as they are.
TEST(EtcdRecordLogTest, WhatAReplacedOwnerDoesLateChangesNothing) {
  using Late = std::function<absl::Status(EtcdRecordLog&)>;
  const std::vector<std::pair<std::string, Late>> calls = {
      {"second:1 owns it", [](EtcdRecordLog& log) { return log.Append({"late"}); }},
      {"second:1 owns it", [](EtcdRecordLog& log) { return log.Replace({"late"}); }},
      {"has ended", [](EtcdRecordLog& log) { return log.Release(); }},
      {"has ended", [](EtcdRecordLog& log) { return log.Release({Operation::Put("k", "v")}); }},
      {"has ended", [](EtcdRecordLog& log) { return log.Erase(0); }},
      {"after 4 tries the mark of erased logs is below 7",
       [](EtcdRecordLog& log) { return log.Erase(7); }},
  };
  for (const auto& [what, late] : calls) {
    SCOPED_TRACE(what);
    Cluster cluster;
    cluster.servers().SetForgetful(false);
    FakeConnection& first = cluster.StartProcess();
    PH_ASSERT_OK_AND_ASSIGN(const StoreLease first_lease, first.GrantLease(kLease));
    PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(first, first_lease.id, "first:1"));
    ASSERT_THAT(owned.log->Append({"a"}), IsOk());
    cluster.clock().Advance(kLease);
    FakeConnection& second = cluster.StartProcess();
    PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, second.GrantLease(kLease));
    PH_ASSERT_OK_AND_ASSIGN(const auto taken, cluster.Acquire(second, lease.id, "second:1"));
    ASSERT_NE(taken.log, nullptr);
    const Revision before = cluster.servers().revision();
    EXPECT_THAT(late(*owned.log), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(what)));
    EXPECT_EQ(cluster.servers().revision(), before);
    EXPECT_THAT(taken.log->ReadAll(), IsOkAndHolds(LogRecords{"a"}));
  }
}

// Though it still owns the job, and the store answers again.
TEST(EtcdRecordLogTest, ALogThatHasFailedIsRefusedEverything) {
  Cluster cluster;
  cluster.servers().SetForgetful(false);
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  const auto expect_refused = [&](EtcdRecordLog& log, const absl::Status& why) {
    const Revision before = cluster.servers().revision();
    EXPECT_EQ(log.failure(), why);
    EXPECT_EQ(log.Append({"c"}), why);
    EXPECT_EQ(log.Append({}), why);
    EXPECT_EQ(log.Replace({"c"}), why);
    EXPECT_EQ(log.ReadAll().status(), why);
    EXPECT_EQ(cluster.servers().revision(), before);
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto failed, cluster.Acquire(process, lease.id, "here:1"));
  ASSERT_THAT(failed.log->Append({"a"}), IsOk());
  process.SetFaults([] { return StoreFault::kRequestLost; });
  const absl::Status why = failed.log->Append({"b"});
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not known")));
  process.SetFaults(nullptr);
  expect_refused(*failed.log, why);
  EXPECT_THAT(failed.log->Release(), IsOk());
  expect_refused(*failed.log, why);
  EXPECT_THAT(EtcdRecordLog::OwnerOf(process, "a/job"), IsOkAndHolds(std::nullopt));
  // One that could not be given back.
  PH_ASSERT_OK_AND_ASSIGN(const auto kept, cluster.Acquire(process, lease.id, "here:1"));
  process.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(kept.log->Release(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fake")));
  process.SetFaults(nullptr);
  expect_refused(*kept.log, kept.log->failure());
  EXPECT_THAT(kept.log->failure(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ended")));
  PH_ASSERT_OK_AND_ASSIGN(const auto owner, EtcdRecordLog::OwnerOf(process, "a/job"));
  EXPECT_EQ(owner->revision, kept.log->owner_revision());
  EXPECT_EQ(owner->lease, lease.id);
  // One that there was no memory for in the middle of a write.
  PH_ASSERT_OK_AND_ASSIGN(const auto torn, cluster.Acquire(process, lease.id, "here:1"));
  process.SetFaults([]() -> StoreFault { throw std::bad_alloc(); });
  EXPECT_THAT(torn.log->Append({"b"}), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  process.SetFaults(nullptr);
  expect_refused(*torn.log, torn.log->failure());
  process.SetFaults([] { return StoreFault::kRequestLost; });
  EXPECT_THAT(
      cluster.Acquire(process, lease.id, "here:1"),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("after 4 tries it is not known who")));
}

// Says that there is an owner, and no key of it.
class SenselessStore final : public KeyValueStore {
 public:
  absl::StatusOr<RangeResult> Range(const KeyRange&, size_t, Revision) override {
    return RangeResult();
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    return TransactionResult{false, 1, std::vector<RangeResult>(transaction.otherwise.size())};
  }
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    return StoreLease{1, length};
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId) override { return kLease; }
  absl::Status RevokeLease(LeaseId) override { return absl::OkStatus(); }
};

TEST(EtcdRecordLogTest, AnAnswerWithoutSenseIsRefused) {
  SenselessStore store;
  EXPECT_THAT(EtcdRecordLog::Acquire(&store, {"job", "here:1", "1", 1}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("'job'")));
}

// What is stored is as docs/storage-format.md says, and each record that is cut off is found.
TEST(EtcdRecordLogTest, RecordsAreStoredAsTheFormatSays) {
  Cluster cluster;
  cluster.servers().SetForgetful(false);
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(process, lease.id, "here:1"));
  const LogRecords records = {"some", "", std::string(0x0102, 'x')};
  ASSERT_THAT(owned.log->Append(records), IsOk());
  std::string contents;
  std::map<size_t, size_t> whole = {{0, 0}};  // By bytes, the records that they have.
  for (const std::string& record : records) {
    const size_t size = record.size();
    contents += {static_cast<char>(size & 0xff), static_cast<char>(size >> 8), 0, 0};
    contents += record;
    whole[contents.size()] = whole.size();
  }
  const std::string entry = "job/a%2Fjob/log/0000000000000000";
  const std::string write = absl::StrCat(absl::Hex(owned.log->owner_revision()), "-1");
  const std::map<std::string, std::string> expected = {
      {"job/a%2Fjob/head", absl::StrCat("2 ", write, " 0 0 1 ", contents.size(), " 0 ")},
      {entry, EncodeSharedLogEntry(write, contents)},
      {"job/a%2Fjob/owner", "here:1 1"}};
  PH_ASSERT_OK_AND_ASSIGN(const RangeResult all, process.Range(KeyRange::Prefix("job/"), 0, 0));
  std::map<std::string, std::string> stored;
  for (const KeyValue& value : all.values) stored[value.key] = value.value;
  EXPECT_EQ(stored, expected);
  for (size_t bytes = 0; bytes < contents.size(); ++bytes) {
    SCOPED_TRACE(bytes);
    ASSERT_THAT(process.Commit({{},
                                {Operation::Put(
                                    entry, EncodeSharedLogEntry(write, contents.substr(0, bytes)))},
                                {}}),
                IsOk());
    const auto read = EtcdRecordLog::Read(process, "a/job");
    if (const auto found = whole.find(bytes); found != whole.end()) {
      const auto end = records.begin() + static_cast<ptrdiff_t>(found->second);
      EXPECT_THAT(read, IsOkAndHolds(LogRecords(records.begin(), end)));
    } else {
      EXPECT_THAT(read, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'a/job': a record")));
    }
  }
}

// Logs of other jobs that are erased meanwhile: the mark is the largest of all.
TEST(EtcdRecordLogTest, TheMarkOfErasedLogsNeverFalls) {
  Cluster cluster;
  FakeConnection& process = cluster.StartProcess();
  FakeConnection& other = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  const auto others = [&](const std::string& job) {
    return EtcdRecordLog::Acquire(&other, {job, "here:2", job, lease.id});
  };
  uint64_t largest = 0;
  for (const uint64_t mark : {7, 5, 20}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto owned, cluster.Acquire(process, lease.id, "here:1"));
    EXPECT_THAT(owned.log->mark(), IsOkAndHolds(largest));
    PH_ASSERT_OK_AND_ASSIGN(const auto with_it, others(absl::StrCat("b", mark)));
    int num_calls = 0;
    process.SetFaults([&] {
      // It has read the mark.
      if (++num_calls == 2) {
        EXPECT_THAT(with_it.log->Erase(12), IsOk());
      }
      return StoreFault::kNone;
    });
    EXPECT_THAT(owned.log->Erase(mark), IsOk());
    process.SetFaults(nullptr);
    largest = std::max<uint64_t>({largest, mark, 12});
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto last, others("last"));
  EXPECT_THAT(last.log->mark(), IsOkAndHolds(20U));
  EXPECT_THAT(other.Commit({{}, {Operation::Put(std::string(JobKeys::kMark), "x")}, {}}), IsOk());
  const auto damaged = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'job-mark' is damaged"));
  EXPECT_THAT(last.log->Erase(30), damaged);
  EXPECT_THAT(others("none"), damaged);
  EXPECT_THAT(last.log->Append({"a"}), IsOk());
}

// The owner's key, and a head that somebody else has put.
TEST(EtcdRecordLogTest, WhatTheOwnerDidNotWriteIsNamed) {
  Cluster cluster;
  FakeConnection& process = cluster.StartProcess();
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease lease, process.GrantLease(kLease));
  PH_ASSERT_OK_AND_ASSIGN(auto owned, cluster.Acquire(process, lease.id, "here:1"));
  const auto put = [&](const std::string& key, const std::string& value) {
    ASSERT_THAT(process.Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  };
  const JobKeys keys("a/job");
  ASSERT_THAT(owned.log->Append({"a"}), IsOk());
  put(keys.log().head, "2 other 0 0 1 5 0 ");
  const auto of_others =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("somebody else wrote the head"));
  EXPECT_THAT(owned.log->ReadAll(), of_others);
  EXPECT_THAT(owned.log->Append({"a"}), of_others);
  PH_ASSERT_OK_AND_ASSIGN(owned, cluster.Acquire(process, lease.id, "here:1"));
  ASSERT_NE(owned.log, nullptr);
  EXPECT_THAT(owned.log->Append({"a"}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const StoreLease other, process.GrantLease(kLease));
  const auto damaged = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("owner's key is damaged"));
  for (const char* const value : {"", "x", " 1", "here:2 1 2"}) {
    SCOPED_TRACE(value);
    put(keys.owner(), value);
    EXPECT_THAT(EtcdRecordLog::OwnerOf(process, "a/job"), damaged);
    EXPECT_THAT(cluster.Acquire(process, other.id, "here:2"), damaged);
  }
  ASSERT_THAT(process.Commit({{}, {Operation::Delete(KeyRange::Of(keys.owner()))}, {}}), IsOk());
  put(keys.owner(), "x");
  EXPECT_THAT(owned.log->Append({"b"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another server owns it since")));
}

}  // namespace
}  // namespace packhouse
