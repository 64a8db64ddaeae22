// The small files of a data folder, and the steps that make a snapshot one, on a disk that fails at
// every step.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "service/access/security/hmac_signer.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/snapshot.h"
#include "service/program/data_folder/snapshot_writer.h"
#include "service/stores/limits/retention.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "service/stores/logs/logged_keys.h"
#include "tests/failing_disk/disk_laws.h"

namespace packhouse {
namespace {

const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

// Of a file as a whole: "old", "new" by what `read` says, "" if there is none.
DiskChange ReplacedFile(std::function<absl::Status(const std::string& folder)> write_old,
                        std::function<absl::Status(const std::string& folder)> write_new,
                        std::function<std::string(const std::string& folder)> read) {
  DiskChange change;
  change.prepare = [write_old](const std::string& folder) { EXPECT_TRUE(write_old(folder).ok()); };
  change.attempt = std::move(write_new);
  change.state = std::move(read);
  change.before = "old";
  change.after = "new";
  return change;
}

absl::Status SaveHistogram(const std::string& folder, const std::string& name) {
  HistogramStore store({});
  SizeHistogram sizes(2);
  EXPECT_TRUE(sizes.Add({{3, 4}}, 10).ok());
  const HistogramKey key = {name, SizeSchema::NodesAndEdges()};
  EXPECT_TRUE(store.Merge(key, sizes, {}, kThen).ok());
  return SaveHistogramFile(store, folder, kThen);
}

TEST(FailingSmallFilesTest, Histograms) {
  ExpectThreeOutcomes(ReplacedFile(
      [](const std::string& folder) { return SaveHistogram(folder, "old"); },
      [](const std::string& folder) { return SaveHistogram(folder, "new"); },
      [](const std::string& folder) {
        std::string names;
        const auto read = ReadHistogramFile(absl::StrCat(folder, "/", kHistogramsFile), nullptr,
                                            [&names](const KeptHistogram& kept) {
                                              names += kept.name;
                                              return absl::OkStatus();
                                            });
        EXPECT_TRUE(read.ok()) << read.status();
        return names;
      }));
}

absl::Status SaveUse(const std::string& folder, const std::string& name) {
  LastUses uses(
      folder + "/last_uses", {absl::Hours(1)}, [] { return kThen; },
      [](absl::FunctionRef<void(const std::string&)>) {});
  if (name == "new") uses.Forget("old");
  uses.Add(name);
  return uses.Save();
}

TEST(FailingSmallFilesTest, LastUses) {
  DiskChange change =
      ReplacedFile([](const std::string& folder) { return SaveUse(folder, "old"); },
                   [](const std::string& folder) { return SaveUse(folder, "new"); },
                   [](const std::string& folder) {
                     const std::string text = ReadWhole(folder + "/last_uses").value_or("");
                     return absl::StrCat(absl::StrContains(text, " old\n") ? "old" : "",
                                         absl::StrContains(text, " new\n") ? "new" : "");
                   });
  ExpectThreeOutcomes(change);
}

// The store of a server that is alone; after that the log ends.
struct FeedbackOnDisk {
  std::unique_ptr<LmdbJobLogs> logs;
  std::unique_ptr<LoggedKeys> keys;
  std::unique_ptr<FeedbackStore> store;
};

absl::StatusOr<FeedbackOnDisk> OpenFeedback(const std::string& folder) {
  LmdbJobLogs::Options options;
  options.folder = folder + "/delivery";
  options.max_bytes = uint64_t{1} << 22;
  FeedbackOnDisk feedback;
  PH_ASSIGN_OR_RETURN(feedback.logs, LmdbJobLogs::Open(options));
  PH_ASSIGN_OR_RETURN(JobPlace place, feedback.logs->Open(kKeysLog));
  PH_ASSIGN_OR_RETURN(feedback.keys, LoggedKeys::Open(std::move(place.log)));
  PH_ASSIGN_OR_RETURN(
      feedback.store,
      FeedbackStore::Open(
          feedback.keys.get(),
          {.replica = "it", .max_models = 3, .now = [] { return kThen; }, .is_alone = true}));
  return feedback;
}

absl::Status ReportTo(const std::string& folder, const std::string& model) {
  PH_ASSIGN_OR_RETURN(const FeedbackOnDisk feedback, OpenFeedback(folder));
  BatchObservation batch;
  batch.capacities = {100, 50, 10};
  batch.seconds = 0.1;
  return feedback.store->Report({model, "cpu"}, {"edges", "nodes", "graphs"}, {batch}, kThen)
      .status();
}

std::string ModelsIn(const std::string& folder) {
  std::string models;
  const auto feedback = OpenFeedback(folder);
  EXPECT_TRUE(feedback.ok()) << feedback.status();
  if (!feedback.ok()) return models;
  const auto all = feedback->store->All();
  for (const auto& [key, kept] : *all) absl::StrAppend(&models, key.model, " ");
  return models;
}

TEST(FailingSmallFilesTest, MeasuredModels) {
  DiskChange change;
  change.prepare = [](const std::string& folder) { EXPECT_TRUE(ReportTo(folder, "old").ok()); };
  change.attempt = [](const std::string& folder) { return ReportTo(folder, "new"); };
  change.state = ModelsIn;
  change.before = "old ";
  change.after = "new old ";
  change.is_in_lmdb = true;
  ExpectThreeOutcomes(change);
}

TEST(FailingSmallFilesTest, ADeletedModel) {
  DiskChange change;
  change.prepare = [](const std::string& folder) { EXPECT_TRUE(ReportTo(folder, "old").ok()); };
  change.attempt = [](const std::string& folder) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const FeedbackOnDisk feedback, OpenFeedback(folder));
    return feedback.store->Delete({"old", "cpu"});
  };
  change.state = ModelsIn;
  change.before = "old ";
  change.after = "";
  change.again = absl::StatusCode::kNotFound;
  change.is_in_lmdb = true;
  ExpectThreeOutcomes(change);
}

