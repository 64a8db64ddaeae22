// Calls of methods that no service has.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_UNKNOWN_METHODS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_UNKNOWN_METHODS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/generic/async_generic_service.h"
#include "service/base/quoted.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/status_mapping.h"

namespace packhouse::rpc {

// Ends them with UNIMPLEMENTED naming the method. They are calls like others: gRPC's own answer
// would not be counted (server/calls/connection_calls.h). Constant after construction.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  explicit UnknownMethods(const CallContext& context) : context_(context) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return new Refusal(context_, *call);
  }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    Refusal(const CallContext& context, const grpc::GenericCallbackServerContext& call)
        : context_(context.From(call.peer())) {
      Finish(ToGrpc(
          absl::UnimplementedError(absl::StrCat("there is no method ", Quoted(call.method())))));
    }
    void OnDone() override { delete this; }

   private:
    const CallContext context_;
  };

  const CallContext context_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_UNKNOWN_METHODS_H_
