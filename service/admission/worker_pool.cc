#include "service/admission/worker_pool.h"

#include <utility>

namespace packhouse {

WorkerPool::WorkerPool(const Clock* clock, size_t num_threads) : clock_(clock) {
  for (size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Submit(const ClientId& client, std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  jobs_.Push(client, std::move(job));
}

void WorkerPool::Run() {
  for (;;) {
    TurnQueue<std::function<void()>>::Turn turn;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &WorkerPool::HasNews));
      if (jobs_.empty()) return;
      turn = jobs_.Pop();
    }
    const absl::Time begun = clock_->Now();
    turn.item();
    turn.item = nullptr;
    const absl::Duration time = clock_->Now() - begun;
    absl::MutexLock lock(&mutex_);
    jobs_.Done(turn.client, time);
  }
}

}  // namespace packhouse
