// How many files and connections the process may have open.
#ifndef PACKHOUSE_SERVICE_PROGRAM_OPEN_FILES_H_
#define PACKHOUSE_SERVICE_PROGRAM_OPEN_FILES_H_

#include "absl/status/status.h"

namespace packhouse {

// Raises the limit of open files (`ulimit -n`) to the most that is allowed. RESOURCE_EXHAUSTED with
// both numbers if that is too few to start with: libraries hang or abort for want of a descriptor.
absl::Status RaiseFileLimit();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_OPEN_FILES_H_
