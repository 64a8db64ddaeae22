// Routes log lines of gRPC and protobuf through the service's log.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_LIBRARY_LOGS_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_LIBRARY_LOGS_H_

#include "service/base/event_log.h"
#include "service/base/limited_log.h"

namespace packhouse::rpc {

// From now on the lines of gRPC and protobuf are events "grpc" and "protobuf", at their own level
// but at most `most`. Lines from the same line of code count as alike. For the whole process; may
// be called again. `log` must outlive their use; null drops the lines.
void RouteLibraryLogs(LimitedLog* log, LogLevel most = LogLevel::kError);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_LIBRARY_LOGS_H_
