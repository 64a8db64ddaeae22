// How a client knows its server, and shows who it is: certificates and tokens.
#ifndef PACKHOUSE_CLIENT_CPP_CREDENTIALS_H_
#define PACKHOUSE_CLIENT_CPP_CREDENTIALS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/credentials.h"

namespace packhouse::client {

// Empty fields: none. All empty: plain text.
struct Credentials {
  bool tls = false;    // Encrypts, and trusts the CAs of the system. Any other field means TLS too.
  std::string tls_ca;  // PEM file of the CAs of the server's certificate, instead of the system's.
  std::string tls_cert;  // PEM files of the client's certificate and its key.
  std::string tls_key;
  std::string tls_server_name;  // The name in the server's certificate, if not the address's.
  // A bearer token that each call shows: printable ASCII without blanks, but for those around it.
  std::string token;
  // A file that has it, read again for each call: tokens of Kubernetes are renewed there.
  std::string token_file;

  bool is_plain() const {
    return !tls && tls_ca.empty() && tls_cert.empty() && tls_key.empty() &&
           tls_server_name.empty() && token.empty() && token_file.empty();
  }
};

// A variable of the environment; nullopt if it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> VariableOfProcess(const char* name);

// The credentials of PACKHOUSE_TLS, PACKHOUSE_TLS_CA, PACKHOUSE_TLS_CERT, PACKHOUSE_TLS_KEY,
// PACKHOUSE_TLS_SERVER_NAME, PACKHOUSE_TOKEN and PACKHOUSE_TOKEN_FILE. What they do not say, the
// file says that PACKHOUSE_CONFIG names, or else ~/.config/packhouse/client.conf if there is one:
// lines such as `tls_ca = /etc/ca.crt`. INVALID_ARGUMENT naming the variable, or the line of the
// file, that makes no sense; as ToGrpc() for a file that cannot be read. No message shows a token.
absl::StatusOr<Credentials> CredentialsFromEnvironment(
    const Variables& variables = &VariableOfProcess);

// gRPC's own; the server's name is not among them (channel.h sets it). INVALID_ARGUMENT if fields
// do not fit together, or naming the line of a token that no header can carry; NOT_FOUND,
// PERMISSION_DENIED, FAILED_PRECONDITION (a folder) or UNKNOWN naming a file that cannot be read.
// Certificates are read now.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ToGrpc(const Credentials& credentials);

// What gRPC's words about a failed connection mean, to be put behind them: which side refused whom,
// and why. Empty if they say nothing about that.
absl::string_view MeaningOf(absl::string_view details);
// Whether they mean that one side refuses the other until something is changed. A connection that
// was only closed may come about later.
bool MeansRefusal(absl::string_view details);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_CREDENTIALS_H_
