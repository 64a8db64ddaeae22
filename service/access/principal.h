// Who a call comes from.
#ifndef PACKHOUSE_SERVICE_ACCESS_PRINCIPAL_H_
#define PACKHOUSE_SERVICE_ACCESS_PRINCIPAL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace packhouse {

// The name that a certificate or a token gives its holder. Empty: the call has shown neither, and
// need not.
using Principal = std::string;

// What a call has brought with it. Only the certificate is verified so far.
struct CallCredentials {
  // The peer's address as gRPC gives it (client_identity.h).
  std::string peer;
  // Whether the connection has a client certificate that the server's CA has signed, and its
  // subject alternative names: URIs first, then DNS names, then e-mail addresses.
  bool has_certificate = false;
  std::vector<std::string> certificate_names;
  // The value of `authorization`; empty if there is none.
  std::string authorization;
  // The values of `x-request-id` and `traceparent`; empty if there are none.
  std::string request_id;
  std::string trace;
};

class Authenticator {
 public:
  virtual ~Authenticator() = default;

  // UNAUTHENTICATED if the credentials are not good, or if there are none and there must be some;
  // says what the server wanted. Thread-safe; takes microseconds, or a millisecond for a token that
  // is new.
  virtual absl::StatusOr<Principal> Authenticate(const CallCredentials& credentials) const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_PRINCIPAL_H_
