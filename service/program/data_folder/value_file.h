// A file of keys and values: a part of a snapshot.
//
//   file := (u32 length of the key, u64 length of the value, key, value)*     # little-endian
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_VALUE_FILE_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_VALUE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/digest.h"
#include "service/base/disk_file.h"
#include "service/program/data_folder/snapshot_writer.h"

namespace packhouse {

// Collects small values, so that few calls write them. Flush() after the last.
class ValueWriter {
 public:
  explicit ValueWriter(SnapshotFile* file) : file_(file) {}
  absl::Status Add(absl::string_view key, absl::string_view value);
  absl::Status Flush();

 private:
  SnapshotFile* const file_;
  std::string buffer_;
};

class ValueReader {
 public:
  // `checksum` is that of the snapshot's manifest.
  static absl::StatusOr<ValueReader> Open(const std::string& path, std::string checksum);

  // The next key and value, valid until the next call; false after the last. DATA_LOSS if the file
  // ends too early; and after the last value if what was read has another checksum: only then the
  // values are known to be good. Memory: the longest value and 1 MiB.
  absl::StatusOr<bool> Next(absl::string_view& key, absl::string_view& value);

 private:
  ValueReader(DiskFile file, uint64_t num_bytes, std::string checksum)
      : file_(std::move(file)), num_bytes_(num_bytes), checksum_(std::move(checksum)) {}
  // At least `bytes` are in the buffer from its place on.
  absl::Status Fill(uint64_t bytes);

  DiskFile file_;
  uint64_t num_bytes_;
  std::string checksum_;
  uint64_t read_ = 0;                                            // From the file.
  std::unique_ptr<Digest> digest_ = std::make_unique<Digest>();  // Of what was read.
  bool is_good_ = false;                                         // To its end.
  std::string buffer_;
  size_t place_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_VALUE_FILE_H_
