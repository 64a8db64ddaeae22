// Settings of the whole process for receiving large batches.
#ifndef PACKHOUSE_CLIENT_CPP_PROCESS_TUNING_H_
#define PACKHOUSE_CLIENT_CPP_PROCESS_TUNING_H_

namespace packhouse::client {

// Call it first in main, before there are threads and before gRPC is used. It changes how the whole
// process allocates, so it is for programs whose main work is to receive batches. It does three
// things:
//
// - GRPC_EXPERIMENTS=-tcp_read_chunks, unless the variable is set: a message arrives in one or two
//   slices instead of dozens, so that a BatchView need not copy.
// - glibc's malloc keeps freed buffers (up to 1 GiB) instead of giving them back to the kernel and
//   faulting them in again for the next batch, and all threads share one arena: two to three times
//   the throughput at 256 KiB to 1 MiB.
// - Abseil's check of lock order, which Debian builds in, is switched off: five to ten percent on
//   messages of 16 KiB.
void TuneProcessForBatches();

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_PROCESS_TUNING_H_
