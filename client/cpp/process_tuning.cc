#include "client/cpp/process_tuning.h"

#include <malloc.h>

#include <cstdlib>

#include "absl/synchronization/mutex.h"

namespace packhouse::client {

void TuneProcessForBatches() {
  setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", 0);
  // As packhoused: service/program/main.cc.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace packhouse::client
