// Survives reads from a mapped file that was cut off, or that the disk fails to read.
//
// The kernel answers such a read with SIGBUS, which ends the process. While a map is guarded, a
// handler answers instead, in the thread that reads:
// - In RunOrEscape(), it leaves the running call, and RunOrEscape() returns false. This is for a
//   library that must not go on with missing bytes.
// - Elsewhere, and in maps that are written to, it replaces the page with zeros, and the thread
//   goes on. This is for copying and checksums: after reading, call has_failed() before the result
//   is used.
// In both cases the map has failed for good; its other pages stay as they are.
//
// Any other SIGBUS goes to the previous handler. The handler uses only what is safe in a signal
// handler: it reads atomics, replaces pages by a direct system call, and jumps only out of
// RunOrEscape(). SIGBUS must not be blocked; the handler needs no stack of its own. Sanitizers'
// handlers remain as previous handlers.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_MAP_GUARD_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_MAP_GUARD_H_

#include <atomic>
#include <csetjmp>
#include <cstddef>

#include "absl/status/statusor.h"

namespace packhouse {

// A guarded range of memory. The destructor ends the guard, unless it was left behind. Thread-safe.
class MapGuard {
 public:
  // The most maps in one process at a time.
  static constexpr size_t kMaxMaps = 1024;

  enum class Use {
    kRead,
    kReadAndWrite,  // Written to by code that must not be interrupted: a table with locks.
  };
  // `begin` and `bytes` are of whole pages; the map must stay where it is. RESOURCE_EXHAUSTED
  // naming kMaxMaps. Sets the handler up when it is called first.
  static absl::StatusOr<MapGuard> Create(const void* begin, size_t bytes, Use use);
  MapGuard() = default;  // Guards nothing.
  MapGuard(MapGuard&& other) noexcept;
  MapGuard& operator=(MapGuard&& other) noexcept;
  ~MapGuard();

  // Whether a page could not be read. Once true, it stays true. An atomic read.
  bool has_failed() const;
  // Guards the range until the process ends; has_failed() of this object is then false.
  void LeaveBehind() { range_ = kNone; }

 private:
  static constexpr size_t kNone = kMaxMaps;
  explicit MapGuard(size_t range) : range_(range) {}

  size_t range_ = kNone;
};

namespace map_guard_internal {
// Where the thread's RunOrEscape() continues; null outside of it.
inline constinit thread_local sigjmp_buf* escape = nullptr;
}  // namespace map_guard_internal

// Runs `call`. False if it was left, because a page of a guarded map could not be read, or by
// EscapeIfPossible(). Then `call` has not ended, and its locks and memory are not released. `call`
// must be C or C-like code: no destructor runs.
template <typename Call>
[[gnu::noinline]] bool RunOrEscape(const Call& call) {
  sigjmp_buf here;
  sigjmp_buf* const outer = map_guard_internal::escape;
  // The handler runs with no signal blocked, so there is no mask to restore.
  if (sigsetjmp(here, 0) != 0) {
    map_guard_internal::escape = outer;
    return false;
  }
  // The fences keep the compiler from removing this write, which no visible code reads.
  map_guard_internal::escape = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  call();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  map_guard_internal::escape = outer;
  return true;
}

// Leaves the thread's RunOrEscape(); returns if there is none. For hooks that a library calls
// before it ends the process.
void EscapeIfPossible();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_MAP_GUARD_H_
