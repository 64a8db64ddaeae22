// Finds connections whose clients do not keep to what the server has told them.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CONNECTION_CALLS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CONNECTION_CALLS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"

namespace packhouse {

// A client is told how many calls a connection may have, and gRPC enforces it once the client has
// confirmed it (HTTP/2's SETTINGS). Until then, and for calls that the client cancels at once, gRPC
// makes as many calls as the client likes. Here a connection is counted as soon as the service
// hears of its calls; one that goes beyond a bound has to end. Thread-safe; O(1) for each call.
class ConnectionCalls {
 public:
  struct Bounds {
    // Calls at once. The server may hear late that a call is over, so this is a multiple of what
    // the client is told.
    size_t most_open = 0;
    // Calls within a second that end without a request: refused or cancelled before it came.
    size_t most_wasted = 0;
  };

  // A call, for as long as anything of it exists. `all` must outlive it.
  class Call {
   public:
    Call(ConnectionCalls* all, std::string connection)
        : all_(all), connection_(std::move(connection)) {}
    ~Call() { all_->Leave(connection_, !has_request_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // A request has come.
    void OnRequest() { has_request_ = true; }

   private:
    ConnectionCalls* const all_;
    const std::string connection_;
    std::atomic<bool> has_request_ = false;
  };

  // Told once for a connection that has to end, by its name; must return soon. RESOURCE_EXHAUSTED,
  // with the bound.
  using End = std::function<void(const std::string& connection, const absl::Status& why)>;

  ConnectionCalls(const Clock* clock, const Bounds& bounds, End end)
      : clock_(clock), bounds_(bounds), end_(std::move(end)) {}
  ConnectionCalls(const ConnectionCalls&) = delete;
  ConnectionCalls& operator=(const ConnectionCalls&) = delete;

  // The name of the connection of a call from `peer`, an address as gRPC gives it
  // (client_identity.h): the client's address with its port. "" if that does not tell connections
  // apart, as in unix sockets and within a process.
  static std::string NameOf(absl::string_view peer);

  // The service has heard of a call. Null for connections without a name; these are not counted.
  std::shared_ptr<Call> Begin(absl::string_view peer);

 private:
  // A connection with calls, or with wasted ones in the last seconds.
  struct Counts {
    size_t open = 0;
    size_t wasted = 0;
    absl::Time since;  // When counting the wasted ones began.
    bool has_ended = false;
  };

  void Leave(const std::string& connection, bool is_wasted);
  // Whether it has to end, and that was not known.
  bool IsNew(Counts& counts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !std::exchange(counts.has_ended, true);
  }
  void ForgetQuiet(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  const Bounds bounds_;
  const End end_;

  absl::Mutex mutex_;
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::flat_hash_map<std::string, Counts> by_connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CONNECTION_CALLS_H_
