// packhoused store copy: data sets and source graphs from one store to another.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_COPY_COMMAND_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_COPY_COMMAND_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse {

// Adds it to `packhoused store`; `code` gets its result when it has been run. Both must outlive
// `store`'s parsing.
void AddCopyCommand(CLI::App& store, ExitCode& code);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_COPY_COMMAND_H_
