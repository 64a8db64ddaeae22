// A data folder is opened whole, or it is said of which flag what is wrong, and nothing is made.
#include "service/program/folder_stores.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/program/wing.h"
#include "service/stores/limits/data_folder.h"
#include "tests/support/recorded_log.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

namespace fs = std::filesystem;

class WingOfAFolder final : public Wing {
 public:
  absl::Status OpenFolder(const Options& /*options*/) override {
    return is_sound ? absl::OkStatus() : absl::DataLossError("graphs are torn");
  }
  bool is_sound = true;
};

class FolderStoresTest : public ::testing::Test {
 protected:
  // Of folder `name`, which then has what it must have.
  absl::StatusOr<FolderStores> Open(const std::string& name) {
    Options options;
    options.data_dir = PathOf(name);
    options.wings = {wing_};
    metrics_ = std::make_unique<metrics::Metrics>("1");
    auto stores = FolderStores::Open(options, *metrics_, limited_log_, clock_);
    if (stores.ok()) {
      EXPECT_THAT(NoteFolderContents(options.data_dir, stores->identities()), IsOk());
    }
    return stores;
  }
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }
  void Replace(const std::string& name, const std::string& with) {
    fs::remove_all(PathOf(name));
    fs::rename(PathOf(with), PathOf(name));
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  SimulatedClock clock_;
  RecordedLog log_;
  LimitedLog limited_log_{&log_, [this] { return clock_.Now(); }};
  std::unique_ptr<metrics::Metrics> metrics_;
  const std::shared_ptr<WingOfAFolder> wing_ = std::make_shared<WingOfAFolder>();
};

TEST_F(FolderStoresTest, WhatIsWrongIsToldAndNothingIsMade) {
  struct Case {
    const char* what;
    std::function<void()> spoil;
    absl::StatusCode code;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"half restored", [&] { std::ofstream(PathOf("data/") + kRestoringMark) << "x"; },
       absl::StatusCode::kFailedPrecondition, ""},
      {"no data sets", [&] { fs::remove_all(PathOf("data/datasets")); },
       absl::StatusCode::kDataLoss, "datasets"},
      {"no jobs", [&] { fs::remove_all(PathOf("data/delivery")); }, absl::StatusCode::kDataLoss,
       "delivery"},
      {"another's data sets", [&] { Replace("data/datasets", "other/datasets"); },
       absl::StatusCode::kDataLoss, "datasets"},
      {"another's jobs", [&] { Replace("data/delivery", "other/delivery"); },
       absl::StatusCode::kDataLoss, "delivery"},
      {"a torn wing", [&] { wing_->is_sound = false; }, absl::StatusCode::kDataLoss,
       "--data-dir: graphs"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    for (const char* const name : {"data", "other"}) {
      fs::remove_all(PathOf(name));
      wing_->is_sound = true;
      ASSERT_THAT(Open(name).status(), IsOk());
    }
    each.spoil();
    const bool had_datasets = fs::exists(PathOf("data/datasets"));
    const bool had_jobs = fs::exists(PathOf("data/delivery"));
    EXPECT_THAT(Open("data").status(), StatusIs(each.code, ::testing::HasSubstr(each.says)));
    EXPECT_EQ(fs::exists(PathOf("data/datasets")), had_datasets);
    EXPECT_EQ(fs::exists(PathOf("data/delivery")), had_jobs);
  }
}

// Where a file is in the way.
TEST_F(FolderStoresTest, AStoreThatCannotBeOpenedIsOfTheFlag) {
  for (const char* const store : {"datasets", "delivery"}) {
    const std::string name = std::string("at_") + store;
    fs::create_directories(PathOf(name));
    std::ofstream(PathOf(name) + "/" + store) << "a file";
    const auto opened = Open(name);
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.status().message(), ::testing::HasSubstr("--data-dir: "));
    EXPECT_THAT(opened.status().message(), ::testing::HasSubstr(store));
  }
}

TEST_F(FolderStoresTest, WithoutAFolderKeysAreInMemory) {
  Options options;
  metrics::Metrics metrics("1");
  const auto stores = FolderStores::Open(options, metrics, limited_log_, clock_);
  ASSERT_THAT(stores.status(), IsOk());
  EXPECT_NE(stores->keys, nullptr);
  EXPECT_TRUE(stores->identities().empty());
  EXPECT_EQ(stores->datasets.why_not_ready(), "");
  options.membership.ledger = "etcd://";
  metrics::Metrics others("1");
  EXPECT_EQ(FolderStores::Open(options, others, limited_log_, clock_)->keys, nullptr);
}

TEST_F(FolderStoresTest, IsReadyUntilCommitsFail) {
  auto stores = Open("data");
  ASSERT_THAT(stores.status(), IsOk());
  EXPECT_EQ(stores->identities().size(), 2U);
  EXPECT_EQ(stores->datasets.why_not_ready(), "");
  EXPECT_EQ(stores->why_not_healthy(), "");
  // Which would see that it does not fail.
  stores->datasets.prober.reset();
  CommitSummary full;
  full.outcome = absl::ResourceExhaustedError("full");
  stores->datasets.watch->OnCommitBegin();
  stores->datasets.watch->OnCommitEnd(full);
  EXPECT_THAT(stores->datasets.why_not_ready(), ::testing::HasSubstr("full"));
  EXPECT_EQ(stores->ledger.why_not_ready(), "");
}

}  // namespace
}  // namespace packhouse
