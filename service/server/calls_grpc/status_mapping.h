// The one place that turns absl::Status into gRPC's status.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STATUS_MAPPING_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STATUS_MAPPING_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace packhouse::rpc {

// Same code, same message (cut to 4 KiB: it travels in a header).
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STATUS_MAPPING_H_
