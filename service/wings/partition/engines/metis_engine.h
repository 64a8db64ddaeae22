// METIS, each call in a process of its own.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_METIS_ENGINE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_METIS_ENGINE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/assignment_engine.h"

namespace packhouse {

// The program packhouse-metis, in the folder of the program that runs.
std::string MetisProgramHere();

// `program` is the path of packhouse-metis. FAILED_PRECONDITION naming it if it cannot be executed.
//
// The engine is thread-safe. Its arrays are memory that is shared with the process; it starts no
// thread, and looks for a cancellation twenty times a second. METIS writes nothing to the logs:
// what it prints is in the error.
absl::StatusOr<std::unique_ptr<AssignmentEngine>> MakeMetisEngine(std::string program);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_METIS_ENGINE_H_
