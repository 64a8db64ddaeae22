// gRPC's status as Abseil's: the codes are the same numbers.
#ifndef PACKHOUSE_CLIENT_CPP_STATUS_H_
#define PACKHOUSE_CLIENT_CPP_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace packhouse::client {

// Same code, same message; behind gRPC's own words about the end of a call, what they mean
// (away.h). Each RPC documents what its codes mean for the caller.
absl::Status ToAbslStatus(const grpc::Status& status);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_STATUS_H_
