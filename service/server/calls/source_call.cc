#include "service/server/calls/source_call.h"

#include <variant>

namespace packhouse {

std::shared_ptr<StreamingCall> SourceCall::Start(const CallContext& context, const MethodRow& row,
                                                 CallLink* link, CallHeaders& headers) {
  const std::shared_ptr<SourceCall> self(new SourceCall(context, row, headers));
  const auto stream = std::make_shared<StreamingCall>(context, row.method, link,
                                                      [weak = std::weak_ptr<SourceCall>(self)] {
                                                        if (const auto call = weak.lock())
                                                          call->Cancel();
                                                      });
  self->stream_ = stream;
  if (stream->Enter()) {
    stream->Receive(
        [self](std::unique_ptr<RequestBytes> request) { self->BeginWith(std::move(request)); });
  }
  return stream;
}

void SourceCall::BeginWith(std::unique_ptr<RequestBytes> request) {
  if (request != nullptr) return Begin(std::move(request));
  End(IsGone() ? absl::CancelledError("the client cancelled or is gone")
               : absl::InvalidArgumentError("the call ended without a request"));
}

// The call may end as soon as Begin() is called; then the pointees of the work may be gone.
void SourceCall::End(absl::StatusOr<Given> given) {
  if (given.ok()) {
    stream_->Begin(std::get<std::unique_ptr<CallWork>>(*std::move(given)));
  } else {
    stream_->Begin(given.status());
  }
}

}  // namespace packhouse
