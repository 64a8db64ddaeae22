// packhoused store check and repair of what servers share.
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_CHECK_SHARED_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_CHECK_SHARED_H_

#include "CLI/App.hpp"
#include "service/program/commands/commands.h"

namespace packhouse {

// Add the flags; the argument must outlive the result.
SharedCheck AddSharedCheck(CLI::App& check);
SharedRepair AddSharedRepair(CLI::App& repair);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_CHECK_SHARED_H_
