#include "service/access/worker_pool.h"

#include <utility>

#include "service/base/out_of_memory.h"
#include "service/base/short_slices.h"

namespace packhouse {

WorkerPool::WorkerPool(const Clock* clock, size_t num_threads, Jobs jobs)
    : clock_(clock), threads_(BeginThreads(num_threads, [this, jobs] {
        if (jobs == Jobs::kQuick) AskForShortSlices();
        Run();
      })) {}

WorkerPool::~WorkerPool() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

void WorkerPool::Submit(const ClientId& client, std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  jobs_.Push(client, std::move(job));
}

void WorkerPool::SubmitFirst(const ClientId& client, std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  first_.Push(client, std::move(job));
}

WorkerPool::Queue& WorkerPool::NextQueue() {
  if (first_.empty()) return jobs_;
  return jobs_.empty() || first_in_a_row_ < kMaxFirstInARow ? first_ : jobs_;
}

void WorkerPool::Run() {
  for (;;) {
    Queue::Turn turn;
    Queue* queue = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &WorkerPool::HasNews));
      if (jobs_.empty() && first_.empty()) return;
      queue = &NextQueue();
      if (!RunWithinMemory([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { turn = queue->Pop(); })) {
        WaitForMemory();
        continue;
      }
      first_in_a_row_ = queue == &first_ ? first_in_a_row_ + 1 : 0;
    }
    const absl::Time begun = clock_->Now();
    for (int tries = 1; !RunWithinMemory(turn.item) && tries < kTries; ++tries) {
      absl::MutexLock lock(&mutex_);
      WaitForMemory();
    }
    turn.item = nullptr;
    const absl::Duration time = clock_->Now() - begun;
    absl::MutexLock lock(&mutex_);
    queue->Done(turn.client, time);
  }
}

void WorkerPool::WaitForMemory() {
  const auto never = [] { return false; };
  mutex_.AwaitWithTimeout(absl::Condition(&never), kRetry);
}

}  // namespace packhouse
