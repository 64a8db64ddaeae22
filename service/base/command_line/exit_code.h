// How commands end: exit codes, and the messages that come with them.
#ifndef PACKHOUSE_SERVICE_BASE_COMMAND_LINE_EXIT_CODE_H_
#define PACKHOUSE_SERVICE_BASE_COMMAND_LINE_EXIT_CODE_H_

#include "absl/status/status.h"

namespace packhouse {

enum ExitCode { kExitOk = 0, kExitFailure = 1, kExitUsage = 2 };

// Writes `PROGRAM: ...` to stderr and returns the code; PROGRAM is the name with which this program
// was started. A failure is caused by a file, a server or the data; a misuse by the command line.
ExitCode Fail(const absl::Status& status);
ExitCode Misuse(const absl::Status& status);

// The same name, up to its first space: `packhouse` if the program was started as `packhouse
// graph`.
const char* ProgramName();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_COMMAND_LINE_EXIT_CODE_H_
