// Survives reading a mapped file that somebody has cut off, or that the disk fails to read.
//
// The kernel answers such a read with SIGBUS, which ends the process. While a map is guarded, a
// handler answers instead, in the thread that reads:
// - in RunOrEscape(), it leaves what is being run, and RunOrEscape() returns false. For a library
//   that must not go on with bytes that are not there.
// - elsewhere, and in maps that are written to, it puts a page of zeros where the page was, and the
//   thread goes on. For copying and checksums, whose results are worthless once the map has failed:
//   whoever read asks has_failed() afterwards, before the result is used.
// Either way the map has failed for good; other pages of it stay as they are.
//
// A SIGBUS from anywhere else goes where it went before. The handler calls nothing that is not safe
// in one: it reads atomics, replaces pages by a direct system call, and jumps only out of code that
// was entered to be jumped out of. It needs SIGBUS not to be blocked, and no stack of its own.
// Sanitizers' own handlers stay behind it.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_MAP_GUARD_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_MAP_GUARD_H_

#include <atomic>
#include <csetjmp>
#include <cstddef>

#include "absl/status/statusor.h"

namespace packhouse {

// A guarded range of memory; unguarded when it goes, unless it was left behind. Thread-safe.
class MapGuard {
 public:
  // In one process at a time.
  static constexpr size_t kMaxMaps = 1024;

  enum class Use {
    kRead,
    kReadAndWrite,  // Written to by who must not be stopped in it: a table with locks.
  };
  // `begin` and `bytes` are of whole pages; the map must stay where it is. RESOURCE_EXHAUSTED
  // naming kMaxMaps. Sets the handler up when it is called first.
  static absl::StatusOr<MapGuard> Create(const void* begin, size_t bytes, Use use);
  MapGuard() = default;  // Guards nothing.
  MapGuard(MapGuard&& other) noexcept;
  MapGuard& operator=(MapGuard&& other) noexcept;
  ~MapGuard();

  // A page could not be read. Never false again. An atomic read.
  bool has_failed() const;
  // Guards until the process ends; this one has not failed any more.
  void LeaveBehind() { range_ = kNone; }

 private:
  static constexpr size_t kNone = kMaxMaps;
  explicit MapGuard(size_t range) : range_(range) {}

  size_t range_ = kNone;
};

namespace map_guard_internal {
// Where the thread's RunOrEscape() goes on; null outside of one.
inline constinit thread_local sigjmp_buf* escape = nullptr;
}  // namespace map_guard_internal

// Runs `call`. False if it was left, at a page of a guarded map that cannot be read or by
// EscapeIfPossible(): then it had no end, and what it was about to do with locks and memory is
// undone by nobody. What runs in it must be C, or like it: no destructor is run.
template <typename Call>
[[gnu::noinline]] bool RunOrEscape(const Call& call) {
  sigjmp_buf here;
  sigjmp_buf* const outer = map_guard_internal::escape;
  // The handler runs with nothing blocked: there is no mask to be restored.
  if (sigsetjmp(here, 0) != 0) {
    map_guard_internal::escape = outer;
    return false;
  }
  // The fences: whatever `call` is made of, the compiler shall not see that nobody reads this.
  map_guard_internal::escape = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  call();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  map_guard_internal::escape = outer;
  return true;
}

// Leaves the RunOrEscape() that the thread is in; returns if there is none. For a library's last
// word before it ends the process.
void EscapeIfPossible();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_MAP_GUARD_H_
