// Memory that cannot be had, at the edge of what a thread does. (What is done for one call goes
// through wire/allocation_failure.h, and ends that call.)
#ifndef PACKHOUSE_SERVICE_BASE_OUT_OF_MEMORY_H_
#define PACKHOUSE_SERVICE_BASE_OUT_OF_MEMORY_H_

#include <cstdint>
#include <new>
#include <stdexcept>

#include "absl/status/status.h"

namespace packhouse {

// RESOURCE_EXHAUSTED. Made when the program starts: to copy it takes no memory.
const absl::Status& OutOfMemory();

// How often something was left undone, or was put off, for want of memory since the start.
// Thread-safe, as all here.
uint64_t NumOutOfMemory();
void CountOutOfMemory();

// Whether work() could allocate what it needed, or did not ask for more than a container can have.
// If not, it stopped where it stood; locks and the like are released on the way, and it is counted.
// Whoever calls this sees to it that what is left is in order, and is done again or reported.
template <typename Work>
bool HasMemoryFor(Work&& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  CountOutOfMemory();
  return false;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_OUT_OF_MEMORY_H_
