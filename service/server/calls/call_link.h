// The interface through which a streaming call uses its connection.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_LINK_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_LINK_H_

#include "absl/status/status.h"
#include "service/server/calls/batch_reply.h"

namespace packhouse {

// Implemented by a reactor of gRPC's callback API (server/calls_grpc/stream_reactor.h), and by
// tests. Each function starts an operation. When it is done, the link calls one of the On...()
// functions of the call (streaming_call.h) on a thread of its own, and never before the call's
// function that started it has returned.
//
// Called by one thread at a time, under the call's lock.
class CallLink {
 public:
  virtual ~CallLink() = default;

  // Followed by OnRead(). May be called again only after that.
  virtual void StartRead() = 0;

  // Followed by OnWritten(). May be called again only after that.
  virtual void StartWrite(MessagePieces response) = 0;

  // Ends the call with `status`; no write may be on its way. Followed by OnDone(), once no read and
  // no cancellation is on its way. Nothing may be called afterwards.
  virtual void Finish(const absl::Status& status) = 0;

  // Drops responses that cannot be sent. Followed by OnCancel(), and by OnWritten(false) if a write
  // is on its way.
  virtual void Cancel() = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_LINK_H_
