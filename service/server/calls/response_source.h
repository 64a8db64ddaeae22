// The responses of a server-streaming call; free of gRPC, so that they can be tested and fuzzed
// alone.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_RESPONSE_SOURCE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_RESPONSE_SOURCE_H_

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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_RESPONSE_SOURCE_H_
