// Why an address cannot be listened on: gRPC tells only its own log.
#ifndef PACKHOUSE_SERVICE_RPC_LISTEN_FAILURE_H_
#define PACKHOUSE_SERVICE_RPC_LISTEN_FAILURE_H_

#include <string>

namespace packhouse::rpc {

// What the system says to "host:port" or "unix:/path", by trying again; for an error's message.
std::string WhyNotListen(const std::string& address);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_LISTEN_FAILURE_H_
