// A call with one request and a stream of responses: from the request to its source as a
// RequestCall says, then a StreamingCall empties the source as fast as the client reads. A call
// whose source waits holds no thread.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_SOURCE_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_SOURCE_CALL_H_

#include <functional>
#include <memory>
#include <utility>

#include "service/server/calls/call_link.h"
#include "service/server/calls/method_table.h"
#include "service/server/calls/request_call.h"
#include "service/server/calls/streaming_call.h"

namespace packhouse {

class SourceCall final : public RequestCall {
 public:
  // Starts a call, or refuses it if the gate does; it counts as a stream. `context` is the
  // client's; the row and the headers as in RequestCall.
  static std::shared_ptr<StreamingCall> Start(const CallContext& context, const MethodRow& row,
                                              CallLink* link, CallHeaders& headers);

  // A progress that is too large to send is left out, like one that is replaced.
  void Report(MessagePieces progress) override { stream_->Report(std::move(progress)); }
  std::function<void()> Waker() override { return stream_->Waker(); }

 private:
  using RequestCall::RequestCall;

  void BeginWith(std::unique_ptr<RequestBytes> request);
  void End(absl::StatusOr<Given> given) override;

  std::shared_ptr<StreamingCall> stream_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_SOURCE_CALL_H_