TEST(FailingSmallFilesTest, AKeyIsDrawnOnce) {
  DiskChange change;
  change.attempt = [](const std::string& folder) {
    return security::HmacSigner::OpenOrMake(folder + "/signing.key").status();
  };
  change.state = [](const std::string& folder) {
    const absl::Status found = security::HmacSigner::CheckKey(folder + "/signing.key");
    EXPECT_TRUE(found.ok() || absl::IsNotFound(found)) << found;
    return found.ok() ? "a key" : "none";
  };
  change.before = "none";
  change.after = "a key";
  ExpectThreeOutcomes(change);
}

TEST(FailingSmallFilesTest, ContentsOfAFolder) {
  ExpectThreeOutcomes(ReplacedFile(
      [](const std::string& folder) {
        EXPECT_TRUE(MakeFolder(folder + "/source_graphs").ok());
        EXPECT_TRUE(WriteWhole(folder + "/source_graphs", "graphs", "list").ok());
        EXPECT_TRUE(NoteFolderContents(folder, {}).ok());
        return SaveHistogram(folder, "h");
      },
      [](const std::string& folder) { return NoteFolderContents(folder, {}); },
      [](const std::string& folder) -> std::string {
        const auto contents = ReadFolderContents(folder);
        EXPECT_TRUE(contents.ok()) << contents.status();
        EXPECT_TRUE(contents->items.contains("source_graphs"));
        return contents->items.contains(kHistogramsFile) ? "new" : "old";
      }));
}

// A folder is a snapshot, with all its files, or none; a snapshot that does not know goes on.
TEST(FailingSmallFilesTest, ASnapshotIsWholeOrNone) {
  DiskChange change;
  change.attempt = [](const std::string& folder) -> absl::Status {
    const auto go_on = [](const SnapshotReport&) { return true; };
    const SnapshotProgress progress = go_on;
    const auto writer = SnapshotWriter::Begin(folder + "/snapshot", &progress);
    if (!writer.ok()) return writer.status();
    for (const char* const path : {"a/first", "a/b/second"}) {
      const absl::Status written =
          (*writer)->Write(path, [path](SnapshotFile& file) { return file.Append(path); });
      if (!written.ok()) return written;
    }
    return (*writer)->Finish(SnapshotManifest()).status();
  };
  change.state = [](const std::string& folder) -> std::string {
    uint64_t num_damaged = 0;
    const auto manifest =
        CheckSnapshot(folder + "/snapshot", [&](const StoredDamage&) { ++num_damaged; });
    EXPECT_EQ(num_damaged, 0U);
    EXPECT_TRUE(manifest.ok() || absl::IsNotFound(manifest.status())) << manifest.status();
    return manifest.ok() ? "whole" : "none";
  };
  change.before = "none";
  change.after = "whole";
  change.again = absl::StatusCode::kAlreadyExists;
  ExpectThreeOutcomes(change);
}

}  // namespace
}  // namespace packhouse
