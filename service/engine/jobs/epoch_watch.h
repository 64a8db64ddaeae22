// Who works on an epoch now, for people who look on.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_EPOCH_WATCH_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_EPOCH_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/engine/jobs/delivery_snapshot.h"

namespace packhouse {

// Who waits for whom, of one session at one moment.
enum class SessionWait {
  kNobody,
  // The worker has no batch to work on, although there are more for it: it waits for the server.
  kWorker,
  // The worker has batches, and nothing is being made for it: the server waits until it reads or
  // acknowledges.
  kServer,
};

// A session of a worker that has joined.
struct WorkerWatch {
  uint32_t queue = 0;  // Its rank or, dynamic, its rank group.
  uint32_t reader = 0;
  uint32_t num_readers = 1;
  std::string worker;  // Dynamic: its name.
  // Ranked: its steps, and those of them that are done.
  uint64_t num_steps = 0;
  uint64_t num_done = 0;
  // Batches that this session has made done, and those that were sent to it and are not done.
  uint64_t num_acknowledged = 0;
  uint64_t num_in_flight = 0;
  // When it last acknowledged; before that, when it got its first batch; InfinitePast: neither.
  absl::Time last_heard = absl::InfinitePast();
  // It takes no more batches.
  bool has_ended = false;
  SessionWait wait = SessionWait::kNobody;
  // Its batches go through memory that it shares with the server, not over its connection.
  bool shares_memory = false;
};

// A rank or, dynamic, a rank group.
struct QueueWatch {
  uint64_t num_batches = 0;
  uint64_t num_done = 0;
  uint64_t num_given_back = 0;  // To be sent again.
};

// An epoch that somebody loads.
struct EpochWatch {
  // The most queues and the most workers that are listed.
  static constexpr size_t kMostListed = 1024;

  EpochProgress progress;
  bool is_ranked = false;
  uint64_t num_leased = 0;
  uint64_t num_sessions = 0;
  LeaseCounters counters;  // Since the epoch came into memory.
  // The first of them, in the order of queues and of sessions.
  std::vector<QueueWatch> queues;
  std::vector<WorkerWatch> workers;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_EPOCH_WATCH_H_
