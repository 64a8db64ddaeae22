// One stream of grpc.reflection.v1.ServerReflection.ServerReflectionInfo.
//
// gRPC's own plugin is synchronous: it keeps a thread for each stream, even a silent one. This one
// holds no thread, and the gate counts it like any other stream.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_REFLECTION_HANDLER_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_REFLECTION_HANDLER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "service/server/calls/stream_handler.h"

namespace packhouse {

// Describes the messages and services that are linked into the program. v1alpha has the same bytes.
class ReflectionHandler final
    : public StreamHandler<grpc::reflection::v1::ServerReflectionRequest,
                           grpc::reflection::v1::ServerReflectionResponse> {
 public:
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  using Response = grpc::reflection::v1::ServerReflectionResponse;

  // The longest name that may be asked for, since the response repeats it.
  static constexpr size_t kMaxNameLength = 1024;

  // `services`, by their full names, are what is listed; they must outlive the handler.
  explicit ReflectionHandler(const std::vector<std::string>* services) : services_(services) {}

  // INVALID_ARGUMENT for a name that is too long, or a request for nothing. What is not there is
  // told in the response.
  absl::Status Accept(std::unique_ptr<Request> request) override;
  void HalfClose() override {}
  absl::StatusOr<std::optional<Response>> Next() override;

 private:
  const std::vector<std::string>* const services_;
  std::optional<Response> response_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_REFLECTION_HANDLER_H_
