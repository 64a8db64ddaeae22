// Turns the words of a command line into the exit code of a program.
#ifndef PACKHOUSE_SERVICE_BASE_COMMAND_LINE_COMMAND_LINE_H_
#define PACKHOUSE_SERVICE_BASE_COMMAND_LINE_COMMAND_LINE_H_

#include <string>

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse {

// Refuses negative numbers, and those beyond 64 bits, for all options of `app` and its commands
// that take a number without a sign: those whose type is called UINT, N, COUNT, NUMBER or SEED.
// Their parser would take the largest number instead.
void CheckNumbers(CLI::App& app);

// Refuses an empty value, such as that of `--dataset=`, for each option that is required.
void CheckRequired(CLI::App& app);

// Parses and runs, after CheckNumbers() and CheckRequired(). `--name=` is an empty value. The
// callbacks of `app` set `code`. For words that `app` does not take, the result is kExitUsage, with
// a message that suggests the name that was probably meant. If stdout did not take all that was
// printed, as on a full disk, the result is kExitFailure, with a message. To be called first, and
// once: it opens /dev/null where stdin, stdout or stderr are closed.
ExitCode RunCommandLine(CLI::App& app, int argc, char** argv, const ExitCode& code);

// `there is no command 'plna'; did you mean 'plan'?`, or the same for an option; empty if neither
// is mistyped. Requires that app.parse has thrown. Suggests only names that are not hidden: those
// that begin with the word, and those of which at most a third of the letters are changed, missing,
// added, or swapped with the next.
std::string MistypedName(const CLI::App& app);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_COMMAND_LINE_COMMAND_LINE_H_
