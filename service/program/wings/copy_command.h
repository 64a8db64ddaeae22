// packhoused store copy: data sets and source graphs from one store to another.
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_COPY_COMMAND_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_COPY_COMMAND_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse {

// `code` gets the result of the command when it has been run; both must outlive the parsing.
void AddCopyCommand(CLI::App& store, ExitCode& code);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_COPY_COMMAND_H_
