#include "service/stores/lmdb/store_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_status.h"

namespace packhouse {
namespace {

constexpr char kLockFile[] = "/LOCK";
// Bytes of LMDB's table: a cache line for each reader, and its header.
constexpr size_t kReaderTableBytes = size_t{StoreFolder::kMaxReaders + 16} * 64;

}  // namespace

absl::StatusOr<StoreFolder> StoreFolder::Lock(const std::string& path) {
  StoreFolder folder;
  folder.path_ = path;
  if (const absl::Status made = MakeFolder(path); !made.ok()) {
    return absl::Status(made.code(), absl::StrCat("store '", path,
                                                  "': cannot create the folder: ", made.message()));
  }
  PH_RETURN_IF_ERROR(folder.TakeLock());
  return folder;
}

StoreFolder::StoreFolder(StoreFolder&& other) noexcept { *this = std::move(other); }

StoreFolder& StoreFolder::operator=(StoreFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(is_read_only_, other.is_read_only_);
  return *this;
}

StoreFolder::~StoreFolder() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

absl::Status StoreFolder::TakeLock() {
  const std::string file = path_ + kLockFile;
  lock_fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (lock_fd_ < 0 && errno == EROFS) {
    is_read_only_ = true;
    lock_fd_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (lock_fd_ < 0)
    return LmdbStatus(is_read_only_ ? EROFS : errno, "cannot open its lock file", path_);
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t got = ::pread(lock_fd_, holder, sizeof(holder) - 1, 0);
    return absl::FailedPreconditionError(
        absl::StrCat("store '", path_, "' is in use by process ", got > 0 ? holder : "(unknown)"));
  }
  if (is_read_only_) return absl::OkStatus();
  // Only for the message above; it stays empty on a full disk.
  const std::string holder = absl::StrCat(::getpid());
  if (::ftruncate(lock_fd_, 0) == 0 && ::pwrite(lock_fd_, holder.data(), holder.size(), 0) < 0 &&
      errno == EIO) {
    return LmdbStatus(errno, "cannot write its lock file", path_);
  }
  return absl::OkStatus();
}

absl::Status StoreFolder::ReserveReaderTable() const {
  const int fd = ::open(reader_table().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  const int error = fd < 0 ? errno : ::posix_fallocate(fd, 0, kReaderTableBytes);
  if (fd >= 0) ::close(fd);
  return LmdbStatus(error, "cannot make the table of readers", path_);
}

absl::Status StoreFolder::Sync() const { return SyncFolder(path_); }

absl::Status StoreFolder::CheckRoom(uint64_t bytes) const {
  const int fd = ::open(path_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kFileMode);
  // Some file systems have no files without a name.
  if (fd < 0) return absl::OkStatus();
  const int error = bytes == 0 ? 0 : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  ::close(fd);
  if (error != ENOSPC && error != EDQUOT) return absl::OkStatus();
  return LmdbStatus(error, absl::StrCat("no room for ", bytes, " bytes"), path_);
}

}  // namespace packhouse
