// Files and folders: reading, writing, and what the errors of the disk mean. Only the stores use
// them.
//
// A change of the names in a folder (a file is put in its place, renamed or removed) is durable
// once the folder is synced. If that fails, the change can be seen, and nobody knows whether a
// crash of the machine takes it back. So a change ends in one of three ways:
// - OK: it is done, and durable.
// - An error: it is not done; everything is as it was before.
// - An error with DiskOutcomeIsUnknown(): it can be seen, and may be taken back. Who goes on from
// what
//   the names say (a store) must not, until it is known: see DurableFolder.
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

// The outcome of a change is unknown; see above. The status goes through PH_RETURN_IF_ERROR as any
// other; it is UNAVAILABLE, or DATA_LOSS if `why` is, and says so in words.
bool DiskOutcomeIsUnknown(const absl::Status& status);
absl::Status UnknownOutcome(const absl::Status& why);

// An open file. Movable; thread-compatible. Reads and writes at different places may go on at the
// same time.
class DiskFile {
 public:
  enum class Mode {
    kRead,
    kExisting,  // Reads and writes; NOT_FOUND if it is missing.
    kAppend,    // Reads and writes; made if it is missing.
    kNew,       // Reads and writes; empty, made if it is missing.
    kPrivate,   // As kNew; one that is made is for its owner alone.
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
// cannot sync folders. For names that nothing refers to yet: an error says nothing about them.
absl::Status SyncFolder(const std::string& path);

// Changes of names. The folder is opened before anything is changed, so that nothing but the sync
// itself can fail afterwards. Each returns one of the three outcomes.
//
// Puts a file in its place as a whole: under another name first (NAME.unfinished).
absl::Status WriteWhole(const std::string& folder, const std::string& name,
                        absl::string_view bytes);
// A file or a folder. What `to` named, a file or an empty folder, is gone.
absl::Status RenameDurably(const std::string& from, const std::string& to);
// A file, or a link. OK if there is nothing.
absl::Status RemoveDurably(const std::string& path);

// Changes of names of things that are nowhere missed, or are not durable anyway.
absl::Status Rename(const std::string& from, const std::string& to);
// With all that is in it. OK if there is nothing. After an error it may be there in part.
absl::Status RemoveAll(const std::string& path);

absl::StatusOr<std::string> ReadWhole(const std::string& path);
// Makes a folder, and those above it that are missing; their names survive a crash of the machine
// from then on. That it is there is no error.
absl::Status MakeFolder(const std::string& path);
// "." for a name without a folder.
std::string FolderOf(const std::string& path);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_DISK_FILE_H_
