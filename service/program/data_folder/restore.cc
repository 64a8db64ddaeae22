// Checking and restoring of snapshots (snapshot.h).
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/digest.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/graph_names.h"
#include "service/program/data_folder/snapshot.h"
#include "service/program/data_folder/value_file.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/datasets_cut.h"

namespace packhouse {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kRecordsInAppend = 4096;
constexpr uint64_t kBytesInAppend = uint64_t{16} << 20;

// Gives each part of a file, and returns its checksum.
absl::StatusOr<std::string> ReadParts(
    const DiskFile& file, absl::FunctionRef<absl::Status(uint64_t, absl::string_view)> take) {
  Digest digest;
  std::string bytes(kReadBytes, '\0');
  for (uint64_t at = 0;;) {
    PH_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(at, bytes.data(), bytes.size()));
    if (got == 0) return digest.Hex(32);
    const absl::string_view part = absl::string_view(bytes).substr(0, got);
    digest.AddBytes(part);
    PH_RETURN_IF_ERROR(take(at, part));
    at += got;
  }
}

absl::Status WrongChecksum(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, ": its checksum is not that of the manifest"));
}

std::string CostOf(const std::string& path) {
  if (absl::StartsWith(path, kSnapshotRecords)) return "data sets' records in this file";
  if (absl::StartsWith(path, "datasets/")) return "all data sets of the snapshot";
  if (absl::StartsWith(path, "delivery/")) return "all jobs and measured models of the snapshot";
  if (absl::StartsWith(path, kSnapshotGraphs)) return "a source graph or a partition of it";
  if (path == absl::StrCat(kSnapshotFiles, kHistogramsFile)) return "all named histograms";
  return "this file";
}

// Copies a file with its name durable once its folder is synced.
absl::Status CopyChecked(const std::string& from, const std::string& to, const std::string& hex) {
  PH_RETURN_IF_ERROR(MakeFolder(to.substr(0, to.rfind('/'))));
  PH_ASSIGN_OR_RETURN(const DiskFile source, DiskFile::Open(from, DiskFile::Mode::kRead));
  PH_ASSIGN_OR_RETURN(const DiskFile target, DiskFile::Open(to, DiskFile::Mode::kNew));
  PH_ASSIGN_OR_RETURN(const std::string found,
                      ReadParts(source, [&target](uint64_t at, absl::string_view bytes) {
                        return target.WriteAt(at, bytes);
                      }));
  if (found != hex) return WrongChecksum(from);
  return target.Sync();
}

// The values of several files, one after the other.
class ValueFiles {
 public:
  struct File {
    std::string path;
    std::string checksum;
  };
  explicit ValueFiles(std::vector<File> files) : files_(std::move(files)) {}

  absl::StatusOr<bool> Next(absl::string_view& key, absl::string_view& value) {
    for (;;) {
      if (reader_) {
        PH_ASSIGN_OR_RETURN(const bool has_one, reader_->Next(key, value));
        if (has_one) return true;
        reader_.reset();
      }
      if (next_ == files_.size()) return false;
      const File& file = files_[next_++];
      PH_ASSIGN_OR_RETURN(reader_, ValueReader::Open(file.path, file.checksum));
    }
  }

 private:
  std::vector<File> files_;
  size_t next_ = 0;
  std::optional<ValueReader> reader_;
};

absl::Status RestoreDatasets(const std::string& folder, const SnapshotManifest& manifest,
                             const std::string& data_dir) {
  std::vector<ValueFiles::File> files = {
      {absl::StrCat(folder, "/", kSnapshotValues), manifest.files.at(kSnapshotValues)}};
  for (const auto& [path, hex] : manifest.files) {
    if (absl::StartsWith(path, kSnapshotRecords)) {
      files.push_back({absl::StrCat(folder, "/", path), hex});
    }
  }
  ValueFiles values(std::move(files));
  return RestoreDatasetFolder(DatasetsFolder(data_dir), manifest.page_bytes, manifest.dataset_bytes,
                              [&values](absl::string_view& key, absl::string_view& value) {
                                return values.Next(key, value);
                              });
}

