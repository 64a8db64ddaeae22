// Server reflection: tools such as grpcurl learn the services from the server.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_REFLECTION_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_REFLECTION_SERVICE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/support/server_callback.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/services/reflection_handler.h"

namespace packhouse::rpc {

// The same protocol has two names; this is the service for one of them. The context's pointees must
// outlive the service. Thread-safe.
template <typename ServerReflection>
class ReflectionServiceOf final : public EarlyService {
 public:
  // `services` by their full names.
  ReflectionServiceOf(const CallContext& context, std::vector<std::string> services)
      : EarlyService(ServerReflection::service_full_name(), context),
        services_(std::move(services)) {
    Serve({StreamRow<ReflectionHandler::Request, ReflectionHandler::Response>(
        Method::kServerReflectionInfo, Waits::kTurns, absl::OkStatus(),
        [this](const StreamOpening& /*stream*/) {
          return std::make_unique<ReflectionHandler>(&services_);
        })});
  }

 private:
  const std::vector<std::string> services_;
};

using ReflectionService = ReflectionServiceOf<grpc::reflection::v1::ServerReflection>;
using ReflectionServiceV1Alpha = ReflectionServiceOf<grpc::reflection::v1alpha::ServerReflection>;

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_REFLECTION_SERVICE_H_
