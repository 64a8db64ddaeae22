// Tells ThreadSanitizer what absl::Mutex does: Debian's abseil is built without its annotations, so
// that everything a mutex guards would look like a race. Linked with --wrap, in TSan builds only.
// Hides nothing: what is done without the lock is reported as ever.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"

// The names that the linker derives from the mangled ones; abseil's inline namespace is in them.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void __real__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex);
void __real__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex);

void __wrap__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex) {
  __real__ZN4absl7debian35Mutex4LockEv(mutex);
  __tsan_acquire(mutex);
}

void __wrap__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex) {
  __tsan_release(mutex);
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
}
}
// NOLINTEND(bugprone-reserved-identifier)
