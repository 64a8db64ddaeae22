// A file of pages, read without a map.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_PAGE_FILE_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_PAGE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

// The status of a file that must not be trusted.
template <typename... Parts>
absl::Status DamagedFile(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("store: ", parts...));
}

// Thread-compatible.
class PageFile {
 public:
  explicit PageFile(const std::string& path);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  // If false, errno has the reason.
  bool is_open() const { return fd_ >= 0; }
  // 0 if it cannot be determined.
  uint64_t size() const;
  // DATA_LOSS naming the offset if the file ends too early or cannot be read.
  absl::Status Read(uint64_t offset, size_t bytes, char* out) const;
  // Reads a value of a trivially copyable type.
  template <typename T>
  absl::Status ReadAs(uint64_t offset, T& out) const {
    char bytes[sizeof(T)];
    const absl::Status status = Read(offset, sizeof(bytes), bytes);
    if (status.ok()) std::memcpy(&out, bytes, sizeof(bytes));
    return status;
  }

 private:
  const int fd_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_PAGE_FILE_H_
