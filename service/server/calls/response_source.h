// The responses of a server-streaming call; free of gRPC, so that they can be tested and fuzzed
// alone.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_RESPONSE_SOURCE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_RESPONSE_SOURCE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"

namespace packhouse {

// Gives responses one by one, whenever there is room for them. Called by one thread at a time.
template <typename Response>
class ResponseSource {
 public:
  virtual ~ResponseSource() = default;

  // The next response. nullopt after the last or, if IsWaiting(), until the call is woken. An error
  // ends the call once all earlier responses have been sent.
  virtual absl::StatusOr<std::optional<Response>> Next() = 0;

  // Whether more may come after Next() has given nothing. The producer then calls the call's Waker;
  // a wake-up while Next() runs is not lost.
  virtual bool IsWaiting() const { return false; }

  // Whether Next() has given nothing because something has gone to the client another way (a lane):
  // it should be called again at once.
  virtual bool IsBusy() const { return false; }
};

// For the work before the first response: reports its progress, and says whether to go on.
// Thread-safe.
template <typename Response>
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;

  // Sends `response` as soon as the client has taken the earlier ones, unless a later report
  // replaces it before. At most one is kept, however slow the client is. Never blocks.
  virtual void Report(const Response& response) = 0;

  // Whether nobody waits for the responses any more. Cheap enough to call now and then. It may
  // block while it is another call's turn to plan, so do not call it under a lock that others need.
  virtual bool given_up() const = 0;

  // The same, for work that is about to wait for another call's result. Never blocks, and lets
  // others plan until given_up() is called again.
  virtual bool given_up_while_waiting() const { return given_up(); }

  // The result makes the call ask a waiting source again. Any thread may call it at any time, even
  // after the sink and the call are gone. Never blocks.
  virtual std::function<void()> Waker() = 0;

  // The responses go by a lane while that is true, for people who look at the server.
  virtual void SetLane(std::shared_ptr<const std::atomic<bool>> /*uses_lane*/) {}
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_RESPONSE_SOURCE_H_
