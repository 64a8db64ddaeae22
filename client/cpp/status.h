// gRPC's status as Abseil's: the codes are the same numbers.
#ifndef PACKHOUSE_CLIENT_CPP_STATUS_H_
#define PACKHOUSE_CLIENT_CPP_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace packhouse::client {

// Same code, same message. What each code asks of the caller is documented on each RPC.
absl::Status ToAbslStatus(const grpc::Status& status);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_STATUS_H_
