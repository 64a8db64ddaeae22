// Files and folders: reading, writing, and what the errors of the disk mean. Only the stores use
// them.
#ifndef PACKHOUSE_SERVICE_BASE_DISK_FILE_H_
#define PACKHOUSE_SERVICE_BASE_DISK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// RESOURCE_EXHAUSTED if the disk is full, NOT_FOUND if there is no such file, otherwise
// UNAVAILABLE; names the path and what was tried. `error` is errno.
absl::Status DiskStatus(int error, absl::string_view what, const std::string& path);

// An open file. Movable; thread-compatible. Reads and writes at different places may go on at the
// same time.
class DiskFile {
 public:
  enum class Mode {
    kRead,
    kAppend,  // Reads and writes; made if it is missing.
    kNew,     // Reads and writes; empty, made if it is missing.
  };
  static absl::StatusOr<DiskFile> Open(const std::string& path, Mode mode);
  // A file without a name in a folder: gone when it is closed, whatever happens.
  static absl::StatusOr<DiskFile> OpenNameless(const std::string& folder);
  DiskFile() = default;  // Is no file.
  DiskFile(DiskFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  DiskFile& operator=(DiskFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~DiskFile();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  absl::StatusOr<uint64_t> Size() const;
  absl::Status WriteAt(uint64_t offset, absl::string_view bytes) const;
  // Fewer than `bytes` only at the end of the file.
  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* into, size_t bytes) const;
  absl::Status Truncate(uint64_t bytes) const;
  // What was written survives a crash of the machine from then on.
  absl::Status Sync() const;

 private:
  DiskFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

// The names in a folder survive a crash of the machine from then on; OK also on file systems that
// cannot sync folders.
absl::Status SyncFolder(const std::string& path);
// Writes a file that is either there as a whole or not: under another name first.
absl::Status WriteWhole(const std::string& folder, const std::string& name,
                        absl::string_view bytes);
absl::StatusOr<std::string> ReadWhole(const std::string& path);
// Makes a folder, and those above it that are missing; their names survive a crash of the machine
// from then on. That it is there is no error.
absl::Status MakeFolder(const std::string& path);
absl::Status Rename(const std::string& from, const std::string& to);
// OK if there is nothing.
absl::Status RemoveAll(const std::string& path);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_DISK_FILE_H_
