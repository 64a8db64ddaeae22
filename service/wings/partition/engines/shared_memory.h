// Memory that has a file descriptor and no name, so that a child process can map it.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_SHARED_MEMORY_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_SHARED_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace packhouse {

// Movable; thread-compatible. Pages are taken as they are written.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory() { Reset(); }
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Zeros. RESOURCE_EXHAUSTED naming the bytes and the system's reason.
  static absl::StatusOr<SharedMemory> Create(uint64_t bytes);

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

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_SHARED_MEMORY_H_
