// Asks before something is done that cannot be undone.
#ifndef PACKHOUSE_CLIENT_CLI_CONFIRM_H_
#define PACKHOUSE_CLIENT_CLI_CONFIRM_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Nothing if it may be done; else the exit code, after stderr has got the reason.
//
// Nobody is asked if `yes` is set, which is --yes. Otherwise `describe` says what would be done, as
// in `delete job 'a'`. On a terminal that is the question, and `y` or `yes` the answer that agrees;
// if stdin is no terminal, it is a misuse. An error of `describe` is a failure.
std::optional<ExitCode> RefusalToDo(bool yes,
                                    absl::FunctionRef<absl::StatusOr<std::string>()> describe);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_CONFIRM_H_
