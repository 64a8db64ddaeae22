// The memory of the process: how it is taken from the kernel, and when it is given back.
#ifndef PACKHOUSE_SERVICE_PROGRAM_PROCESS_MEMORY_H_
#define PACKHOUSE_SERVICE_PROGRAM_PROCESS_MEMORY_H_

#include "service/base/event_log.h"
#include "service/server/listen/server.h"

namespace packhouse {

// Batches are large buffers that come and go: keeps them in the process instead of giving them back
// to the kernel and faulting them in again, and shares one arena between gRPC's threads and ours.
void TuneAllocator();

// Gives memory back when it is idle, on a thread of its own until the process ends. The pointees
// must live as long.
void StartMemoryReturn(const rpc::Server* server, EventLog* log);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_PROCESS_MEMORY_H_
