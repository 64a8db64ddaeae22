// Admission: who may come in, and when the last one has left.
#ifndef PACKHOUSE_SERVICE_RPC_GATE_H_
#define PACKHOUSE_SERVICE_RPC_GATE_H_

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace packhouse::rpc {

// An open stream that can be told to end.
class Abortable {
 public:
  virtual ~Abortable() = default;
  // Ends the stream with `status` as soon as that is possible; does not wait.
  virtual void Abort(const absl::Status& status) = 0;
};

// Counts open streams and calls, and refuses what is too much: RESOURCE_EXHAUSTED above a bound,
// UNAVAILABLE once closed. Thread-safe.
class Gate {
 public:
  struct Bounds {
    size_t max_streams = 1024;
    size_t max_calls = 256;  // Unary calls at work or waiting for a thread.
  };

  explicit Gate(Bounds bounds) : bounds_(bounds) {}

  // Each success is paired with one Leave. The stream is kept alive only while it is aborted.
  absl::Status EnterStream(const std::shared_ptr<Abortable>& stream);
  void LeaveStream(const Abortable* stream);
  absl::Status EnterCall();
  void LeaveCall();

  // Lets nobody in any more.
  void Close();
  bool is_closed() const;

  // Whether all have left by `deadline`. Blocks.
  bool WaitUntilEmpty(absl::Time deadline) const;

  void AbortStreams(const absl::Status& status);

 private:
  bool IsEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return streams_.empty() && num_calls_ == 0;
  }
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Bounds bounds_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<const Abortable*, std::weak_ptr<Abortable>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_GATE_H_
