// stdin, stdout and stderr, as a program finds them and leaves them.
#ifndef PACKHOUSE_SERVICE_BASE_STANDARD_FILES_H_
#define PACKHOUSE_SERVICE_BASE_STANDARD_FILES_H_

#include "absl/status/status.h"

namespace packhouse {

// Those that are closed become /dev/null: else the next file that is opened, such as that of a
// store, would have their numbers, and what is meant for people would be written into it. To be
// called first.
void OpenStandardFiles();

// Whether all that was printed to stdout has left. UNAVAILABLE with the system's message if some of
// it was not written, as on a full disk. To be called last.
absl::Status FlushStandardOutput();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_STANDARD_FILES_H_
