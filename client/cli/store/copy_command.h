// packhouse store copy: data sets and source graphs from one store to another.
#ifndef PACKHOUSE_CLIENT_CLI_STORE_COPY_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_STORE_COPY_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds it to `packhouse store`; `code` gets its result when it has been run. Both must outlive
// `store`'s parsing.
void AddCopyCommand(CLI::App& store, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_STORE_COPY_COMMAND_H_
