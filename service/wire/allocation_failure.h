// The one place where memory that cannot be had becomes the end of a call.
#ifndef PACKHOUSE_SERVICE_WIRE_ALLOCATION_FAILURE_H_
#define PACKHOUSE_SERVICE_WIRE_ALLOCATION_FAILURE_H_

#include <new>
#include <stdexcept>
#include <type_traits>

#include "absl/status/status.h"
#include "service/base/out_of_memory.h"

namespace packhouse {

// What work() returns, an absl::Status or StatusOr. RESOURCE_EXHAUSTED if it could not allocate
// what it needed, or asked for more than a container can have: then the call that it is for ends,
// and not the process. What the work was about is then in an unknown state, and only to be
// destroyed; what it shares with others is behind locks that are released on the way.
//
// Everything that is done for one call, on whatever thread, goes through here. `has_failed`, if
// given, is set to true then.
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

#endif  // PACKHOUSE_SERVICE_WIRE_ALLOCATION_FAILURE_H_
