// The folder of a store: its files, and the lock that keeps other processes out.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_STORE_FOLDER_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_STORE_FOLDER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace packhouse {

// Locked as long as it lives. Movable.
class StoreFolder {
 public:
  static constexpr char kDataFile[] = "/data.mdb";
  static constexpr char kReaderTable[] = "/lock.mdb";
  static constexpr mode_t kFileMode = 0640;
  // Read transactions last microseconds, so their places are free again at once.
  static constexpr unsigned kMaxReaders = 4096;

  // Makes the folder if it is missing, and takes its lock. On a read-only file system, an existing
  // folder is locked for reading. FAILED_PRECONDITION, naming the process, if it is locked;
  // otherwise as LmdbStatus().
  static absl::StatusOr<StoreFolder> Lock(const std::string& path);
  StoreFolder() = default;  // Has no folder.
  StoreFolder(StoreFolder&& other) noexcept;
  StoreFolder& operator=(StoreFolder&& other) noexcept;
  ~StoreFolder();

  const std::string& path() const { return path_; }
  bool is_read_only() const { return is_read_only_; }
  std::string data_file() const { return path_ + kDataFile; }
  std::string reader_table() const { return path_ + kReaderTable; }

  // LMDB makes the table of readers as a file with holes and writes to it through a map. On a full
  // disk this would end the process, so the table is made here, without holes.
  absl::Status ReserveReaderTable() const;
  // So that the names of new files are on the disk too.
  absl::Status Sync() const;
  // RESOURCE_EXHAUSTED unless the disk has room for this many bytes more. Takes the room for a
  // moment.
  absl::Status CheckRoom(uint64_t bytes) const;

 private:
  absl::Status TakeLock();

  std::string path_;
  int lock_fd_ = -1;
  bool is_read_only_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_STORE_FOLDER_H_
