#include "service/base/steady_waits.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"
#include "absl/time/clock.h"
#include "service/base/execution.h"

namespace packhouse {
namespace {

using absl::synchronization_internal::KernelTimeout;

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t NanosecondsBy(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return NanosecondsOf(now);
}

// What is left of a wait until this wall time. Abseil's Now() may follow a step of the kernel's
// clock a second or two late, and gRPC asks the kernel: the time was made by one of both, and the
// other may be a step away from it. The less of two times that may be meant is taken.
int64_t LeftUntil(int64_t wall) {
  constexpr int64_t kPast = -1'000'000'000;  // Nobody waits for a time that is long gone.
  const int64_t by_kernel = wall - NanosecondsBy(CLOCK_REALTIME);
  const int64_t by_abseil = wall - absl::GetCurrentTimeNanos();
  if (by_kernel < kPast) return by_abseil;
  return by_abseil < kPast ? by_kernel : std::min(by_kernel, by_abseil);
}

// The end of a wait, by CLOCK_MONOTONIC. Abseil may wait again for the same wall time, if others
// were faster: that is the same end, whatever the clock says by then.
int64_t SteadyEndOf(KernelTimeout timeout) {
  struct End {
    int64_t wall = 0;
    int64_t steady = 0;
  };
  thread_local End last;
  const int64_t wall = NanosecondsOf(timeout.MakeAbsTimespec());
  if (last.wall != wall) {
    last = {wall, NanosecondsBy(CLOCK_MONOTONIC) + std::max<int64_t>(0, LeftUntil(wall))};
  }
  return last.steady;
}

// As Waiter::Wait() of abseil, but for the clock.
[[maybe_unused]] bool WaitOn(std::atomic<int32_t>& count, KernelTimeout timeout) {
  std::optional<timespec> end;
  if (timeout.has_timeout()) {
    const int64_t steady = SteadyEndOf(timeout);
    end = timespec{static_cast<time_t>(steady / 1'000'000'000),
                   static_cast<decltype(timespec::tv_nsec)>(steady % 1'000'000'000)};
  }
  for (;;) {
    int32_t value = count.load(std::memory_order_relaxed);
    while (value != 0) {
      if (count.compare_exchange_weak(value, value - 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    // Without FUTEX_CLOCK_REALTIME it is a time of CLOCK_MONOTONIC.
    const long waited = syscall(SYS_futex, &count, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0,
                                end ? &*end : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (waited != 0 && errno == ETIMEDOUT) return false;
  }
}

}  // namespace

void WaitSteadily() {}

absl::Time SteadyTime() {
  return absl::UnixEpoch() + absl::Nanoseconds(NanosecondsBy(CLOCK_MONOTONIC));
}

}  // namespace packhouse

// ThreadSanitizer sees nothing of abseil, which is not built for it, and would see half of a wait.
#if !defined(__SANITIZE_THREAD__)
// Abseil's extension point for programs that wait in their own way: its own definition is weak. The
// count is where abseil's Post() finds it.
extern "C" __attribute__((visibility("default"))) bool ABSL_INTERNAL_C_SYMBOL(
    AbslInternalPerThreadSemWait)(absl::synchronization_internal::KernelTimeout t) {
  using absl::synchronization_internal::Waiter;
  static_assert(
      ABSL_WAITER_MODE == ABSL_WAITER_MODE_FUTEX && sizeof(Waiter) == sizeof(std::atomic<int32_t>),
      "another abseil: see whether it waits by CLOCK_MONOTONIC, and drop this file");
  absl::base_internal::ThreadIdentity* const identity =
      absl::synchronization_internal::GetOrCreateCurrentThreadIdentity();
  std::atomic<int>* const blocked = identity->blocked_count_ptr;
  if (blocked != nullptr) blocked->fetch_add(1, std::memory_order_relaxed);
  auto& wakes = *reinterpret_cast<std::atomic<int32_t>*>(Waiter::GetWaiter(identity));
  packhouse::Execution* const replacement = packhouse::Execution::Replacement();
  const bool woken = replacement != nullptr ? replacement->Block(wakes, t.has_timeout())
                                            : packhouse::WaitOn(wakes, t);
  if (blocked != nullptr) blocked->fetch_sub(1, std::memory_order_relaxed);
  return woken;
}
#endif  // !defined(__SANITIZE_THREAD__)
