// What the process asks of the system that runs it: files, memory, and who has started it.
#ifndef PACKHOUSE_SERVICE_PROGRAM_PROCESS_H_
#define PACKHOUSE_SERVICE_PROGRAM_PROCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "service/base/event_log.h"
#include "service/server/listen/server.h"

namespace packhouse {

// Raises the limit of open files (`ulimit -n`) to the most that is allowed. RESOURCE_EXHAUSTED with
// both numbers if that is too few to start with: libraries hang or abort for want of a descriptor.
absl::Status RaiseFileLimit();

// From now on a process that ends because the system gives it no thread says so by a line of the
// log's form, and exits with 1. To be called once.
void ExplainWantOfThreads();

// Batches are large buffers that come and go: keeps them in the process instead of giving them back
// to the kernel and faulting them in again, and shares one arena between gRPC's threads and ours.
void TuneAllocator();

// Gives memory back when it is idle, on a thread of its own until the process ends. The pointees
// must live as long.
void StartMemoryReturn(const rpc::Server* server, EventLog* log);

// The kernel kills a process that goes beyond its limit, without a word in the log: warns if
// `limit` (unset: none) has no room for `budget` and what is beside it.
void WarnOfMemoryLimit(uint64_t budget, std::optional<uint64_t> limit, EventLog& log);

// Sends `state`, such as "READY=1", to the socket that $NOTIFY_SOCKET names; does nothing without
// one. Whoever does not listen is not waited for.
void TellServiceManager(const std::string& state);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_PROCESS_H_
