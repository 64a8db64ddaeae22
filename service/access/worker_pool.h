// Threads for work that is too long for gRPC's own polling threads.
#ifndef PACKHOUSE_SERVICE_ACCESS_WORKER_POOL_H_
#define PACKHOUSE_SERVICE_ACCESS_WORKER_POOL_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/job_pool.h"
#include "service/access/turn_queue.h"
#include "service/base/clock.h"
#include "service/base/execution.h"

namespace packhouse {

// Runs jobs of clients by turns (turn_queue.h): clients get the same time, however much each
// submits. The queue is bounded by its users: a stream has at most one job in it, a unary call one,
// and the gate bounds both. Thread-safe.
//
// A job that runs out of memory (std::bad_alloc) is run again a little later, up to kTries times.
// So it must be able to go on, or to begin again. After that it is given up, and counted
// (base/out_of_memory.h). This does not happen to calls: they end before
// (server/calls/allocation_failure.h).
class WorkerPool final : public JobPool {
 public:
  // What the jobs are: quick ones should not wait for threads that work for long
  // (base/short_slices.h).
  enum class Jobs { kAny, kQuick };

  WorkerPool(const Clock* clock, size_t num_threads, Jobs jobs = Jobs::kAny);
  // Runs the queued jobs, then ends.
  ~WorkerPool() override;

  static constexpr int kTries = 100;

  void Submit(const ClientId& client, std::function<void()> job) override;

  // The same for a job that goes before those of Submit(), of whichever client. After
  // kMaxFirstInARow such jobs one of the others is next, if there is one: so the others have their
  // share of the threads, however many of these come.
  void SubmitFirst(const ClientId& client, std::function<void()> job);
  static constexpr int kMaxFirstInARow = 3;

 private:
  static constexpr absl::Duration kRetry = absl::Milliseconds(10);

  using Queue = TurnQueue<std::function<void()>>;

  void Run();
  void WaitForMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || !jobs_.empty() || !first_.empty();
  }
  // The queue whose turn it is. Requires that there is a job.
  Queue& NextQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  Queue jobs_ ABSL_GUARDED_BY(mutex_);
  Queue first_ ABSL_GUARDED_BY(mutex_);
  int first_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Thread> threads_;  // End before the others do.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_WORKER_POOL_H_
