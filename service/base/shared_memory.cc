#include "service/base/shared_memory.h"

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
#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<int> MakeMemoryFile(const char* label, bool can_be_sealed) {
  const int file = ::memfd_create(label, MFD_CLOEXEC | (can_be_sealed ? MFD_ALLOW_SEALING : 0U));
  if (file >= 0) return file;
  return absl::ResourceExhaustedError(absl::StrCat("no file in memory: ", std::strerror(errno)));
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    Reset();
    file_ = std::exchange(other.file_, -1);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void SharedMemory::CloseFile() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void SharedMemory::Reset() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  CloseFile();
}

absl::StatusOr<SharedMemory> SharedMemory::Create(uint64_t bytes, const Options& options) {
  const auto error = [bytes] {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of shared memory: ", std::strerror(errno)));
  };
  SharedMemory memory;
  PH_ASSIGN_OR_RETURN(memory.file_, MakeMemoryFile(options.label, options.is_sealed));
  if (memory.file_ < options.least_file) {
    const int low = memory.file_;
    memory.file_ = ::fcntl(low, F_DUPFD_CLOEXEC, options.least_file);
    ::close(low);
    if (memory.file_ < 0) return error();
  }
  memory.size_ = std::max<uint64_t>(bytes, 1);
  if (::ftruncate(memory.file_, static_cast<off_t>(memory.size_)) != 0) return error();
  if (options.is_sealed &&
      ::fcntl(memory.file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return error();
  }
  void* data = ::mmap(nullptr, memory.size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.file_, 0);
  if (data == MAP_FAILED) return error();
  memory.data_ = static_cast<char*>(data);
  return memory;
}

}  // namespace packhouse
