#include "service/rpc/worker_pool.h"

#include <utility>

namespace packhouse::rpc {

WorkerPool::WorkerPool(size_t num_threads) {
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
    std::function<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &WorkerPool::HasNews));
      if (jobs_.empty()) return;
      job = jobs_.Pop();
    }
    job();
  }
}

}  // namespace packhouse::rpc
