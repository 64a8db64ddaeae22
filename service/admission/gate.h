// Admission: who may come in, and when the last one has left.
#ifndef PACKHOUSE_SERVICE_ADMISSION_GATE_H_
#define PACKHOUSE_SERVICE_ADMISSION_GATE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/admission/client_identity.h"

namespace packhouse {

// An open stream that can be told to end.
class Abortable {
 public:
  virtual ~Abortable() = default;
  // Ends the stream with `status` as soon as that is possible; does not wait.
  virtual void Abort(const absl::Status& status) = 0;
  // Ends it if nothing has gone either way since `since`, once what it owes is sent; does not wait.
  virtual void EndIfIdleSince(absl::Time since) = 0;
};

// Counts open streams and calls, of all clients and of each, and refuses what is too much:
// RESOURCE_EXHAUSTED above a bound, naming it, UNAVAILABLE once closed. Clients without streams and
// calls leave nothing behind. Thread-safe.
class Gate {
 public:
  struct Bounds {
    size_t max_streams = 1024;
    size_t max_calls = 256;  // Unary calls at work or waiting for a thread.
    // Of one client; not set: half of all, at least one. Where all come through one proxy they are
    // one client.
    std::optional<size_t> max_streams_per_client = std::nullopt;
    std::optional<size_t> max_calls_per_client = std::nullopt;
  };

  // Calls that plan may be many and wait for long: they are at most half of all calls and half of
  // their client's, at least one, so that there is room for those that do not.
  enum class CallKind { kQuick, kPlanning };

  explicit Gate(const Bounds& bounds);

  // Each success is paired with one Leave. The stream is kept alive only while it is aborted.
  absl::Status EnterStream(const ClientId& client, const std::shared_ptr<Abortable>& stream);
  void LeaveStream(const Abortable* stream);
  absl::Status EnterCall(const ClientId& client, CallKind kind);
  void LeaveCall(const ClientId& client, CallKind kind);

  // A unary call whose request has not come yet: it is told to end as streams are. Bounded by its
  // users (CallContext::open_calls). UNAVAILABLE once closed.
  absl::Status EnterWaiting(const std::shared_ptr<Abortable>& call);
  void LeaveWaiting(const Abortable* call);

  // Lets nobody in any more.
  void Close();
  bool is_closed() const;

  // Whether all have left by `deadline`. Blocks.
  bool WaitUntilEmpty(absl::Time deadline) const;

  // And calls whose requests have not come.
  void AbortStreams(const absl::Status& status);
  // EndIfIdleSince() for each that is open, and for such calls. O(streams and calls).
  void EndIdleStreams(absl::Time since);

 private:
  // Of a client that has some of them.
  struct Counts {
    size_t streams = 0;
    size_t calls = 0;
    size_t planning = 0;  // Of the calls.
  };
  struct Stream {
    std::weak_ptr<Abortable> stream;
    ClientId client;
  };

  bool IsEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return streams_.empty() && waiting_.empty() && all_.calls == 0;
  }
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Counts CountsOf(const ClientId& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveIfNone(const ClientId& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<Abortable>> OpenStreams() const;

  const Bounds bounds_;
  const size_t max_streams_per_client_;
  const size_t max_calls_per_client_;

  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Counts all_ ABSL_GUARDED_BY(mutex_);  // But for streams, which streams_ tells.
  absl::flat_hash_map<ClientId, Counts> by_client_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Abortable*, Stream> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Abortable*, std::weak_ptr<Abortable>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_GATE_H_
