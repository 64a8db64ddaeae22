#include "client/cpp/acknowledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace packhouse::client {
namespace {

// The server's bound for one call.
constexpr size_t kMaxBatches = 65536;
// The time between two calls, so that batches gather: a call costs as much as some batches.
constexpr absl::Duration kPause = absl::Milliseconds(10);

}  // namespace

Acknowledger::Acknowledger(std::shared_ptr<grpc::Channel> channel, Send send, Options options)
    : channel_(std::move(channel)),
      send_(std::move(send)),
      options_(std::move(options)),
      thread_([this] { Run(); }) {}

Acknowledger::~Acknowledger() {
  {
    const absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  thread_.join();
}

absl::Status Acknowledger::Add(const BatchLease& lease) {
  const absl::MutexLock lock(&mutex_);
  if (absl::Status failed = TakeFailure(); !failed.ok()) return failed;
  waiting_.push_back(lease);
  return absl::OkStatus();
}

void Acknowledger::Hurry() {
  const absl::MutexLock lock(&mutex_);
  hurried_ = !waiting_.empty();
}

absl::Status Acknowledger::Flush() {
  const absl::MutexLock lock(&mutex_);
  hurried_ = !waiting_.empty();
  mutex_.Await(absl::Condition(this, &Acknowledger::IsFlushed));
  return TakeFailure();
}

absl::Status Acknowledger::Check() {
  const absl::MutexLock lock(&mutex_);
  return TakeFailure();
}

void Acknowledger::Reset() {
  const absl::MutexLock lock(&mutex_);
  waiting_.clear();
  hurried_ = false;
  failure_ = absl::OkStatus();
  ++round_;
}

std::string Acknowledger::cursor() const {
  const absl::MutexLock lock(&mutex_);
  return cursor_;
}

absl::Status Acknowledger::TakeFailure() { return std::exchange(failure_, absl::OkStatus()); }

v1::AcknowledgeRequest Acknowledger::Take() {
  const BatchLease first = waiting_.front();
  v1::AcknowledgeRequest request;
  request.set_job(options_.job);
  request.set_epoch(first.epoch);
  request.set_generation(first.generation);
  request.set_session(first.session);
  while (!waiting_.empty() && sending_.size() < kMaxBatches) {
    const BatchLease& lease = waiting_.front();
    if (lease.epoch != first.epoch || lease.generation != first.generation ||
        lease.session != first.session) {
      break;
    }
    request.add_batches(lease.batch);
    sending_.push_back(lease);
    waiting_.pop_front();
  }
  hurried_ = hurried_ && !waiting_.empty();
  return request;
}

void Acknowledger::Run() {
  absl::Time paused_until = absl::InfinitePast();
  for (;;) {
    v1::AcknowledgeRequest request;
    uint64_t round = 0;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Acknowledger::HasWork));
      if (waiting_.empty() || !failure_.ok()) return;
      mutex_.AwaitWithDeadline(absl::Condition(this, &Acknowledger::IsDue), paused_until);
      if (waiting_.empty()) continue;
      request = Take();
      round = round_;
    }
    const absl::Status delivered = Deliver(request, round);
    bool failed = false;
    {
      const absl::MutexLock lock(&mutex_);
      if (round_ == round && !delivered.ok()) {
        failure_ = delivered;
        waiting_.insert(waiting_.begin(), sending_.begin(), sending_.end());
        failed = true;
      }
      sending_.clear();
    }
    if (failed && options_.on_failure) options_.on_failure();
    paused_until = absl::Now() + kPause;
  }
}

absl::Status Acknowledger::Deliver(const v1::AcknowledgeRequest& request, uint64_t round) {
  struct Interruption {
    const Acknowledger* self;
    uint64_t round;
    bool Holds() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return self->closed_ || self->round_ != round;
    }
  } const interruption{this, round};
  bool interrupted = false;
  RetryOptions retry = options_.retry;
  retry.sleep = [&](absl::Duration wait) {
    const absl::MutexLock lock(&mutex_);
    interrupted =
        mutex_.AwaitWithTimeout(absl::Condition(&interruption, &Interruption::Holds), wait);
  };
  Retrier retrier(channel_, std::move(retry),
                  absl::StrCat("Acknowledge of job '", options_.job, "'"));
  for (;;) {
    absl::StatusOr<v1::AcknowledgeResponse> response = send_(request);
    if (response.ok()) {
      const absl::MutexLock lock(&mutex_);
      if (round_ == round) cursor_ = std::move(*response->mutable_cursor());
      return absl::OkStatus();
    }
    absl::Status failed = response.status();
    if (interrupted || !retrier.WaitAfter(failed)) return failed;
  }
}

}  // namespace packhouse::client
