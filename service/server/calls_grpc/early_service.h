// Services that know of a call as soon as its headers have come.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_EARLY_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_EARLY_SERVICE_H_

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
#include "service/access/fair_bound.h"
#include "service/base/short_slices.h"
#include "service/server/calls/call_context.h"

namespace packhouse::rpc {

// A call of any kind, with messages as raw bytes.
using CallReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Gives the call its place among the open calls (call_context.h). RESOURCE_EXHAUSTED if there is
// none. Then the call is cut off: nothing of it may stay, even until its client has read the
// reason.
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

// Generated services learn of a call with one request only when the request has come. A client that
// sends headers without requests would not be counted, though each such call takes some 10 KB. So
// for gRPC's server all methods here are streams both ways, and the reactor reads the request. On
// the wire there is no difference. Constant after construction.
class EarlyService : public grpc::Service {
 protected:
  using Begin = std::function<CallReactor*(grpc::CallbackServerContext*)>;

  // `name`: the service's full name.
  explicit EarlyService(std::string name) : name_(std::move(name)) {}

  // Begins calls of `method`, such as "Pack", with `begin`, on a thread of gRPC, once their headers
  // have come. gRPC owns what `begin` returns.
  void Serve(absl::string_view method, Begin begin) {
    // gRPC keeps the pointer.
    const std::string& path = paths_.emplace_back(absl::StrCat("/", name_, "/", method));
    AddMethod(new grpc::internal::RpcServiceMethod(
        path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, /*handler=*/nullptr));
    MarkMethodRawCallback(
        static_cast<int>(paths_.size()) - 1,
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            [begin = std::move(begin)](grpc::CallbackServerContext* call) {
              // gRPC's threads are not made here.
              AskForShortSlices();
              return begin(call);
            }));
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

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_EARLY_SERVICE_H_
