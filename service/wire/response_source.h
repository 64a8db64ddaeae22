// What a server-streaming call answers; free of gRPC, so that it can be tested and fuzzed alone.
#ifndef PACKHOUSE_SERVICE_WIRE_RESPONSE_SOURCE_H_
#define PACKHOUSE_SERVICE_WIRE_RESPONSE_SOURCE_H_

#include <functional>
#include <optional>

#include "absl/status/statusor.h"

namespace packhouse {

// Gives responses one by one, when there is room for them. Called by one thread at a time.
template <typename Response>
class ResponseSource {
 public:
  virtual ~ResponseSource() = default;

  // The next response; nothing after the last, or, if IsWaiting(), until the call is woken. An
  // error ends the call once what was given before has been sent.
  virtual absl::StatusOr<std::optional<Response>> Next() = 0;

  // Whether more may come after Next() has given nothing. Whoever brings it calls the call's Waker;
  // a wake-up while Next() runs is not lost.
  virtual bool IsWaiting() const { return false; }
};

// For the work that comes before the first response: how far it is, and whether to go on.
// Thread-safe.
template <typename Response>
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;

  // Sends `response` as soon as the client has taken what was sent before, unless a later one takes
  // its place until then: however slow the client, one at most is kept. Never blocks.
  virtual void Report(const Response& response) = 0;

  // Nobody waits for the responses any more. Cheap enough to be asked now and then; may block while
  // it is others' turn to plan: not to be asked under a lock that they need.
  virtual bool given_up() const = 0;

  // The same before waiting for what another call makes: never blocks, and lets others plan until
  // given_up() is asked again.
  virtual bool given_up_while_waiting() const { return given_up(); }

  // Lets a source that waits be asked again. May be called by any thread at any time, also when the
  // sink and the call are gone. Never blocks.
  virtual std::function<void()> Waker() = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_RESPONSE_SOURCE_H_
