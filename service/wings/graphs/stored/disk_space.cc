#include "service/wings/graphs/stored/disk_space.h"

#include <sys/statvfs.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::Status DiskSpace::Take(uint64_t bytes) {
  struct statvfs disk = {};
  if (::statvfs(folder_.c_str(), &disk) == 0) {
    const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
    if (free < min_free_bytes_ || free - min_free_bytes_ < bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no space left on the disk of ", folder_, ": it has ", free, " bytes; ",
                       bytes, " more would leave less than ", min_free_bytes_));
    }
  }
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > max_bytes_ || max_bytes_ - used < bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("source graphs take ", used, " bytes of the disk; ", bytes,
                       " more are beyond the bound of ", max_bytes_));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return absl::OkStatus();
}

absl::Status GraphSpace::Take(uint64_t bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (max_bytes_ != 0 && (used > max_bytes_ || max_bytes_ - used < bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("source graph '", name_, "' takes ", used, " bytes of the disk; ", bytes,
                       " more are beyond its max_bytes of ", max_bytes_));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  absl::Status taken = store_->Take(bytes);
  if (!taken.ok()) used_.fetch_sub(bytes, std::memory_order_relaxed);
  return taken;
}

void GraphSpace::TakeStored(uint64_t bytes) {
  used_.fetch_add(bytes, std::memory_order_relaxed);
  store_->TakeStored(bytes);
}

void GraphSpace::Give(uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  store_->Give(bytes);
}

}  // namespace packhouse
