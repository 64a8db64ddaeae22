#include "service/server/listen/tls_server_credentials.h"

#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace packhouse::rpc {
namespace {

constexpr unsigned kLookEverySeconds = 1;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const std::string& identity,
                                                              const std::string& roots,
                                                              ClientCertificates clients) {
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      identity, identity, roots, kLookEverySeconds));
  options.watch_identity_key_cert_pairs();
  if (clients == ClientCertificates::kNone) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(clients == ClientCertificates::kRequired
                                      ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace packhouse::rpc
