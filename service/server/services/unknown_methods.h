// Calls of methods that no service has, and of services of wings that the server was built without.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_UNKNOWN_METHODS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_UNKNOWN_METHODS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/generic/async_generic_service.h"
#include "service/base/quoted.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/status_mapping.h"
#include "service/server/services/server_wing.h"

namespace packhouse::rpc {

// Ends them with UNIMPLEMENTED naming the method, and the wing if it is of one. They are calls like
// others: gRPC's own answer would not be counted (server/calls/connection_calls.h). Constant after
// construction.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  UnknownMethods(const CallContext& context, std::vector<AbsentServices> absent)
      : context_(context), absent_(std::move(absent)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return new Refusal(context_, *call, WhyNot(call->method()));
  }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    Refusal(const CallContext& context, const grpc::GenericCallbackServerContext& call,
            std::string why_not)
        : context_(context.From(call.peer())) {
      Finish(ToGrpc(absl::UnimplementedError(std::move(why_not))));
    }
    void OnDone() override { delete this; }

   private:
    const CallContext context_;
  };

  // `method`: "/SERVICE/METHOD".
  std::string WhyNot(absl::string_view method) const {
    for (const AbsentServices& wing : absent_) {
      for (const std::string& service : wing.names) {
        if (absl::StartsWith(method, absl::StrCat("/", service, "/"))) {
          return absl::StrCat(method.substr(1), ": ", wing.why_not);
        }
      }
    }
    return absl::StrCat("there is no method ", Quoted(method));
  }

  const CallContext context_;
  const std::vector<AbsentServices> absent_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_UNKNOWN_METHODS_H_
