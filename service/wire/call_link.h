// What a streaming call asks of its connection.
#ifndef PACKHOUSE_SERVICE_WIRE_CALL_LINK_H_
#define PACKHOUSE_SERVICE_WIRE_CALL_LINK_H_

#include "absl/status/status.h"
#include "service/wire/batch_reply.h"

namespace packhouse {

// A reactor of gRPC's callback API (rpc/stream_reactor.h), or a test's. What it is asked it begins,
// and tells the call (streaming_call.h) by one of its On...() when it is done, on a thread of its
// own: never before the function that asked has returned to whoever called the call.
//
// Asked by one thread at a time, with the call's lock.
class CallLink {
 public:
  virtual ~CallLink() = default;

  // Then OnRead(). Asked again after that only.
  virtual void StartRead() = 0;

  // Then OnWritten(). Asked again after that only.
  virtual void StartWrite(MessagePieces response) = 0;

  // Ends the call with `status`; no write is on its way. Then OnDone(), once no read and no
  // cancellation is on its way any more. Nothing is asked of it afterwards.
  virtual void Finish(const absl::Status& status) = 0;

  // Drops what cannot be sent. Then OnCancel(), and OnWritten(false) if a write is on its way.
  virtual void Cancel() = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_CALL_LINK_H_
