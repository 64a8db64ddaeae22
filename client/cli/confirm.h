// Asks before something that cannot be undone.
#ifndef PACKHOUSE_CLIENT_CLI_CONFIRM_H_
#define PACKHOUSE_CLIENT_CLI_CONFIRM_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/cli/arguments.h"

namespace packhouse::client {

// nullopt if it may be done; otherwise the exit code, after the reason was written to stderr.
//
// With `yes` (the option --yes) it does not ask. Otherwise `describe` says what would be done, as
// in `delete job 'a'`. On a terminal this is the question, and the answer `y` or `yes` agrees. If
// stdin is no terminal, it is a misuse. An error of `describe` is a failure.
std::optional<ExitCode> RefusalToDo(bool yes,
                                    absl::FunctionRef<absl::StatusOr<std::string>()> describe);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_CONFIRM_H_
