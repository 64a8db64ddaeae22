#include "service/base/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr mode_t kDiskFileMode = 0640;
constexpr mode_t kPrivateFileMode = 0600;
constexpr char kUnknownOutcomePayload[] = "packhouse/unknown-outcome";

// Calls it again as long as a signal interrupts it.
template <typename Call>
int Uninterrupted(Call call) {
  for (;;) {
    const int result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// An open folder. Not movable.
class OpenFolder {
 public:
  explicit OpenFolder(const std::string& path)
      : path_(path), fd_(Uninterrupted([&path] {
          return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        })) {
    if (fd_ < 0) status_ = DiskStatus(errno, "cannot open", path);
  }
  ~OpenFolder() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  const absl::Status& status() const { return status_; }
  absl::Status Sync() const {
    const int result = Uninterrupted([this] { return ::fsync(fd_); });
    // Some file systems have no fsync for folders.
    if (result == 0 || errno == EINVAL) return absl::OkStatus();
    return DiskStatus(errno, "cannot sync", path_);
  }

 private:
  const std::string& path_;
  const int fd_;
  absl::Status status_;
};

// Syncs a folder after a change in it that can be seen.
absl::Status Settled(const OpenFolder& folder) {
  const absl::Status synced = folder.Sync();
  return synced.ok() ? synced : UnknownOutcome(synced);
}

bool IsGone(const std::string& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) != 0 && errno == ENOENT;
}

}  // namespace

bool DiskOutcomeIsUnknown(const absl::Status& status) {
  return status.GetPayload(kUnknownOutcomePayload).has_value();
}

absl::Status UnknownOutcome(const absl::Status& why) {
  if (DiskOutcomeIsUnknown(why)) return why;
  absl::Status unknown(
      absl::IsDataLoss(why) ? why.code() : absl::StatusCode::kUnavailable,
      absl::StrCat(why.message(),
                   "; it is not known whether the change is on the disk, or will be taken back"));
  unknown.SetPayload(kUnknownOutcomePayload, absl::Cord());
  return unknown;
}

absl::Status DiskStatus(int error, absl::string_view what, const std::string& path) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case ENOENT:
      return absl::NotFoundError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::StatusOr<DiskFile> DiskFile::Open(const std::string& path, Mode mode) {
  int flags = O_CLOEXEC;
  mode_t permissions = kDiskFileMode;
  switch (mode) {
    case Mode::kRead:
      flags |= O_RDONLY;
      break;
    case Mode::kExisting:
      flags |= O_RDWR;
      break;
    case Mode::kAppend:
      flags |= O_RDWR | O_CREAT;
      break;
    case Mode::kNew:
      flags |= O_RDWR | O_CREAT | O_TRUNC;
      break;
    case Mode::kPrivate:
      flags |= O_RDWR | O_CREAT | O_TRUNC;
      permissions = kPrivateFileMode;
      break;
  }
  const int fd = Uninterrupted([&] { return ::open(path.c_str(), flags, permissions); });
  if (fd < 0) return DiskStatus(errno, "cannot open", path);
  return DiskFile(path, fd);
}

absl::StatusOr<DiskFile> DiskFile::OpenNameless(const std::string& folder) {
  int fd = Uninterrupted(
      [&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kDiskFileMode); });
  if (fd >= 0) return DiskFile(folder + "/(sorting)", fd);
  // Some file systems have no files without a name.
  std::string path = folder + "/sorting-XXXXXX";
  fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return DiskStatus(errno, "cannot make a file", path);
  ::unlink(path.c_str());
  return DiskFile(path, fd);
}

DiskFile::~DiskFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<uint64_t> DiskFile::Size() const {
  struct stat found = {};
  if (::fstat(fd_, &found) != 0) return DiskStatus(errno, "cannot look at", path_);
  return static_cast<uint64_t>(found.st_size);
}

