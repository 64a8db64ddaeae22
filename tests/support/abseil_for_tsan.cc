// Tells ThreadSanitizer what absl::Mutex and the count of an absl::Status do. Debian's abseil is
// built without annotations, so everything that a mutex guards would look like a race, and so would
// the end of a status of which threads had copies. Linked with --wrap, in TSan builds only.
// Hides nothing that our threads do: what is done without the lock is reported as ever.
#include <sanitizer/tsan_interface.h>

#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace {
// As in the service. Abseil's own check of lock order would be seen to race with itself: what
// guards it is not wrapped.
[[maybe_unused]] const bool checks_no_lock_order = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();
}  // namespace

// The names that the linker derives from the mangled ones; abseil's inline namespace is in them.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

void __real__ZN4absl7debian36Status15UnrefNonInlinedEm(uintptr_t rep);

void __real__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex);
void __real__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex);
void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition);
bool __real__ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline);
bool __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout);

void __wrap__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex) {
  __real__ZN4absl7debian35Mutex4LockEv(mutex);
  __tsan_acquire(mutex);
}

// Abseil evaluates the conditions of those who wait in here, after the release that TSan sees but
// still under the lock.
void __wrap__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex) {
  __tsan_release(mutex);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition) {
  __tsan_release(mutex);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  __tsan_acquire(mutex);
}

bool __wrap__ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) {
  __tsan_release(mutex);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  const bool held = __real__ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE(
      mutex, condition, deadline);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  __tsan_acquire(mutex);
  return held;
}

bool __wrap__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  __tsan_release(mutex);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  const bool held = __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
      mutex, condition, timeout);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  __tsan_acquire(mutex);
  return held;
}

// The count goes down by an operation that acquires and releases; at 0 what it counts is deleted.
void __wrap__ZN4absl7debian36Status15UnrefNonInlinedEm(uintptr_t rep) {
  void* const counted = reinterpret_cast<void*>(rep);  // NOLINT(performance-no-int-to-ptr)
  __tsan_release(counted);
  __tsan_acquire(counted);
  __real__ZN4absl7debian36Status15UnrefNonInlinedEm(rep);
}
}
// NOLINTEND(bugprone-reserved-identifier)