absl::Status RestoreLedger(const std::string& folder, const SnapshotManifest& manifest,
                           const std::string& data_dir) {
  LmdbJobLogs::Options options;
  options.folder = DeliveryFolder(data_dir);
  PH_ASSIGN_OR_RETURN(const auto logs, LmdbJobLogs::Open(options));
  PH_ASSIGN_OR_RETURN(ValueReader reader,
                      ValueReader::Open(absl::StrCat(folder, "/", kSnapshotLedger),
                                        manifest.files.at(kSnapshotLedger)));
  // Records of one job that are not appended yet.
  std::string job;
  std::vector<std::string> records;
  uint64_t bytes = 0;
  const auto append = [&]() -> absl::Status {
    if (records.empty()) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(const JobPlace place, logs->Open(job));
    PH_RETURN_IF_ERROR(place.log->Append(records));
    records.clear();
    bytes = 0;
    return absl::OkStatus();
  };
  for (;;) {
    absl::string_view key;
    absl::string_view record;
    PH_ASSIGN_OR_RETURN(const bool has_one, reader.Next(key, record));
    if (!has_one) return append();
    if (key.empty()) {
      PH_ASSIGN_OR_RETURN(const uint64_t mark, DecodeNumber(record));
      PH_RETURN_IF_ERROR(logs->RaiseMark(mark));
      continue;
    }
    if (key != job || records.size() >= kRecordsInAppend || bytes >= kBytesInAppend) {
      PH_RETURN_IF_ERROR(append());
      job = std::string(key);
    }
    records.emplace_back(record);
    bytes += record.size();
  }
}

absl::Status RestoreFiles(const std::string& folder, const SnapshotManifest& manifest,
                          const std::string& data_dir) {
  PH_RETURN_IF_ERROR(MakeFolder(SourceGraphsFolder(data_dir)));
  for (const auto& [path, hex] : manifest.files) {
    const std::string from = absl::StrCat(folder, "/", path);
    if (absl::StartsWith(path, kSnapshotGraphs)) {
      PH_RETURN_IF_ERROR(CopyChecked(from, absl::StrCat(data_dir, "/", path), hex));
    } else if (absl::StartsWith(path, kSnapshotFiles)) {
      const std::string to =
          absl::StrCat(data_dir, "/", absl::string_view(path).substr(sizeof(kSnapshotFiles) - 1));
      // Nobody else may read it, also while it is being written.
      PH_RETURN_IF_ERROR(DiskFile::Open(to, DiskFile::Mode::kNew).status());
      std::error_code error;
      std::filesystem::permissions(
          to, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
      if (error) return DiskStatus(error.value(), "cannot make private", to);
      PH_RETURN_IF_ERROR(CopyChecked(from, to, hex));
    }
  }
  // A graph without partitions has an empty folder for them, which no file of the snapshot is in.
  std::error_code error;
  std::vector<std::string> folders = {data_dir};
  for (std::filesystem::recursive_directory_iterator entry(SourceGraphsFolder(data_dir), error),
       end;
       !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(error)) folders.push_back(entry->path().string());
  }
  if (error) return DiskStatus(error.value(), "cannot list", SourceGraphsFolder(data_dir));
  folders.push_back(SourceGraphsFolder(data_dir));
  for (const std::string& made : folders) PH_RETURN_IF_ERROR(SyncFolder(made));
  return absl::OkStatus();
}

// Sealed graphs have a companion folder, also if it is empty.
absl::Status MakeCompanions(const SnapshotManifest& manifest, const std::string& data_dir) {
  for (const auto& [path, hex] : manifest.files) {
    if (!absl::StartsWith(path, kSnapshotGraphs) ||
        !absl::EndsWith(path, absl::StrCat("/", kSealedGraphFile)) ||
        std::count(path.begin(), path.end(), '/') != 2) {
      continue;
    }
    PH_RETURN_IF_ERROR(MakeFolder(
        absl::StrCat(data_dir, "/", path.substr(0, path.rfind('/')), "/", kGraphCompanions)));
  }
  return absl::OkStatus();
}

// What is in the folder, besides the mark.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& data_dir) {
  std::vector<std::string> there;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(data_dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // lost+found is the file system's own.
    if (name != kRestoringMark && name != "lost+found") there.push_back(entry->path().string());
  }
  if (error) return DiskStatus(error.value(), "cannot list", data_dir);
  return there;
}

absl::Status NotEmpty(const std::string& data_dir, const std::string& first) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", data_dir, "' is not empty, it has '", first,
                   "': a snapshot is restored into an empty folder only"));
}

