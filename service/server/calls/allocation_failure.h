// The one place where a failed allocation becomes the end of a call.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_ALLOCATION_FAILURE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_ALLOCATION_FAILURE_H_

#include <new>
#include <stdexcept>
#include <type_traits>

#include "absl/status/status.h"
#include "service/base/out_of_memory.h"

namespace packhouse {

// Returns what work() returns, an absl::Status or StatusOr. RESOURCE_EXHAUSTED if an allocation
// failed, or a container was asked for more than it can have: then the call ends, and not the
// process. The objects of the work are then in an unknown state and may only be destroyed. Data
// that it shares with others is behind locks, which are released on the way.
//
// All work for one call, on every thread, goes through here. `has_failed`, if given, is set to true
// on failure.
template <typename Work>
std::invoke_result_t<Work&> EndOnAllocationFailure(Work&& work, bool* has_failed = nullptr) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    if (has_failed != nullptr) *has_failed = true;
    CountOutOfMemory();
    return OutOfMemory();
  } catch (const std::length_error&) {
    if (has_failed != nullptr) *has_failed = true;
    CountOutOfMemory();
    return OutOfMemory();
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_ALLOCATION_FAILURE_H_
