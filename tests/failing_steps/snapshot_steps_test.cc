// A snapshot and a restore, whichever of their steps fails: whole, or none; and they go on when
// they are asked for again. A folder is checked, repaired and compacted as a whole, or it is said
// that it was not. (A restore is a command, which nobody can cancel: ending it is a call of the
// disk that has not come.)
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/lmdb_log_repair.h"
#include "service/program/data_folder/maintenance.h"
#include "service/program/data_folder/snapshot.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/stored_keys.h"
#include "tests/data_folder/folder_world.h"
#include "tests/support/failing_disk.h"
#include "tests/support/failing_lmdb.h"
#include "tests/support/failing_steps.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

const absl::Time kTaken = absl::FromUnixSeconds(1'700'000'000);
constexpr uint64_t kMostSteps = 6;

// A data folder that is made once, and what it has.
class Original {
 public:
  Original() {
    MakeDataFolder(data_dir_);
    contents_ = ReadContents(data_dir_);
    EXPECT_TRUE(
        TakeSnapshotOffline(data_dir_, kSourceGraphs, snapshot_, kTaken, [](const SnapshotReport&) {
          return true;
        }).ok());
  }
  const std::string& data_dir() const { return data_dir_; }
  const std::string& snapshot() const { return snapshot_; }
  // "as it was" if a folder has the same.
  std::string StateOf(const std::string& data_dir) const {
    return ReadContents(data_dir) == contents_ ? "as it was" : "something else";
  }

 private:
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string data_dir_ = folder_.path() + "/data";
  const std::string snapshot_ = folder_.path() + "/snapshot";
  Contents contents_;
};

class SnapshotWorld final : public StepsWorld {
 public:
  SnapshotWorld(const Original& original, CountedSteps* cancelled)
      : original_(original), cancelled_(cancelled) {
    std::filesystem::create_directory(folder_);
  }
  absl::Status Attempt() override {
    return TakeSnapshotOffline(original_.data_dir(), kSourceGraphs, snapshot_, kTaken,
                               [this](const SnapshotReport&) {
                                 return cancelled_ == nullptr || !cancelled_->Fails();
                               })
        .status();
  }
  // What is half done is kept for the next try, and is no snapshot.
  std::string State() override {
    uint64_t num_damaged = 0;
    const auto manifest = CheckSnapshot(snapshot_, [&](const StoredDamage&) { ++num_damaged; });
    EXPECT_EQ(num_damaged, 0U);
    if (absl::IsNotFound(manifest.status())) return "none";
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const TemporaryFolder restored(TemporaryFolder::InMemory());
    const absl::Status status = RestoreSnapshot(snapshot_, restored.path() + "/it");
    EXPECT_TRUE(status.ok()) << status;
    return original_.StateOf(restored.path() + "/it");
  }
  std::string folder() const override { return folder_; }

 private:
  const Original& original_;
  CountedSteps* const cancelled_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
  const std::string snapshot_ = folder_ + "/snapshot";
};

class RestoreWorld final : public StepsWorld {
 public:
  explicit RestoreWorld(const Original& original) : original_(original) {
    std::filesystem::create_directory(folder_);
  }
  absl::Status Attempt() override { return RestoreSnapshot(original_.snapshot(), data_dir_); }
  // A server does not start in a folder that is half restored.
  std::string State() override {
    if (!CheckRestored(data_dir_).ok() || !std::filesystem::exists(data_dir_) ||
        std::filesystem::is_empty(data_dir_)) {
      return "none";
    }
    return original_.StateOf(data_dir_);
  }
  std::string folder() const override { return folder_; }

 private:
  const Original& original_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
  const std::string data_dir_ = folder_ + "/data";
};

StepsOptions Options(absl::StatusCode again, bool each_kind = false) {
  StepsOptions options;
  options.most_steps = each_kind ? 0 : kMostSteps;
  options.each_kind = each_kind;
  options.again = again;
  return options;
}

TEST(SnapshotStepsTest, ASnapshotIsCancelled) {
  const Original original;
  CancelledSteps cancelled;
  ExpectDoneOrNot([&] { return std::make_unique<SnapshotWorld>(original, &cancelled); }, cancelled,
                  Options(absl::StatusCode::kAlreadyExists));
}

TEST(SnapshotStepsTest, TheDiskOfASnapshotFails) {
  const Original original;
  for (const int error : {EIO, ENOSPC, EMFILE, EINTR}) {
    FailingDisk disk({error, false, error == EIO});
    ExpectDoneOrNot([&] { return std::make_unique<SnapshotWorld>(original, nullptr); }, disk,
                    Options(absl::StatusCode::kAlreadyExists, error == EIO));
  }
}

// Of what is read, which nothing writes to.
TEST(SnapshotStepsTest, TheDiskThatIsReadFails) {
  const Original original;
  const auto expect_refused = [](const std::string& folder,
                                 absl::FunctionRef<absl::Status(const std::string& to)> copy,
                                 absl::FunctionRef<bool(const std::string& to)> is_whole) {
    int num_refused = 0;
    ForEachStep([&](uint64_t step) {
      const TemporaryFolder above(TemporaryFolder::InMemory());
      const std::string to = above.path() + "/it";
      // Some of them: a file is opened, read and read to its end.
      FailingCalls failing(folder, FailingCalls::Failure{step * 5, EIO});
      const absl::Status copied = copy(to);
      failing.Stop();
      SCOPED_TRACE(testing::Message() << failing.what() << ": " << copied);
      EXPECT_EQ(is_whole(to), copied.ok());
      if (!copied.ok()) {
        ++num_refused;
        EXPECT_TRUE(absl::StrContains(copied.message(), std::strerror(EIO)));
      }
      return failing.has_failed();
    });
    EXPECT_GT(num_refused, 10);
  };
  expect_refused(
      original.snapshot(),
      [&](const std::string& to) { return RestoreSnapshot(original.snapshot(), to); },
      [](const std::string& to) {
        return std::filesystem::exists(to) && CheckRestored(to).ok() &&
               !std::filesystem::is_empty(to);
      });
  expect_refused(
      original.data_dir(),
      [&](const std::string& to) {
        return TakeSnapshotOffline(original.data_dir(), kSourceGraphs, to, kTaken,
                                   [](const SnapshotReport&) { return true; })
            .status();
      },
      [](const std::string& to) { return ReadSnapshotManifest(to).ok(); });
}

// A stopped snapshot that has more than the new one: what is longer is cut off, what is another's
// goes.
class GoesOnWorld final : public StepsWorld {
 public:
  explicit GoesOnWorld(const Original& original) : original_(original) {
    std::filesystem::copy(original.snapshot(), folder_, std::filesystem::copy_options::recursive);
    std::filesystem::remove(folder_ + "/manifest");
    for (const char* const file : {"/unfinished", "/stray", "/delivery/records"}) {
      std::ofstream(folder_ + file, std::ios::app) << "more";
    }
  }
  absl::Status Attempt() override {
    return TakeSnapshotOffline(original_.data_dir(), kSourceGraphs, folder_, kTaken,
                               [](const SnapshotReport&) { return true; })
        .status();
  }
  std::string State() override {
    if (!ReadSnapshotManifest(folder_).ok()) return "none";
    uint64_t num_damaged = 0;
    const auto manifest = CheckSnapshot(folder_, [&](const StoredDamage&) { ++num_damaged; });
    return absl::StrCat(num_damaged, " ", std::filesystem::exists(folder_ + "/stray"));
  }
  std::string folder() const override { return folder_; }

 private:
  const Original& original_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
};

TEST(SnapshotStepsTest, TheDiskOfOneThatGoesOnFails) {
  const Original original;
  FailingDisk disk({EIO, false, false});
  ExpectDoneOrNot([&] { return std::make_unique<GoesOnWorld>(original); }, disk,
                  Options(absl::StatusCode::kAlreadyExists, /*each_kind=*/true));
}

// LMDB takes a read that is interrupted for one that has failed. On a local disk none is.
TEST(SnapshotStepsTest, TheDiskOfARestoreFails) {
  const Original original;
  for (const int error : {EIO, ENOSPC, EMFILE}) {
    FailingDisk disk({error, false, error == EIO});
    ExpectDoneOrNot([&] { return std::make_unique<RestoreWorld>(original); }, disk,
                    Options(absl::StatusCode::kFailedPrecondition, error == EIO));
  }
}

TEST(SnapshotStepsTest, LmdbFails) {
  const Original original;
  FailingLmdb failing;
  StepsOptions options = Options(absl::StatusCode::kAlreadyExists);
  options.most_steps = 50;
  ExpectDoneOrNot([&] { return std::make_unique<SnapshotWorld>(original, nullptr); }, failing,
                  options);
  options.again = absl::StatusCode::kFailedPrecondition;
  ExpectDoneOrNot([&] { return std::make_unique<RestoreWorld>(original); }, failing, options);
}

// A sound folder. To compact it, the last of them, leaves what it has.
class MaintainedWorld final : public StepsWorld {
 public:
  using Maintain = absl::Status (*)(const std::string& data_dir);
  MaintainedWorld(const Original& original, Maintain maintain, bool writes)
      : original_(original), maintain_(maintain), writes_(writes) {
    std::filesystem::copy(original.data_dir(), folder_, std::filesystem::copy_options::recursive);
  }
  absl::Status Attempt() override { return maintain_(folder_); }
  std::string State() override { return writes_ ? original_.StateOf(folder_) : "as it was"; }
  std::string folder() const override { return folder_; }

 private:
  const Original& original_;
  const Maintain maintain_;
  const bool writes_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
};

// A folder of which a job, what is said of all jobs, and the histograms are lost.
class RepairedWorld final : public StepsWorld {
 public:
  explicit RepairedWorld(const std::string& damaged) {
    std::filesystem::copy(damaged, folder_, std::filesystem::copy_options::recursive);
  }
  absl::Status Attempt() override {
    return RepairDataFolder(folder_, {.accept_missing = true}, kSourceGraphs).status();
  }
  std::string State() override {
    uint64_t num_damaged = 0;
    const auto checked = CheckDataFolder(
        folder_, [&](const StoredDamage&) { ++num_damaged; }, kSourceGraphs);
    return num_damaged == 0 && checked.ok() ? absl::StrCat(checked->num_ledger_records, " records")
                                            : "damaged";
  }
  std::string folder() const override { return folder_; }

 private:
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
};

TEST(MaintenanceStepsTest, TheDiskOfARepairWithoutWhatIsMissingFails) {
  const TemporaryFolder above(TemporaryFolder::InMemory());
  const std::string damaged = above.path() + "/data";
  MakeDataFolder(damaged);
  ASSERT_TRUE(NoteFolderContents(damaged, ReadIdentities(damaged)).ok());
  WriteFile(damaged + "/histograms", "");
  PutRaw(DeliveryFolder(damaged), RecordKey(1, 2), "not its checksum");
  EraseKey(DeliveryFolder(damaged), LogTailKey());
  const auto make = [&] { return std::make_unique<RepairedWorld>(damaged); };
  FailingDisk disk({EIO, false, false});
  ExpectDoneOrNot(make, disk, Options(absl::StatusCode::kOk, /*each_kind=*/true));
}

TEST(MaintenanceStepsTest, TheDiskFails) {
  const Original original;
  static std::string whole;
  const auto check = [](const std::string& data_dir) -> absl::Status {
    absl::Status damaged;
    PH_ASSIGN_OR_RETURN(const StoredCounts counts,
                        CheckDataFolder(
                            data_dir,
                            [&damaged](const StoredDamage& damage) {
                              damaged.Update(absl::DataLossError(damage.what));
                            },
                            kSourceGraphs));
    PH_RETURN_IF_ERROR(damaged);
    const std::string told = absl::StrCat(counts.num_datasets, " ", counts.num_ledger_records, " ",
                                          counts.num_source_graphs, " ", counts.num_histograms);
    if (whole.empty()) whole = told;
    EXPECT_EQ(told, whole);
    return absl::OkStatus();
  };
  const auto repair = [](const std::string& data_dir) {
    return RepairDataFolder(data_dir, RepairOptions(), kSourceGraphs).status();
  };
  const auto compact = [](const std::string& data_dir) {
    return CompactDataFolder(data_dir).status();
  };
  for (const MaintainedWorld::Maintain maintain :
       {MaintainedWorld::Maintain(check), MaintainedWorld::Maintain(repair),
        MaintainedWorld::Maintain(compact)}) {
    for (const int error : {EIO, EMFILE}) {
      FailingDisk disk({error, false, false});
      const bool writes = maintain == MaintainedWorld::Maintain(compact);
      ExpectDoneOrNot([&] { return std::make_unique<MaintainedWorld>(original, maintain, writes); },
                      disk, Options(absl::StatusCode::kOk, /*each_kind=*/true));
    }
    FailingLmdb failing;
    const bool writes = maintain == MaintainedWorld::Maintain(compact);
    StepsOptions options;
    options.most_steps = 60;
    ExpectDoneOrNot([&] { return std::make_unique<MaintainedWorld>(original, maintain, writes); },
                    failing, options);
  }
}

// A record of a job's log is lost.
class DamagedLogWorld final : public StepsWorld {
 public:
  explicit DamagedLogWorld(const Original& original) {
    std::filesystem::copy(original.data_dir(), folder_, std::filesystem::copy_options::recursive);
    const auto environment = LmdbEnvironment::Open(logs_, uint64_t{1} << 26);
    EXPECT_TRUE(environment.ok()) << environment.status();
    auto transaction = LmdbTransaction::Begin(**environment, LmdbTransaction::Kind::kWrite);
    EXPECT_TRUE(transaction.ok() && transaction->Erase(RecordKey(1, 2)).ok() &&
                transaction->Commit().ok());
  }
  absl::Status Attempt() override {
    const auto report = RepairDataFolder(folder_, {}, kSourceGraphs);
    EXPECT_TRUE(!report.ok() || report->lost_jobs.size() == 1 || !report->is_changed);
    return report.status();
  }
  std::string State() override {
    const auto found = ReadDamagedLogs(logs_);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return "unreadable";
    std::string state = absl::StrJoin(found->disorder, ", ");
    for (const FoundLog& log : found->logs) {
      absl::StrAppend(&state, "; ", log.job, " to ", log.next_sequence);
      for (const FoundRecord& record : log.records) {
        absl::StrAppend(&state, " ", record.status.ok() ? "" : "lost ", record.bytes.size());
      }
    }
    return state;
  }
  std::string folder() const override { return folder_; }

 private:
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
  const std::string logs_ = DeliveryFolder(folder_);
};

TEST(MaintenanceStepsTest, ARepairFails) {
  const Original original;
  FailingLmdb failing;
  StepsOptions options;
  options.most_steps = 80;
  ExpectDoneOrNot([&] { return std::make_unique<DamagedLogWorld>(original); }, failing, options);
  FailingDisk disk({EIO, false, false});
  ExpectDoneOrNot([&] { return std::make_unique<DamagedLogWorld>(original); }, disk,
                  Options(absl::StatusCode::kOk, /*each_kind=*/true));
}

}  // namespace
}  // namespace packhouse
