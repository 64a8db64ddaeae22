// The place of a server among others, as an etcd has it; and what commands do with what they share.
#include "service/program/wings/etcd_membership.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/program/commands/commands.h"
#include "service/program/flag_checks.h"
#include "service/program/options.h"
#include "service/program/wings/check_shared.h"
#include "service/program/wings/snapshot_shared.h"
#include "service/stores/keys/shared_uses.h"
#include "service/wings/cluster/shared/store_uri.h"
#include "tests/objects/small_s3.h"
#include "tests/support/etcd_process.h"
#include "tests/support/random_graphs.h"
#include "tests/support/recorded_log.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EtcdMembershipTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Another process may take a port that was free.
    for (int i = 0; i < 5 && !EtcdProcess::Program().empty(); ++i) {
      process_ = std::make_unique<EtcdProcess>();
      LedgerAddress address;
      address.uri = absl::StrCat("etcd://", process_->address());
      address.timeout = absl::Seconds(10);
      if (ConnectLedger(address).value()->Get("anything").ok()) return;
    }
    process_ = nullptr;
  }
  static void TearDownTestSuite() { process_ = nullptr; }

  void SetUp() override {
    if (EtcdProcess::Program().empty()) GTEST_SKIP() << "no etcd here: Debian's etcd-server";
    ASSERT_NE(process_, nullptr) << "etcd does not answer";
    // A cluster of its own for each test.
    options_.membership.ledger =
        absl::StrCat("etcd://", process_->address(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    options_.membership.advertise = "127.0.0.1:1";
    LedgerAddress address;
    address.uri = options_.membership.ledger;
    keys_ = ConnectLedger(address).value();
  }
  absl::StatusOr<std::unique_ptr<Membership>> Join(const std::string& advertise,
                                                   const MemberSettings& settings = {}) {
    Options options = options_;
    options.membership.advertise = advertise;
    return EtcdMembership::Join(options, SharedDatasetsOptions(), settings, &limited_);
  }
  size_t NumKeys(absl::string_view prefix) {
    return keys_->Range(KeyRange::Prefix(prefix)).value().values.size();
  }
  void Put(absl::string_view key, absl::string_view value) {
    ASSERT_THAT(keys_->Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }

  static inline std::unique_ptr<EtcdProcess> process_;
  Options options_;
  std::unique_ptr<KeyValueStore> keys_;
  RecordedLog log_;
  LimitedLog limited_{&log_, [] { return absl::UnixEpoch(); }};
};

TEST_F(EtcdMembershipTest, AMemberTellsWhatItHas) {
  const std::string uses = absl::StrCat("uses/", SharedHistogramStore::kUses, "/of/h");
  Put(uses, "0 1");
  PH_ASSERT_OK_AND_ASSIGN(auto a, Join("127.0.0.1:1"));
  // What is kept for ever is not noted.
  EXPECT_EQ(NumKeys(uses), 0U);
  PH_ASSERT_OK_AND_ASSIGN(auto b, Join("127.0.0.1:2"));
  EXPECT_NE(a->replica(), b->replica());
  EXPECT_EQ(a->num_expired_histograms(), 0U);
  EXPECT_EQ(a->why_not_ready(), "");
  EXPECT_EQ(a->why_full(), "");
  EXPECT_EQ(b->Read().num_members, 2U);
  EXPECT_TRUE(b->Read().has_lease);
  std::unique_ptr<RecordLog> log;
  for (int i = 0; log == nullptr; ++i) log = b->logs()->Open(absl::StrCat("job", i)).value().log;
  EXPECT_THAT(log->Append({"1"}), IsOk());
  EXPECT_EQ(b->Read().num_commits, 1U);
  EXPECT_EQ(b->Read().num_failed_commits, 0U);
  EXPECT_GT(b->Read().commit_time, absl::ZeroDuration());
  b->Leave();
  EXPECT_FALSE(b->Read().has_lease);
  EXPECT_THAT(b->why_not_ready(), HasSubstr("no lease"));
  EXPECT_EQ(NumKeys("member/"), 1U);
  // Also one that could not start is none any more.
  a = nullptr;
  EXPECT_EQ(NumKeys("member/"), 0U);
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(EtcdMembershipTest, WhatKeepsAServerOutIsSaid) {
  options_.membership.ledger = "http://h";
  EXPECT_THAT(Join("127.0.0.1:1"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--ledger: ")));
  options_.membership.ledger = "etcd://127.0.0.1:1";
  options_.membership.lease = absl::Seconds(1);
  EXPECT_THAT(Join("127.0.0.1:1"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--ledger etcd://127.0.0.1:1: ")));
}

TEST_F(EtcdMembershipTest, ServersMustHaveSomeSettingsInCommon) {
  PH_ASSERT_OK_AND_ASSIGN(const auto a, Join("127.0.0.1:1", {{{"--x", "1"}}, {{"--y", "1"}}}));
  EXPECT_THAT(Join("127.0.0.1:2", {{{"--x", "2"}}, {}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("--x: "), HasSubstr("127.0.0.1:1"))));
  EXPECT_EQ(NumKeys("member/"), 1U);
  EXPECT_THAT(log_.lines(), IsEmpty());
  PH_ASSERT_OK_AND_ASSIGN(const auto b,
                          Join("127.0.0.1:2", {{{"--x", "1"}, {"--z", "1"}}, {{"--y", "2"}}}));
  EXPECT_THAT(log_.lines(), ElementsAre(AllOf(HasSubstr("\"--y\""), HasSubstr("127.0.0.1:1"))));
}

// Nothing expires before all servers say that it does.
TEST_F(EtcdMembershipTest, HistogramsExpireIfAllAgree) {
  options_.histogram_retention = ParseRetention("8h").value();
  const MemberSettings settings = {
      {}, {{"--histogram-retention", RetentionText(options_.histogram_retention)}}};
  PH_ASSERT_OK_AND_ASSIGN(const auto a, Join("127.0.0.1:1", settings));
  const auto histograms = a->ShareHistograms({}, nullptr);
  std::vector<Expired> expired;
  EXPECT_THAT(a->SweepHistograms(expired), IsOk());
  EXPECT_EQ(a->num_expired_histograms(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const auto b, Join("127.0.0.1:2"));
  EXPECT_THAT(a->SweepHistograms(expired),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("--histogram-retention"), HasSubstr("127.0.0.1:2"))));
}

// By another server with its address, or since the store is restored from a backup.
TEST_F(EtcdMembershipTest, AServerIsToldThatItIsOver) {
  options_.membership.lease = absl::Seconds(1);
  for (const bool is_restored : {false, true}) {
    SCOPED_TRACE(is_restored);
    absl::Notification is_over;
    absl::Notification has_swept;
    absl::Status why;
    std::atomic<int> turns = 0;
    PH_ASSERT_OK_AND_ASSIGN(auto a, Join("127.0.0.1:1"));
    a->Start(
        [&] {
          if (++turns == 1) has_swept.Notify();
        },
        [&](const absl::Status& status) {
          why = status;
          is_over.Notify();
        });
    has_swept.WaitForNotification();
    const std::string probe = absl::StrCat("probe/", a->replica());
    while (NumKeys(probe) == 0) {
    }
    EXPECT_FALSE(is_over.HasBeenNotified());
    std::unique_ptr<Membership> b;
    if (is_restored) {
      Put(kClusterLifeKey, "1900000001-random");
    } else {
      // Nothing listens at its address.
      PH_ASSERT_OK_AND_ASSIGN(b, Join("127.0.0.1:1"));
    }
    is_over.WaitForNotification();
    EXPECT_THAT(why, StatusIs(is_restored ? absl::StatusCode::kUnavailable
                                          : absl::StatusCode::kFailedPrecondition,
                              HasSubstr(is_restored ? "backup" : "--advertise")));
    if (is_restored) {
      EXPECT_THAT(a->why_not_ready(), HasSubstr("backup"));
    }
  }
}

// What servers share in an S3 store, too.
class ClusterInS3Test : public EtcdMembershipTest {
 protected:
  ClusterInS3Test() {
    std::ofstream(folder_.path() + "/credentials")
        << "[default]\naws_access_key_id = a\naws_secret_access_key = s\n";
    shared_.uri = options_.store.uri = "s3://b";
    shared_.endpoint = s3_.endpoint();
    shared_.credentials_file = folder_.path() + "/credentials";
    shared_.cache_folder = folder_.path() + "/cache";
    shared_.cache_bytes = 1 << 20;
  }
  absl::StatusOr<std::unique_ptr<Membership>> JoinWith(const MemberSettings& settings) {
    return EtcdMembership::Join(options_, shared_, settings, &limited_);
  }
  absl::Status Append(DatasetStore& store, const std::string& name) {
    Random random(1);
    PH_RETURN_IF_ERROR(store.Create(name, schema_, {}).status());
    return store.Append(name, RandomChunk(random, &schema_, 3, 9, 0), {}, {}).status();
  }
  // A command's flags, then what it is for.
  void Parse(CLI::App& app, const SmallS3& s3) const {
    app.parse(absl::StrCat("--ledger ", options_.membership.ledger, " --s3-endpoint ",
                           s3.endpoint(), " --s3-credentials ", shared_.credentials_file,
                           " --cache-dir ", folder_.path()));
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  SmallS3 s3_;
  SharedDatasetsOptions shared_;
  SystemClock clock_;
};

TEST_F(ClusterInS3Test, AServerHasTheStoresOfAll) {
  const Retention retention = ParseRetention("8h").value();
  MemberSettings settings;
  for (const char* const flag : {"--dataset-retention", "--source-graph-retention"}) {
    settings.should_be_equal[flag] = RetentionText(retention);
  }
  options_.max_source_graphs = 2;
  PH_ASSERT_OK_AND_ASSIGN(auto other, Join("127.0.0.1:2", settings));
  PH_ASSERT_OK_AND_ASSIGN(const auto member, JoinWith(settings));
  PH_ASSERT_OK_AND_ASSIGN(const auto stores, member->OpenStores(options_, clock_));
  EXPECT_EQ(stores->disk(), shared_.cache_folder);
  EXPECT_EQ(stores->why_not_ready(), "");
  EXPECT_THAT(stores->credentials()->Reload(), IsOkAndHolds(false));
  ASSERT_THAT(Append(*stores->datasets(), "set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, stores->datasets()->OpenReader("set"));
  PH_ASSERT_OK_AND_ASSIGN(const auto again, stores->datasets()->OpenReader("set"));
  const metrics::SharedDatasetsReading read = stores->Read();
  EXPECT_GT(read.cached_bytes, 0U);
  EXPECT_EQ(read.in_use_bytes, read.cached_bytes);
  EXPECT_EQ(read.max_cached_bytes, shared_.cache_bytes);
  EXPECT_EQ(read.hits, 1U);
  EXPECT_EQ(read.misses, 1U);
  EXPECT_EQ(read.evictions + read.num_retries + read.swept_objects + read.swept_bytes +
                read.orphaned_objects + read.failed_sweeps,
            0U);
  // Graphs are built here, so many; their companions say whose servers are there.
  const SourceGraphSchema schema =
      SourceGraphSchema::Create({{"n", {}}}, {{"e", 0, 0, {}, std::nullopt}}).value();
  SourceGraphStore& graphs = *stores->source_graphs();
  for (const char* const name : {"g", "h"}) {
    ASSERT_THAT(graphs.Create(name, schema, SourceGraphOptions()), IsOk());
  }
  EXPECT_THAT(graphs.Create("i", schema, SourceGraphOptions()),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
  ASSERT_THAT(graphs.Seal("g", SealOptions(), [](const SourceGraphProgress&) { return true; }),
              IsOk());
  EXPECT_EQ(stores->companions()->server(), "127.0.0.1:1");
  for (const auto& [server, lives] :
       {std::pair("127.0.0.1:1", true), {"127.0.0.1:2", true}, {"127.0.0.1:3", false}}) {
    SharedCompanion wanted;
    wanted.graph = {"g", graphs.Get("g")->id};
    wanted.name = absl::StrCat("of ", server);
    wanted.server = server;
    ASSERT_THAT(stores->companions()->Put(wanted), IsOk());
    EXPECT_EQ(stores->companions()->Find(wanted.graph, wanted.name)->server_lives, lives);
  }
  // Nothing expires before all servers say that it does.
  const auto nobody = [](absl::FunctionRef<void(const std::string&)>) {};
  const Uses of_sets = stores->DatasetUses(retention).value()(nobody);
  const Uses of_graphs = stores->SourceGraphUses(retention).value()(nobody);
  for (const Uses* const uses : {&of_sets, &of_graphs}) {
    ASSERT_THAT(uses->shared()->BeginSweep(), IsOk());
    EXPECT_THAT(uses->shared()->EndSweep(), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(other, Join("127.0.0.1:2"));
  for (const auto& [uses, flag] :
       {std::pair(&of_sets, "--dataset-retention"), {&of_graphs, "--source-graph-retention"}}) {
    ASSERT_THAT(uses->shared()->BeginSweep(), IsOk());
    EXPECT_THAT(uses->shared()->EndSweep(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(flag), HasSubstr("127.0.0.1:2"))));
  }
}

TEST_F(ClusterInS3Test, WhatKeepsAServerFromItsStoresIsSaid) {
  shared_.region = "a b";
  PH_ASSERT_OK_AND_ASSIGN(const auto member, JoinWith({}));
  EXPECT_THAT(member->OpenStores(options_, clock_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--store s3://b: "), HasSubstr("'a b'"))));
}

// Checked, repaired, copied into a folder, and restored from it into stores that are empty.
TEST_F(ClusterInS3Test, CommandsWorkOnWhatServersShare) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto member, JoinWith({}));
    PH_ASSERT_OK_AND_ASSIGN(const auto stores, member->OpenStores(options_, clock_));
    ASSERT_THAT(Append(*stores->datasets(), "set"), IsOk());
  }
  std::string store;
  CLI::App check;
  check.add_option("folder", store);
  const SharedCheck run_check = AddSharedCheck(check);
  CLI::App repair;
  repair.add_option("folder", store);
  const SharedRepair run_repair = AddSharedRepair(repair);
  CLI::App snapshot;
  snapshot.add_option("folder", store);
  const SharedSnapshot take = AddSharedSnapshot(snapshot);
  StoredCounts counts;
  std::vector<std::string> damages;
  const auto found = [&](const StoredDamage& damage) {
    damages.push_back(absl::StrCat(damage.file, "|", damage.place));
  };
  const auto go_on = [](const SnapshotReport&) { return true; };
  const std::string files = folder_.path() + "/snapshot";
  RepairReport report;
  const auto refused = [](const absl::Status& status, absl::string_view what) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(what))));
  };
  // Without flags, a folder is no matter of servers.
  EXPECT_THAT(run_check("/folder", found, counts), IsOk());
  EXPECT_THAT(run_repair("/folder", {true}, report), IsOk());
  EXPECT_THAT(take("/folder", files, go_on), IsOkAndHolds(std::nullopt));
  refused(run_check("file://x", found, counts), "file://x");
  refused(run_repair("file://x", {true}, report), "file://x");
  refused(take("file://x", files, go_on).status(), "file://x");
  refused(run_check("s3://b", found, counts), "--ledger");
  for (CLI::App* const app : {&check, &repair, &snapshot}) Parse(*app, s3_);
  EXPECT_THAT(run_check("s3://b", found, counts), IsOk());
  EXPECT_EQ(counts.num_datasets, 1U);
  EXPECT_THAT(damages, IsEmpty());
  PH_ASSERT_OK_AND_ASSIGN(const auto taken, take("s3://b", files, go_on));
  ASSERT_TRUE(taken.has_value());
  refused(take("/folder", files, go_on).status(), "--ledger");
  // Also of servers with copies of a folder, whose keys alone are looked at.
  for (const char* const uri : {"s3://b", "/folder"}) {
    Put("hist/h/x", "?");
    damages.clear();
    EXPECT_THAT(run_check(uri, found, counts), IsOk());
    EXPECT_THAT(damages, ElementsAre(options_.membership.ledger + "|hist/h/x"));
    report = RepairReport();
    EXPECT_THAT(run_repair(uri, {true}, report), IsOk());
    EXPECT_THAT(report.done, ElementsAre(HasSubstr("hist/h/x")));
    damages.clear();
    EXPECT_THAT(run_check(uri, found, counts), IsOk());
    EXPECT_THAT(damages, IsEmpty());
  }
  const SmallS3 empty;
  options_.membership.ledger += "-restored";
  CLI::App restore;
  restore.add_option("folder", store);
  const SharedSnapshot run_restore = AddSharedRestore(restore);
  Parse(restore, empty);
  EXPECT_THAT(run_restore("s3://b", files, go_on), IsOk());
  EXPECT_GT(empty.objects.num_objects(), 0U);
  LedgerAddress restored;
  restored.uri = options_.membership.ledger;
  keys_ = ConnectLedger(restored).value();
  EXPECT_EQ(NumKeys("ds/name/"), 1U);
  EXPECT_THAT(LivingStore::Join(std::move(keys_)), IsOk());
  EXPECT_THAT(run_restore("s3://b", files, go_on),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
}

}  // namespace
}  // namespace packhouse
