#include "service/program/data_folder/snapshot_writer.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr char kUnfinishedMark[] = "unfinished";
constexpr size_t kCopyBytes = size_t{1} << 20;

bool HasManifest(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(folder, "/", kSnapshotManifest), error);
}

absl::Status AlreadyWhole(const std::string& folder) {
  return absl::AlreadyExistsError(absl::StrCat("'", folder, "' has a whole snapshot already"));
}

bool IsEmptyFolder(const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_empty(folder, error) && !error;
}

}  // namespace

absl::Status SnapshotFile::Append(absl::string_view bytes) {
  digest_.AddBytes(bytes);
  std::string there;
  while (!bytes.empty()) {
    const absl::string_view part = bytes.substr(0, kCopyBytes);
    bytes.remove_prefix(part.size());
    if (is_equal_ && num_bytes_ + part.size() <= existing_bytes_) {
      there.resize(part.size());
      PH_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(num_bytes_, there.data(), there.size()));
      is_equal_ = got == part.size() && there == part;
    } else {
      is_equal_ = false;
    }
    if (is_equal_) {
      report_->num_kept_bytes += part.size();
    } else {
      PH_RETURN_IF_ERROR(file_.WriteAt(num_bytes_, part));
    }
    num_bytes_ += part.size();
    report_->num_bytes += part.size();
    if (!(*progress_)(*report_)) {
      return absl::CancelledError(absl::StrCat("the snapshot was stopped after ",
                                               report_->num_bytes,
                                               " bytes; it goes on when it is asked for again"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SnapshotWriter>> SnapshotWriter::Begin(
    const std::string& folder, const SnapshotProgress* progress) {
  const std::string mark = absl::StrCat(folder, "/", kUnfinishedMark);
  PH_RETURN_IF_ERROR(MakeFolder(folder));
  std::error_code error;
  if (HasManifest(folder) && !std::filesystem::exists(mark, error)) {
    return AlreadyWhole(folder);
  }
  const bool was_stopped = std::filesystem::exists(mark, error);
  if (!was_stopped && !IsEmptyFolder(folder)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", folder, "' is not empty, and has no snapshot that was stopped"));
  }
  auto opened =
      DiskFile::Open(mark, was_stopped ? DiskFile::Mode::kExisting : DiskFile::Mode::kAppend);
  // The one that was writing came to its end just now.
  if (absl::IsNotFound(opened.status()) && HasManifest(folder)) return AlreadyWhole(folder);
  PH_RETURN_IF_ERROR(opened.status());
  DiskFile lock = *std::move(opened);
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process is writing a snapshot into '", folder, "'"));
  }
  // The one that was writing may have come to its end since, and removed the mark that is locked.
  if (struct stat locked = {}; ::fstat(lock.fd(), &locked) != 0 || locked.st_nlink == 0) {
    return AlreadyWhole(folder);
  }
  if (HasManifest(folder)) {
    // Without an earlier mark, the one that is locked was made just now, beside a whole snapshot.
    if (!was_stopped) {
      PH_RETURN_IF_ERROR(RemoveAll(mark));
      return AlreadyWhole(folder);
    }
    // Of one that does not know whether its last step is on the disk. This one is of a new moment.
    PH_RETURN_IF_ERROR(RemoveDurably(absl::StrCat(folder, "/", kSnapshotManifest)));
  }
  PH_RETURN_IF_ERROR(SyncFolder(folder));
  return std::unique_ptr<SnapshotWriter>(new SnapshotWriter(folder, std::move(lock), progress));
}

absl::Status SnapshotWriter::Write(const std::string& path,
                                   absl::FunctionRef<absl::Status(SnapshotFile&)> write) {
  const std::string target = absl::StrCat(folder_, "/", path);
  PH_RETURN_IF_ERROR(MakeFolder(FolderOf(target)));
  PH_ASSIGN_OR_RETURN(DiskFile opened, DiskFile::Open(target, DiskFile::Mode::kAppend));
  PH_ASSIGN_OR_RETURN(const uint64_t existing, opened.Size());
  SnapshotFile file(std::move(opened), existing, &report_, progress_);
  PH_RETURN_IF_ERROR(write(file));
  const bool was_whole = file.is_equal_ && file.num_bytes_ == existing;
  if (file.num_bytes_ < existing) PH_RETURN_IF_ERROR(file.file_.Truncate(file.num_bytes_));
  // Also if it was there: the process that wrote it may have been killed before.
  PH_RETURN_IF_ERROR(file.file_.Sync());
  files_[path] = file.digest_.Hex(32);
  ++report_.num_files;
  if (was_whole && existing != 0) ++report_.num_kept_files;
  return absl::OkStatus();
}

absl::Status SnapshotWriter::Copy(const std::string& path, const DiskFile& source,
                                  uint64_t num_bytes) {
  return Write(path, [&](SnapshotFile& file) -> absl::Status {
    std::string bytes;
    for (uint64_t at = 0; at < num_bytes; at += bytes.size()) {
      bytes.resize(std::min<uint64_t>(kCopyBytes, num_bytes - at));
      PH_ASSIGN_OR_RETURN(const size_t got, source.ReadAt(at, bytes.data(), bytes.size()));
      if (got != bytes.size()) {
        return absl::DataLossError(
            absl::StrCat("'", path, "' ends at byte ", at + got, ", it should have ", num_bytes));
      }
      PH_RETURN_IF_ERROR(file.Append(bytes));
    }
    return absl::OkStatus();
  });
}

absl::Status SnapshotWriter::RemoveStrays() const {
  std::error_code error;
  std::vector<std::string> strays;
  for (std::filesystem::recursive_directory_iterator entry(folder_, error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(error)) continue;
    std::string path = entry->path().string().substr(folder_.size() + 1);
    if (path != kUnfinishedMark && !files_.contains(path)) strays.push_back(std::move(path));
  }
  if (error) return DiskStatus(error.value(), "cannot list", folder_);
  for (const std::string& path : strays) {
    PH_RETURN_IF_ERROR(RemoveAll(absl::StrCat(folder_, "/", path)));
  }
  return absl::OkStatus();
}

absl::StatusOr<SnapshotReport> SnapshotWriter::Finish(SnapshotManifest manifest) {
  PH_RETURN_IF_ERROR(RemoveStrays());
  // The names of all files are on the disk before the manifest says that they are there.
  std::set<std::string> folders = {folder_};
  for (const auto& [path, hex] : files_) {
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      folders.insert(absl::StrCat(folder_, "/", path.substr(0, slash)));
    }
  }
  for (const std::string& folder : folders) PH_RETURN_IF_ERROR(SyncFolder(folder));
  manifest.files = std::move(files_);
  PH_RETURN_IF_ERROR(WriteWhole(folder_, kSnapshotManifest, EncodeSnapshotManifest(manifest)));
  // It is whole now; with the mark beside its manifest, who asks again takes it for one that is
  // not.
  const absl::Status removed = RemoveDurably(absl::StrCat(folder_, "/", kUnfinishedMark));
  if (!removed.ok()) return UnknownOutcome(removed);
  return report_;
}

}  // namespace packhouse
