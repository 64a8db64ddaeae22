// The link of a StreamingCall to gRPC's callback API; server/calls/streaming_call.h says what
// happens when.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STREAM_REACTOR_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STREAM_REACTOR_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/call_link.h"
#include "service/server/calls/call_planning.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/method_table.h"
#include "service/server/calls/source_call.h"
#include "service/server/calls/streaming_call.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/call_reactor.h"
#include "service/server/calls_grpc/status_mapping.h"
#include "service/server/calls_grpc/wire_bytes.h"

namespace packhouse::rpc {

// gRPC owns it until the call's OnDone.
class StreamReactor final : public CallReactor, public CallLink, public GrpcHeaders {
 public:
  explicit StreamReactor(grpc::CallbackServerContext* peer) : GrpcHeaders(peer) {}

  // To be called before gRPC has the reactor: there are no events until then.
  void set_call(std::shared_ptr<StreamingCall> call) { call_ = std::move(call); }

  void StartRead() override { CallReactor::StartRead(&read_buffer_); }
  void StartWrite(MessagePieces response) override {
    ToBytes(std::move(response), &write_buffer_);
    CallReactor::StartWrite(&write_buffer_);
  }
  void Finish(const absl::Status& status) override { CallReactor::Finish(ToGrpc(status)); }
  void Cancel() override { peer().TryCancel(); }

  void OnReadDone(bool ok) override {
    std::unique_ptr<RequestBytes> request;
    if (ok) request = std::make_unique<ReceivedBytes>(&read_buffer_);
    call_->OnRead(std::move(request));
  }
  void OnWriteDone(bool ok) override {
    write_buffer_.Clear();
    call_->OnWritten(ok);
  }
  void OnCancel() override { call_->OnCancel(); }
  void OnDone() override {
    call_->OnDone();
    delete this;
  }

 private:
  std::shared_ptr<StreamingCall> call_;
  // gRPC's while a read, or a write, is on its way.
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
};

// Starts a stream both ways, or refuses it if the gate does. gRPC owns the result.
inline CallReactor* StartStream(const CallContext& server, grpc::CallbackServerContext& peer,
                                const MethodRow& row) {
  CallContext context = ContextOf(server, peer);
  if (row.waits == Waits::kStore) context.stream_pool = context.append_pool;
  auto* const reactor = new StreamReactor(&peer);
  const auto planning = std::make_shared<CallPlanning>(context);
  const auto call = std::make_shared<StreamingCall>(context, row.method, reactor,
                                                    [planning] { planning->Cancel(); });
  planning->set_waker(call->Waker());
  reactor->set_call(call);
  if (call->Enter()) call->Begin(row.open({call->context(), *reactor, planning, call->Waker()}));
  return reactor;
}

// The same with one request.
inline CallReactor* StartSource(const CallContext& server, grpc::CallbackServerContext& peer,
                                const MethodRow& row) {
  auto* const reactor = new StreamReactor(&peer);
  reactor->set_call(SourceCall::Start(ContextOf(server, peer), row, reactor, *reactor));
  return reactor;
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STREAM_REACTOR_H_
