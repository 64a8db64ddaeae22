// Acknowledgements of batches, sent on a thread of their own.
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

// A batch, and to whom it was given.
struct BatchLease {
  uint64_t epoch = 0;
  uint64_t generation = 0;
  uint64_t session = 0;
  uint64_t batch = 0;
};

// Each call has all that has gathered for one session. The first is sent at once. Those that come
// within 10 ms of a call wait for each other: until that time is over, or `gather` have come, or
// somebody hurries.
//
// A call that fails because the server is away is tried again as RetryOptions say. When it has
// failed for good, sending stops until a caller has been told, by whichever function comes first;
// what was not sent waits to be tried again. Thread-safe.
class Acknowledger {
 public:
  // Makes one call of LoaderService.Acknowledge.
  using Send =
      std::function<absl::StatusOr<v1::AcknowledgeResponse>(const v1::AcknowledgeRequest& request)>;

  struct Options {
    std::string job;
    // Batches that do not wait for more.
    size_t gather = 1;
    // Its `sleep` is not used.
    RetryOptions retry;
    // Called on the thread that sends when sending stops. May be null.
    std::function<void()> on_failure;
  };

  Acknowledger(std::shared_ptr<grpc::Channel> channel, Send send, Options options);
  Acknowledger(const Acknowledger&) = delete;
  Acknowledger& operator=(const Acknowledger&) = delete;
  // Tries once more to send what waits.
  ~Acknowledger();

  // Will send it soon. Error: that with which sending has failed; then nothing is added.
  absl::Status Add(const BatchLease& lease);
  // What was added is sent now, although more may come.
  void Hurry();
  // Waits until all that was added is durable. Error: that with which sending has failed.
  absl::Status Flush();
  // Error: that with which sending has failed.
  absl::Status Check();
  // Forgets what has not been sent, and that sending has failed.
  void Reset();

  // What was done, by all workers, when the last acknowledgement became durable; empty before.
  std::string cursor() const;

 private:
  void Run();
  absl::Status Deliver(const v1::AcknowledgeRequest& request, uint64_t round);
  // The first that wait, of one session.
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
  // What Reset() has made irrelevant is of an earlier round.
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string cursor_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_ACKNOWLEDGER_H_
