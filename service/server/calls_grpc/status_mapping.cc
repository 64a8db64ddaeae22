#include "service/server/calls_grpc/status_mapping.h"

#include <string>

namespace packhouse::rpc {
namespace {

constexpr size_t kMaxMessageBytes = 4096;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  // The two sets of codes are the same by definition.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message().substr(0, kMaxMessageBytes)));
}

}  // namespace packhouse::rpc
