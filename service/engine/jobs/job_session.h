// One stream of one worker, as its job sees it.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_SESSION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/access/client_identity.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/lease_table.h"
#include "service/engine/jobs/window_plans.h"

namespace packhouse {

struct JoinResult {
  uint64_t generation = 0;
  // This worker is the first of the generation.
  bool started = false;
  // The cursor at which the generation started; load with it to get the same again.
  std::string cursor;
};

// What a worker learns when it joins.
struct LoadStart {
  JoinResult join;
  SessionId session = 0;
  EpochProgress progress;
  // Steps of this worker in this generation, and how many of them are done.
  uint64_t num_steps = 0;
  uint64_t num_steps_done = 0;
  // Not used if the epoch has windows.
  std::shared_ptr<const Dealing> dealing;
  // Of an epoch with windows: batches of those that are known.
  std::vector<uint32_t> windows;
  // Not all of its batches are known.
  bool num_steps_is_estimate = false;
};

// A session, for people.
struct SessionSummary {
  EpochKey key;
  SessionId id = 0;
  ClientId client;  // Empty: not known.
  uint32_t queue = 0;
  std::string worker;
  uint64_t num_leases = 0;  // Batches that it has and has not acknowledged.
};

// Lives from Job::StartJoin() to Job::Leave().
class JobSession {
 public:
  JobSession(EpochKey of_epoch, SessionId number, const JoinRequest& request, size_t most_in_flight,
             std::function<void()> to_wake, std::shared_ptr<const void> pinned)
      : key(std::move(of_epoch)),
        id(number),
        queue(request.queue),
        reader(request.reader),
        worker(request.worker),
        client(request.client),
        ends_when_all_leased(request.ends_when_all_leased),
        epoch(request.epoch),
        max_in_flight(most_in_flight),
        wake(std::move(to_wake)),
        pin(std::move(pinned)) {}

  const EpochKey key;
  const SessionId id;
  const uint32_t queue;
  const Reader reader;
  const std::string worker;
  const ClientId client;  // Whose worker it is; empty: not known.
  const bool ends_when_all_leased;
  const std::weak_ptr<const LoadableEpoch> epoch;
  const size_t max_in_flight;
  const std::function<void()> wake;
  const std::shared_ptr<const void> pin;

  // The batch that was leased last is being made. Set under the job's mutex, and cleared without
  // it.
  std::atomic<bool> is_making = false;

  // Guarded by the job's mutex.
  enum class State { kJoining, kJoined, kRefused };
  State state = State::kJoining;
  bool has_left = false;
  bool has_ended = false;
  bool waits_for_join = false;
  AwaitedWindow awaited;
  // Whether its batches go through memory that it shares; null: never.
  std::shared_ptr<const std::atomic<bool>> shares_memory;
  size_t num_acknowledging = 0;  // Batches whose acknowledgement is not durable yet.
  bool is_lost = false;          // There was no memory for its epoch.
  uint64_t opening = 0;          // JobLedger::OpeningOf() its epoch. kJoined.
  absl::Status refusal;          // kRefused.
  LoadStart start;               // kJoined.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_SESSION_H_
