#include "service/stores/lmdb/map_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {
namespace {

// The most pages that are replaced one by one. A process may have some 65,000 mappings, so beyond
// this everything after the page is replaced with it.
constexpr unsigned kMaxSinglePages = 4096;

// What the handler reads. An unused range begins after all memory.
struct Range {
  std::atomic<uintptr_t> begin = UINTPTR_MAX;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> is_written = false;
  std::atomic<bool> has_failed = false;
  std::atomic<unsigned> num_replaced = 0;
  bool is_used = false;  // Guarded by ranges_mutex.
};

std::array<Range, MapGuard::kMaxMaps> ranges;
constinit absl::Mutex ranges_mutex(absl::kConstInit);
struct sigaction previous_action;
uintptr_t page_bytes = 4096;

// Replaces the page with zeros.
bool Replace(Range& range, uintptr_t address) {
  const uintptr_t page = address / page_bytes * page_bytes;
  const bool is_single = range.num_replaced.fetch_add(1) < kMaxSinglePages;
  const size_t bytes = is_single ? page_bytes : range.end.load() - page;
  // A direct system call, since sanitizers wrap mmap(), and that is not safe in a handler.
  const int protection = range.is_written.load() ? PROT_READ | PROT_WRITE : PROT_READ;
  const long at = ::syscall(SYS_mmap, page, bytes, protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return static_cast<uintptr_t>(at) == page;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool is_from_kernel = info->si_code > 0;
  for (Range& range : ranges) {
    if (!is_from_kernel) break;
    if (address < range.begin.load() || address >= range.end.load()) continue;
    range.has_failed.store(true);
    if (map_guard_internal::escape != nullptr && !range.is_written.load())
      siglongjmp(*map_guard_internal::escape, 1);
    const bool is_replaced = Replace(range, address);
    errno = saved_errno;
    if (is_replaced) return;
    break;
  }
  // Not one of our ranges: the read is repeated, and the previous handler answers it.
  ::sigaction(signal, &previous_action, nullptr);
  if (!is_from_kernel) ::raise(signal);
  errno = saved_errno;
}

void SetUpHandler() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  // The signal is not blocked while it is handled, so that a jump out of the handler leaves nothing
  // blocked.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &previous_action);
}

}  // namespace

absl::StatusOr<MapGuard> MapGuard::Create(const void* begin, size_t bytes, Use use) {
  static std::once_flag is_set_up;
  std::call_once(is_set_up, SetUpHandler);
  absl::MutexLock lock(&ranges_mutex);
  for (size_t i = 0; i < ranges.size(); ++i) {
    Range& range = ranges[i];
    if (range.is_used) continue;
    range.is_used = true;
    range.has_failed.store(false);
    range.num_replaced.store(0);
    range.is_written.store(use == Use::kReadAndWrite);
    range.end.store(reinterpret_cast<uintptr_t>(begin) + bytes);
    range.begin.store(reinterpret_cast<uintptr_t>(begin));
    return MapGuard(i);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("store: ", kMaxMaps, " files are mapped, at most ", kMaxMaps));
}

MapGuard::MapGuard(MapGuard&& other) noexcept : range_(std::exchange(other.range_, kNone)) {}

MapGuard& MapGuard::operator=(MapGuard&& other) noexcept {
  std::swap(range_, other.range_);
  return *this;
}

MapGuard::~MapGuard() {
  if (range_ == kNone) return;
  absl::MutexLock lock(&ranges_mutex);
  ranges[range_].begin.store(UINTPTR_MAX);
  ranges[range_].is_used = false;
}

bool MapGuard::has_failed() const { return range_ != kNone && ranges[range_].has_failed.load(); }

void EscapeIfPossible() {
  if (map_guard_internal::escape != nullptr) siglongjmp(*map_guard_internal::escape, 1);
}

}  // namespace packhouse
