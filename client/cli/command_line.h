// From the words of a command line to the exit code of a program.
#ifndef PACKHOUSE_CLIENT_CLI_COMMAND_LINE_H_
#define PACKHOUSE_CLIENT_CLI_COMMAND_LINE_H_

#include <string>

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Parses and runs. `code` is what the callbacks of `app` set. Words that `app` does not take end in
// kExitUsage with a message, which suggests the name that was likely meant.
ExitCode RunCommandLine(CLI::App& app, int argc, char** argv, const ExitCode& code);

// `there is no command 'plna'; did you mean 'plan'?`, likewise of an option; empty if neither is
// mistyped. Requires that app.parse has thrown, and only names that are not hidden are suggested:
// those that begin with the word, and those at most a third of whose letters are changed, missing,
// too many, or swapped with the next.
std::string MistypedName(const CLI::App& app);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMAND_LINE_H_
