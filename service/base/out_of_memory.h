// Failed allocations in work that belongs to no call. (Work for a call goes through
// server/calls/allocation_failure.h, where a failure ends that call.)
#ifndef PACKHOUSE_SERVICE_BASE_OUT_OF_MEMORY_H_
#define PACKHOUSE_SERVICE_BASE_OUT_OF_MEMORY_H_

#include <cstdint>
#include <new>
#include <stdexcept>

#include "absl/status/status.h"

namespace packhouse {

// RESOURCE_EXHAUSTED. It is made when the program starts, and copying it does not allocate.
const absl::Status& OutOfMemory();

// How often work was left undone or put off for lack of memory since the start. Thread-safe, like
// everything here.
uint64_t NumOutOfMemory();
void CountOutOfMemory();

// Runs work(). False if an allocation failed, or work() asked for more than a container can have:
// then work() has stopped midway, its locks are released, and the failure is counted. The caller
// must leave consistent data behind, and do the work again or report it.
template <typename Work>
bool RunWithinMemory(Work&& work) {
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