// Makes the folder ready to be written to: there is a mark, and nothing else.
absl::StatusOr<DiskFile> BeginRestore(const std::string& data_dir) {
  const std::string mark = absl::StrCat(data_dir, "/", kRestoringMark);
  PH_RETURN_IF_ERROR(MakeFolder(data_dir));
  std::error_code error;
  const bool was_stopped = std::filesystem::exists(mark, error);
  if (!was_stopped) {
    PH_ASSIGN_OR_RETURN(const auto before, ListFolder(data_dir));
    if (!before.empty()) return NotEmpty(data_dir, before[0]);
  }
  PH_ASSIGN_OR_RETURN(DiskFile file, DiskFile::Open(mark, was_stopped ? DiskFile::Mode::kRead
                                                                      : DiskFile::Mode::kAppend));
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process restores a snapshot into '", data_dir, "'"));
  }
  // The one that had the lock may have come to its end: then there is no mark, or another one.
  struct stat locked = {};
  struct stat marked = {};
  if (::fstat(file.fd(), &locked) != 0 || ::stat(mark.c_str(), &marked) != 0 ||
      locked.st_ino != marked.st_ino) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process has restored a snapshot into '", data_dir, "'"));
  }
  PH_ASSIGN_OR_RETURN(const auto there, ListFolder(data_dir));
  if (!was_stopped && !there.empty()) {
    PH_RETURN_IF_ERROR(RemoveAll(mark));
    return NotEmpty(data_dir, there[0]);
  }
  PH_RETURN_IF_ERROR(SyncFolder(data_dir));
  for (const std::string& path : there) PH_RETURN_IF_ERROR(RemoveAll(path));
  return file;
}

}  // namespace

absl::StatusOr<SnapshotManifest> CheckSnapshot(const std::string& folder, DamageVisitor found) {
  const auto manifest = ReadSnapshotManifest(folder);
  if (absl::IsDataLoss(manifest.status())) {
    found({absl::StrCat(folder, "/", kSnapshotManifest), "",
           std::string(manifest.status().message()), "the snapshot"});
    return SnapshotManifest();
  }
  PH_RETURN_IF_ERROR(manifest.status());
  for (const auto& [path, hex] : manifest->files) {
    const std::string file = absl::StrCat(folder, "/", path);
    const auto opened = DiskFile::Open(file, DiskFile::Mode::kRead);
    const auto digest =
        opened.ok()
            ? ReadParts(*opened, [](uint64_t, absl::string_view) { return absl::OkStatus(); })
            : opened.status();
    if (!digest.ok()) {
      found({file, "", std::string(digest.status().message()), CostOf(path)});
    } else if (*digest != hex) {
      found({file, "", "its checksum is not that of the manifest", CostOf(path)});
    }
  }
  return manifest;
}

absl::Status RestoreSnapshot(const std::string& folder, const std::string& data_dir) {
  // Before all of it is read. What is damaged is said below.
  if (const auto what = ReadSnapshotManifest(folder);
      what.ok() && what->files.contains(kSnapshotKeys)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", folder,
        "' is a snapshot of what the servers of a cluster share, not of a data folder: restore it "
        "into stores, by packhoused store restore ",
        folder, " s3://BUCKET/EMPTY --ledger etcd://HOST/EMPTY"));
  }
  uint64_t num_damaged = 0;
  StoredDamage first;
  PH_ASSIGN_OR_RETURN(const SnapshotManifest manifest,
                      CheckSnapshot(folder, [&](StoredDamage damage) {
                        if (num_damaged++ == 0) first = std::move(damage);
                      }));
  if (num_damaged != 0) {
    return absl::DataLossError(absl::StrCat("'", first.file, "': ", first.what, "; ", num_damaged,
                                            " files of the snapshot are damaged, nothing was "
                                            "restored"));
  }
  for (const char* const needed : {kSnapshotValues, kSnapshotLedger}) {
    if (manifest.files.contains(needed)) continue;
    return absl::DataLossError(absl::StrCat("'", folder, "' has no ", needed));
  }
  PH_ASSIGN_OR_RETURN(const DiskFile mark, BeginRestore(data_dir));
  PH_RETURN_IF_ERROR(RestoreDatasets(folder, manifest, data_dir));
  PH_RETURN_IF_ERROR(RestoreLedger(folder, manifest, data_dir));
  PH_RETURN_IF_ERROR(MakeCompanions(manifest, data_dir));
  PH_RETURN_IF_ERROR(RestoreFiles(folder, manifest, data_dir));
  PH_RETURN_IF_ERROR(RewriteFolderContents(data_dir, ReadIdentities(data_dir)));
  return RemoveDurably(absl::StrCat(data_dir, "/", kRestoringMark));
}

}  // namespace packhouse
