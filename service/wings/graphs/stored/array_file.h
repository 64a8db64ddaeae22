// One array of a sealed graph: a file of nothing but its elements, and a checksum for each block.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ARRAY_FILE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ARRAY_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/disk_file.h"
#include "service/wings/graphs/source_graphs/checked_array.h"
#include "service/wings/graphs/stored/disk_space.h"

namespace packhouse {

struct ArrayInfo {
  static constexpr uint64_t kBlockBytes = ArrayChecks::kBlockBytes;

  std::string name;  // Of the file.
  uint64_t bytes = 0;
  // The CRC32C of each kBlockBytes; of the rest in the last.
  std::vector<uint32_t> block_crcs;
};

// Writes an array from its beginning to its end. Has one block in memory. Movable;
// thread-compatible.
class ArrayWriter {
 public:
  // `space` must outlive the writer.
  static absl::StatusOr<ArrayWriter> Create(const std::string& folder, const std::string& name,
                                            GraphSpace* space);
  ArrayWriter(ArrayWriter&&) = default;
  ArrayWriter& operator=(ArrayWriter&&) = default;

  // The error of the disk, or RESOURCE_EXHAUSTED as GraphSpace::Take().
  absl::Status Append(absl::string_view bytes) {
    if (block_.size() + bytes.size() > ArrayInfo::kBlockBytes) return AppendLong(bytes);
    block_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status AppendValue(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    return Append({bytes, sizeof(T)});
  }
  absl::Status AppendZeros(uint64_t bytes);

  uint64_t bytes() const { return info_.bytes + block_.size(); }

  // Writes the rest. The file is durable then; its name is when the folder has been synced.
  absl::StatusOr<ArrayInfo> Finish();

 private:
  ArrayWriter(DiskFile file, std::string name, GraphSpace* space);

  absl::Status AppendLong(absl::string_view bytes);
  absl::Status WriteBlock();

  DiskFile file_;
  GraphSpace* space_;
  ArrayInfo info_;
  std::string block_;
};

// A file that is mapped for reading. Movable; thread-compatible. An empty file is no map.
class FileMap {
 public:
  static absl::StatusOr<FileMap> Open(const std::string& path);
  FileMap() = default;
  FileMap(FileMap&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  FileMap& operator=(FileMap&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FileMap();

  absl::string_view bytes() const { return {data_, bytes_}; }

 private:
  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ARRAY_FILE_H_
