// What the libraries of the wire write to stderr goes through the service's log.
#ifndef PACKHOUSE_SERVICE_RPC_LIBRARY_LOGS_H_
#define PACKHOUSE_SERVICE_RPC_LIBRARY_LOGS_H_

#include "service/admission/event_log.h"
#include "service/admission/limited_log.h"

namespace packhouse::rpc {

// From now on the lines of gRPC and protobuf are events "grpc" and "protobuf", at their own level
// but `most` at most; those from one line of code are alike. For the whole process; may be called
// again. `log` must outlive their use; null drops the lines.
void RouteLibraryLogs(LimitedLog* log, LogLevel most = LogLevel::kError);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_LIBRARY_LOGS_H_
