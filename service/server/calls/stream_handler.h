// Handles the requests of a stream; free of gRPC, so that it can be tested and fuzzed alone.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_STREAM_HANDLER_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_STREAM_HANDLER_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace packhouse {

// Flow: call Next() until it gives nothing and IsBusy() and IsWaiting() are false; then Accept()
// one request; then Next() again, and so on. After HalfClose(), the stream ends when Next() gives
// nothing and both are false. Called by one thread at a time.
template <typename Request, typename Response>
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // Takes one request. An error ends the stream, after HalfClose() and after Next() has given the
  // responses to earlier requests.
  virtual absl::Status Accept(std::unique_ptr<Request> request) = 0;

  // Whether Accept() of this request may wait for another machine, where servers share their
  // stores. Then it is called on the opening pool (call_context.h).
  virtual bool OpensOnStore(const Request& /*request*/) const { return false; }

  // No request will follow.
  virtual void HalfClose() = 0;

  // The next response; nullopt if another request, or NextDeadline(), is needed to make one.
  virtual absl::StatusOr<std::optional<Response>> Next() = 0;

  // Whether Next(), which has given nothing, has more to do: it stops now and then to let others
  // have their turn.
  virtual bool IsBusy() const { return false; }

  // Whether Next(), which has given nothing, waits for work on another thread, which will wake the
  // call. Until then no request is taken.
  virtual bool IsWaiting() const { return false; }

  // Whether Accept() or Next() may have to wait, for example for the disk. Then they are never
  // called on gRPC's threads.
  virtual bool MayBlock() const { return false; }

  // The time at which Next() must be called again even without a request.
  virtual absl::Time NextDeadline() const { return absl::InfiniteFuture(); }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_STREAM_HANDLER_H_
