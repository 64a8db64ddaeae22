// Memory that has a file descriptor and no name, so that another process can map it.
#ifndef PACKHOUSE_SERVICE_BASE_SHARED_MEMORY_H_
#define PACKHOUSE_SERVICE_BASE_SHARED_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace packhouse {

// An empty file in memory, which is not there any more once nobody has a descriptor of it or has
// mapped it. Only people see the label. `can_be_sealed`: fcntl(F_ADD_SEALS) is allowed. The caller
// closes the descriptor. RESOURCE_EXHAUSTED with the system's reason.
absl::StatusOr<int> MakeMemoryFile(const char* label, bool can_be_sealed = false);

// Movable; thread-compatible. Pages are taken as they are written.
class SharedMemory {
 public:
  struct Options {
    const char* label = "packhouse";
    // The descriptor is at least this.
    int least_file = 0;
    // Nobody who has the descriptor can make the memory shorter or longer. So whatever that process
    // does, touching the memory never ends this one (SIGBUS).
    bool is_sealed = false;
  };

  SharedMemory() = default;
  ~SharedMemory() { Reset(); }
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Zeros. RESOURCE_EXHAUSTED naming the bytes and the system's reason.
  static absl::StatusOr<SharedMemory> Create(uint64_t bytes, const Options& options);

  // The memory stays; file() is -1 from now on.
  void CloseFile();

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  int file() const { return file_; }

 private:
  void Reset();

  int file_ = -1;
  char* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_SHARED_MEMORY_H_
