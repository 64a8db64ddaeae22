// The place of a server among others, as an etcd has it.
#include "service/program/wings/etcd_membership.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/program/flag_checks.h"
#include "service/program/options.h"
#include "service/stores/keys/shared_uses.h"
#include "service/wings/cluster/shared/store_uri.h"
#include "tests/support/etcd_process.h"
#include "tests/support/recorded_log.h"
#include "tests/support/status_matchers.h"

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
    EXPECT_EQ(a->why_not_ready() == "", !is_restored);
  }
}

}  // namespace
}  // namespace packhouse
