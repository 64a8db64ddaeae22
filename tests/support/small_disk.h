// A file system of its own in memory, so that it can be filled and made read-only.
#ifndef PACKHOUSE_TESTS_SUPPORT_SMALL_DISK_H_
#define PACKHOUSE_TESTS_SUPPORT_SMALL_DISK_H_

#include <sys/mount.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

class SmallDisk {
 public:
  explicit SmallDisk(size_t bytes) {
    is_mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0,
                          absl::StrCat("size=", bytes).c_str()) == 0;
    error_ = errno;
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount(folder_.path().c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Few may mount: a test that may not is skipped.
  bool is_mounted() const { return is_mounted_; }
  const char* error() const { return std::strerror(error_); }
  const std::string& path() const { return folder_.path(); }
  bool MakeReadOnly() {
    return ::mount(nullptr, path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  TemporaryFolder folder_;
  bool is_mounted_ = false;
  int error_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_SMALL_DISK_H_
