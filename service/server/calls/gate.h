// Admission: which calls may enter, and when the last one has left.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GATE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GATE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"

namespace packhouse {

// An open stream that can be told to end.
class Abortable {
 public:
  virtual ~Abortable() = default;
  // Ends the stream with `status` as soon as that is possible; does not wait.
  virtual void Abort(const absl::Status& status) = 0;
  // Ends the stream if nothing has gone either way since `since`, once it has sent what it owes;
  // does not wait.
  virtual void EndIfIdleSince(absl::Time since) = 0;
};

// Counts open streams and calls, of all clients and of each, and refuses those beyond a bound:
// RESOURCE_EXHAUSTED naming the bound, or UNAVAILABLE once closed. Clients without streams and
// calls leave nothing behind. Thread-safe.
class Gate {
 public:
  struct Bounds {
    size_t max_streams = 1024;
    size_t max_calls = 256;  // Unary calls at work or waiting for a thread.
    // The bound of one client; unset: half of all, at least one. All clients behind one proxy are
    // one client.
    std::optional<size_t> max_streams_per_client = std::nullopt;
    std::optional<size_t> max_calls_per_client = std::nullopt;
  };

  // Calls that plan may be many and wait for long. They are at most half of all calls and half of
  // their client's, at least one, so that there is room for other calls.
  enum class CallKind { kQuick, kPlanning };

  explicit Gate(const Bounds& bounds);

  // Each success is paired with one Leave. The stream is kept alive only while it is aborted.
  absl::Status EnterStream(const ClientId& client, const std::shared_ptr<Abortable>& stream);
  void LeaveStream(const Abortable* stream);
  absl::Status EnterCall(const ClientId& client, CallKind kind);
  void LeaveCall(const ClientId& client, CallKind kind);

  // A unary call whose request has not come yet; it is told to end in the same way as streams. Its
  // users bound the number (CallContext::open_calls). UNAVAILABLE once closed.
  absl::Status EnterWaiting(const std::shared_ptr<Abortable>& call);
  void LeaveWaiting(const Abortable* call);

  // From now on lets no call in.
  void Close();
  bool is_closed() const;

  // Whether all have left by `deadline`, a SteadyTime(). Blocks.
  bool WaitUntilEmpty(absl::Time deadline) const;

  // Also aborts calls whose requests have not come.
  void AbortStreams(const absl::Status& status);
  // Calls EndIfIdleSince() for each open stream, and for calls whose requests have not come.
  // O(streams and calls).
  void EndIdleStreams(absl::Time since);

 private:
  // The counts of a client that has any.
  struct Counts {
    size_t streams = 0;
    size_t calls = 0;
    size_t planning = 0;  // Calls that plan.
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
  Counts all_ ABSL_GUARDED_BY(mutex_);  // Without streams: streams_ has those.
  absl::flat_hash_map<ClientId, Counts> by_client_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Abortable*, Stream> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Abortable*, std::weak_ptr<Abortable>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GATE_H_
