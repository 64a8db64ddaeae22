// TLS for gRPC's connections.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_TLS_SERVER_CREDENTIALS_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_TLS_SERVER_CREDENTIALS_H_

#include <memory>
#include <string>

#include "grpcpp/security/server_credentials.h"

namespace packhouse::rpc {

enum class ClientCertificates {
  kNone,      // Are not asked for.
  kOptional,  // A connection may come without; one that is shown must be good.
  kRequired,
};

// TLS 1.2 or 1.3. `identity`: a PEM file with the server's key and its certificates; `roots`: of
// those who sign the clients' certificates, unless those are kNone. The files are looked at every
// second; new connections get what is in them then, and open ones go on. They must be good at all
// times: access/security/tls_files.h sees to it.
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const std::string& identity,
                                                              const std::string& roots,
                                                              ClientCertificates clients);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_TLS_SERVER_CREDENTIALS_H_
