// Files that are on the disk before anything says so.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_DURABLE_FILES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_DURABLE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/disk_file.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// Errors of all functions name the path: RESOURCE_EXHAUSTED if the disk is full, NOT_FOUND if there
// is no such file or folder, otherwise UNAVAILABLE.

// A new file. Not thread-safe.
class FileSink : public ByteSink {
 public:
  // The file must not exist.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(std::string path);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override;

  absl::Status Write(absl::string_view bytes) override;
  // The bytes are on the disk; the first error of any call. The file's name is when its folder was
  // synced.
  absl::Status Finish();
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  FileSink(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status Flush();
  absl::Status WriteAll(absl::string_view bytes);

  const std::string path_;
  int descriptor_;
  std::string buffer_;
  uint64_t bytes_ = 0;
  absl::Status status_;  // Of what was written.
};

// Creates a file, lets `write` fill it, and finishes it; its folder is not synced. Gives its bytes.
// After an error there is no file.
absl::StatusOr<uint64_t> WriteDurably(const std::string& path,
                                      absl::FunctionRef<absl::Status(ByteSink&)> write);

// A whole file, mapped for reading. Movable; views of its bytes stay valid.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::string_view bytes) : bytes_(bytes) {}

  absl::string_view bytes_;
};

// A folder with all that is in it. That it is not there is no error.
absl::Status RemoveFolder(const std::string& path);
bool PathExists(const std::string& path);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_DURABLE_FILES_H_