absl::Status DiskFile::WriteAt(uint64_t offset, absl::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return DiskStatus(errno, "cannot write", path_);
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> DiskFile::ReadAt(uint64_t offset, char* into, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd_, into + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DiskStatus(errno, "cannot read", path_);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

absl::Status DiskFile::Truncate(uint64_t bytes) const {
  const int result = Uninterrupted([&] { return ::ftruncate(fd_, static_cast<off_t>(bytes)); });
  if (result == 0) return absl::OkStatus();
  return DiskStatus(errno, "cannot cut off", path_);
}

absl::Status DiskFile::Sync() const {
  if (Uninterrupted([this] { return ::fdatasync(fd_); }) == 0) return absl::OkStatus();
  return DiskStatus(errno, "cannot sync", path_);
}

absl::Status SyncFolder(const std::string& path) {
  const OpenFolder folder(path);
  PH_RETURN_IF_ERROR(folder.status());
  return folder.Sync();
}

absl::Status WriteWhole(const std::string& folder, const std::string& name,
                        absl::string_view bytes) {
  const OpenFolder opened(folder);
  PH_RETURN_IF_ERROR(opened.status());
  const std::string path = absl::StrCat(folder, "/", name);
  const std::string unfinished = path + ".unfinished";
  const auto write = [&]() -> absl::Status {
    PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(unfinished, DiskFile::Mode::kNew));
    PH_RETURN_IF_ERROR(file.WriteAt(0, bytes));
    PH_RETURN_IF_ERROR(file.Sync());
    return Rename(unfinished, path);
  };
  const absl::Status written = write();
  if (written.ok()) return Settled(opened);
  if (!DiskOutcomeIsUnknown(written)) ::unlink(unfinished.c_str());
  return written;
}

absl::Status RenameDurably(const std::string& from, const std::string& to) {
  const std::string old_folder = FolderOf(from);
  const std::string new_folder = FolderOf(to);
  const OpenFolder opened(new_folder);
  PH_RETURN_IF_ERROR(opened.status());
  std::optional<OpenFolder> other;
  if (old_folder != new_folder) {
    other.emplace(old_folder);
    PH_RETURN_IF_ERROR(other->status());
  }
  PH_RETURN_IF_ERROR(Rename(from, to));
  PH_RETURN_IF_ERROR(Settled(opened));
  return other ? Settled(*other) : absl::OkStatus();
}

absl::Status RemoveDurably(const std::string& path) {
  const std::string above = FolderOf(path);
  const OpenFolder folder(above);
  PH_RETURN_IF_ERROR(folder.status());
  if (Uninterrupted([&path] { return ::unlink(path.c_str()); }) != 0 && errno != ENOENT) {
    const absl::Status failed = DiskStatus(errno, "cannot remove", path);
    return IsGone(path) ? UnknownOutcome(failed) : failed;
  }
  // Also if it was gone: an earlier try may have removed it, and not synced.
  return Settled(folder);
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(path, DiskFile::Mode::kRead));
  PH_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  std::string bytes(size, '\0');
  PH_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes.data(), bytes.size()));
  bytes.resize(got);
  return bytes;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  for (std::filesystem::path at = path; !at.empty() && !std::filesystem::is_directory(at, error);
       at = at.parent_path()) {
    missing.push_back(at);
    if (at == at.parent_path()) break;
  }
  for (; !missing.empty(); missing.pop_back()) {
    const std::filesystem::path& folder = missing.back();
    const std::string above = FolderOf(folder.string());
    const OpenFolder opened(above);
    PH_RETURN_IF_ERROR(opened.status());
    const bool is_made = std::filesystem::create_directory(folder, error);
    if (error) return DiskStatus(error.value(), "cannot make the folder", folder.string());
    const absl::Status synced = opened.Sync();
    if (synced.ok()) continue;
    // Whoever finds it later would not sync its name.
    if (!is_made || (std::filesystem::remove(folder, error) && !error)) return synced;
    return UnknownOutcome(synced);
  }
  return absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (Uninterrupted([&] { return std::rename(from.c_str(), to.c_str()); }) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  const absl::Status failed = DiskStatus(error, absl::StrCat("cannot rename to ", to), from);
  return error != ENOENT && IsGone(from) ? UnknownOutcome(failed) : failed;
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return DiskStatus(error.value(), "cannot remove", path);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace packhouse
