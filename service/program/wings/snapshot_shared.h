// packhoused store snapshot and restore of what servers share.
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_SNAPSHOT_SHARED_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_SNAPSHOT_SHARED_H_

#include "CLI/App.hpp"
#include "service/program/commands/commands.h"

namespace packhouse {

// Each adds the flags; the command must outlive the result.
SharedSnapshot AddSharedSnapshot(CLI::App& snapshot);
SharedSnapshot AddSharedRestore(CLI::App& restore);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_SNAPSHOT_SHARED_H_
