// Acknowledges batches on a thread of its own.
#ifndef PACKHOUSE_CLIENT_CPP_ACKNOWLEDGER_H_
#define PACKHOUSE_CLIENT_CPP_ACKNOWLEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// A batch, and the session that it was given to.
struct BatchLease {
  uint64_t epoch = 0;
  uint64_t generation = 0;
  uint64_t session = 0;
  uint64_t batch = 0;
};

// Each call has all batches that have gathered for one session. The first is sent at once. Batches
// that come within 10 ms of a call wait for each other: until that time is over, or `gather`
// batches have come, or Hurry() is called.
//
// A call that fails because the server is away is retried as RetryOptions say. When it has failed
// for good, sending stops until any function has returned the error to a caller. Batches that were
// not sent wait for another try. Thread-safe.
class Acknowledger {
 public:
  // Makes one call of LoaderService.Acknowledge.
  using Send =
      std::function<absl::StatusOr<v1::AcknowledgeResponse>(const v1::AcknowledgeRequest& request)>;

  struct Options {
    std::string job;
    // This many batches do not wait for more.
    size_t gather = 1;
    // Its `sleep` is not used.
    RetryOptions retry;
    // Called on the sending thread when sending stops. May be null.
    std::function<void()> on_failure;
  };

  Acknowledger(std::shared_ptr<grpc::Channel> channel, Send send, Options options);
  Acknowledger(const Acknowledger&) = delete;
  Acknowledger& operator=(const Acknowledger&) = delete;
  // Tries once more to send the waiting batches.
  ~Acknowledger();

  // Queues a batch, which is sent soon. Error: the error of sending, if it has failed; then nothing
  // is added.
  absl::Status Add(const BatchLease& lease);
  // Sends the added batches now, without waiting for more.
  void Hurry();
  // Waits until all added batches are durable. Returns the error of sending, if it has failed.
  absl::Status Flush();
  // Error: that with which sending has failed.
  absl::Status Check();
  // Forgets unsent batches, and the error of sending.
  void Reset();

  // The cursor of the last durable acknowledgement, with the batches of all workers; empty before.
  std::string cursor() const;

 private:
  void Run();
  absl::Status Deliver(const v1::AcknowledgeRequest& request, uint64_t round);
  // The first waiting batches, of one session.
  v1::AcknowledgeRequest Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeFailure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || (!waiting_.empty() && failure_.ok());
  }
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || hurried_ || waiting_.empty() || waiting_.size() >= options_.gather;
  }
  bool IsFlushed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !failure_.ok() || (waiting_.empty() && sending_.empty());
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const Send send_;
  const Options options_;

  mutable absl::Mutex mutex_;
  std::deque<BatchLease> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<BatchLease> sending_ ABSL_GUARDED_BY(mutex_);
  bool hurried_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Counts Reset(): calls of earlier rounds no longer matter.
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string cursor_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_ACKNOWLEDGER_H_
