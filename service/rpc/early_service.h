// Services whose calls are heard of as soon as their headers are there.
#ifndef PACKHOUSE_SERVICE_RPC_EARLY_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_EARLY_SERVICE_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/admission/call_context.h"
#include "service/admission/fair_bound.h"

namespace packhouse::rpc {

// A call of any kind, its messages as they are on the wire.
using CallReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Gives the call its place among those that are open (call_context.h). RESOURCE_EXHAUSTED if there
// is none: then it is cut off, for nothing of it may stay until its client has read why.
inline absl::Status TakePlace(const CallContext& context, grpc::CallbackServerContext& call,
                              FairBound::Place* place) {
  if (context.open_calls == nullptr) return absl::OkStatus();
  absl::StatusOr<FairBound::Place> entered = context.open_calls->Enter(context.client);
  if (!entered.ok()) {
    call.TryCancel();
    return entered.status();
  }
  *place = *std::move(entered);
  return absl::OkStatus();
}

// Generated services are told of a call with one request once that is there. A client that sends
// headers and no request would be counted by nobody, though each such call takes some 10 KB. To
// gRPC's server all methods here are streams both ways, and the reactor reads the request; on the
// wire there is no difference. Constant after construction.
class EarlyService : public grpc::Service {
 protected:
  using Begin = std::function<CallReactor*(grpc::CallbackServerContext*)>;

  // By its full name.
  explicit EarlyService(std::string name) : name_(std::move(name)) {}

  // Calls of `method`, such as "Pack", are begun so: by a thread of gRPC's, once their headers are
  // there. What `begin` returns belongs to gRPC.
  void Serve(absl::string_view method, Begin begin) {
    // gRPC keeps the pointer.
    const std::string& path = paths_.emplace_back(absl::StrCat("/", name_, "/", method));
    AddMethod(new grpc::internal::RpcServiceMethod(
        path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, /*handler=*/nullptr));
    MarkMethodRawCallback(
        static_cast<int>(paths_.size()) - 1,
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            std::move(begin)));
  }

  // The same for a member of the service.
  template <typename Service>
  void Serve(absl::string_view method,
             CallReactor* (Service::*begin)(grpc::CallbackServerContext*)) {
    Serve(method, [service = static_cast<Service*>(this),
                   begin](grpc::CallbackServerContext* call) { return (service->*begin)(call); });
  }

 private:
  const std::string name_;
  std::deque<std::string> paths_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_EARLY_SERVICE_H_
