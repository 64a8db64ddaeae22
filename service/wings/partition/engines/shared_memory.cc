#include "service/wings/partition/engines/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    Reset();
    file_ = std::exchange(other.file_, -1);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void SharedMemory::Reset() {
  if (data_ != nullptr) munmap(data_, size_);
  if (file_ >= 0) close(file_);
  data_ = nullptr;
  file_ = -1;
}

absl::StatusOr<SharedMemory> SharedMemory::Create(uint64_t bytes) {
  const auto error = [bytes] {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of shared memory: ", std::strerror(errno)));
  };
  // Numbers below this are given to the child's own files.
  constexpr int kLeastFile = 16;
  SharedMemory memory;
  const int low = memfd_create("packhouse", MFD_CLOEXEC);
  if (low < 0) return error();
  memory.file_ = fcntl(low, F_DUPFD_CLOEXEC, kLeastFile);
  close(low);
  if (memory.file_ < 0) return error();
  memory.size_ = std::max<uint64_t>(bytes, 1);
  if (ftruncate(memory.file_, static_cast<off_t>(memory.size_)) != 0) return error();
  void* data = mmap(nullptr, memory.size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.file_, 0);
  if (data == MAP_FAILED) return error();
  memory.data_ = static_cast<char*>(data);
  return memory;
}

}  // namespace packhouse
