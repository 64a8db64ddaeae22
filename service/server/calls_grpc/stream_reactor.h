// The link of a StreamingCall to gRPC's callback API; server/calls/streaming_call.h says what
// happens when.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STREAM_REACTOR_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STREAM_REACTOR_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/call_link.h"
#include "service/server/calls/call_planning.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/stream_handler.h"
#include "service/server/calls/streaming_call.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/calls_grpc/status_mapping.h"
#include "service/server/calls_grpc/wire_bytes.h"

namespace packhouse::rpc {

// gRPC owns it until the call's OnDone.
class LinkReactor final : public CallReactor, public CallLink {
 public:
  explicit LinkReactor(grpc::CallbackServerContext* peer) : peer_(peer) {}

  // To be called before gRPC has the reactor: there are no events until then.
  void set_call(std::shared_ptr<StreamingCall> call) { call_ = std::move(call); }

  void StartRead() override { CallReactor::StartRead(&read_buffer_); }
  void StartWrite(MessagePieces response) override {
    ToBytes(std::move(response), &write_buffer_);
    CallReactor::StartWrite(&write_buffer_);
  }
  void Finish(const absl::Status& status) override { CallReactor::Finish(ToGrpc(status)); }
  void Cancel() override { peer_->TryCancel(); }

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
  grpc::CallbackServerContext* const peer_;  // gRPC's, until OnDone.
  std::shared_ptr<StreamingCall> call_;
  // gRPC's while a read, or a write, is on its way.
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
};

// Calls with streams both ways.
template <typename Request, typename Response>
class StreamReactor {
 public:
  using Handler = StreamHandler<Request, Response>;

  // Starts a stream, or refuses it if the gate does. gRPC owns the result.
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& peer,
                            Method method, std::unique_ptr<Handler> handler) {
    const CallContext context = ContextOf(server, peer);
    auto* const reactor = new LinkReactor(&peer);
    const auto call = std::make_shared<StreamingCall>(context, method, reactor);
    reactor->set_call(call);
    if (call->Enter()) {
      call->Begin(std::make_unique<StreamWork<Request, Response>>(context, std::move(handler)));
    }
    return reactor;
  }

  // The same for a handler that plans. When the call is stopped its planning is given up.
  // It gets the context of the call, and its Waker().
  using MakeHandler = std::function<std::unique_ptr<Handler>(
      const CallContext& context, std::shared_ptr<StreamPlanning>, std::function<void()>)>;
  static CallReactor* StartPlanning(const CallContext& server, grpc::CallbackServerContext& peer,
                                    Method method, const MakeHandler& make_handler) {
    const CallContext context = ContextOf(server, peer);
    auto* const reactor = new LinkReactor(&peer);
    const auto planning = std::make_shared<CallPlanning>(context);
    const auto call = std::make_shared<StreamingCall>(context, method, reactor,
                                                      [planning] { planning->Cancel(); });
    planning->set_waker(call->Waker());
    reactor->set_call(call);
    if (call->Enter()) {
      call->Begin(std::make_unique<StreamWork<Request, Response>>(
          context, make_handler(context, planning, call->Waker())));
    }
    return reactor;
  }
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STREAM_REACTOR_H_
