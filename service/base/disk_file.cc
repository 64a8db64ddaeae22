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
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr mode_t kDiskFileMode = 0640;

}  // namespace

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
  switch (mode) {
    case Mode::kRead:
      flags |= O_RDONLY;
      break;
    case Mode::kAppend:
      flags |= O_RDWR | O_CREAT;
      break;
    case Mode::kNew:
      flags |= O_RDWR | O_CREAT | O_TRUNC;
      break;
  }
  const int fd = ::open(path.c_str(), flags, kDiskFileMode);
  if (fd < 0) return DiskStatus(errno, "cannot open", path);
  return DiskFile(path, fd);
}

absl::StatusOr<DiskFile> DiskFile::OpenNameless(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kDiskFileMode);
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
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return absl::OkStatus();
  return DiskStatus(errno, "cannot cut off", path_);
}

absl::Status DiskFile::Sync() const {
  if (::fdatasync(fd_) == 0) return absl::OkStatus();
  return DiskStatus(errno, "cannot sync", path_);
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return DiskStatus(errno, "cannot open", path);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some file systems have no fsync for folders.
  if (result == 0 || error == EINVAL) return absl::OkStatus();
  return DiskStatus(error, "cannot sync", path);
}

absl::Status WriteWhole(const std::string& folder, const std::string& name,
                        absl::string_view bytes) {
  const std::string path = absl::StrCat(folder, "/", name);
  const std::string unfinished = path + ".unfinished";
  PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(unfinished, DiskFile::Mode::kNew));
  PH_RETURN_IF_ERROR(file.WriteAt(0, bytes));
  PH_RETURN_IF_ERROR(file.Sync());
  PH_RETURN_IF_ERROR(Rename(unfinished, path));
  return SyncFolder(folder);
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
    std::filesystem::create_directory(folder, error);
    if (error) return DiskStatus(error.value(), "cannot make the folder", folder.string());
    const std::string above = folder.parent_path().string();
    PH_RETURN_IF_ERROR(SyncFolder(above.empty() ? "." : above));
  }
  return absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return DiskStatus(errno, absl::StrCat("cannot rename to ", to), from);
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return DiskStatus(error.value(), "cannot remove", path);
}

}  // namespace packhouse
