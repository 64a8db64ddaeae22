// What a stream does with its requests; free of gRPC, so that it can be tested and fuzzed alone.
#ifndef PACKHOUSE_SERVICE_WIRE_STREAM_HANDLER_H_
#define PACKHOUSE_SERVICE_WIRE_STREAM_HANDLER_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace packhouse {

// Flow: Next() until it gives nothing and not IsBusy(), then Accept() one request, then Next()
// again, and so on. After HalfClose(), the same ends the stream. Called by one thread at a time.
template <typename Request, typename Response>
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // Takes one request. An error ends the stream once HalfClose() and Next() have given out what
  // earlier requests are owed.
  virtual absl::Status Accept(std::unique_ptr<Request> request) = 0;

  // No request will follow.
  virtual void HalfClose() = 0;

  // The next response; nothing if it takes another request, or NextDeadline(), to make one.
  virtual absl::StatusOr<std::optional<Response>> Next() = 0;

  // Whether Next(), which has given nothing, has more to do: it stops in between so that others
  // have their turn.
  virtual bool IsBusy() const { return false; }

  // Whether Accept() or Next() may have to wait, for the disk or the like: then they are not called
  // on gRPC's threads.
  virtual bool MayBlock() const { return false; }

  // When Next() must be called again without a request.
  virtual absl::Time NextDeadline() const { return absl::InfiniteFuture(); }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_STREAM_HANDLER_H_
