// The client that a call comes from, for shares and bounds.
#ifndef PACKHOUSE_SERVICE_ACCESS_CLIENT_IDENTITY_H_
#define PACKHOUSE_SERVICE_ACCESS_CLIENT_IDENTITY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace packhouse {

// The name of a client: calls with the same name share one client's turns and bounds.
using ClientId = std::string;

// Thread-safe.
class ClientIdentity {
 public:
  virtual ~ClientIdentity() = default;

  // The client of a call from `peer`, an address as gRPC gives it: "ipv4:10.0.0.1:4711",
  // "ipv6:%5B::1%5D:4711", "unix:/path", "inproc:...". Never empty.
  virtual ClientId Of(absl::string_view peer) const = 0;
};

// Each host is one client: its address without the port. All callers through a unix socket are
// "unix", all in this process are "in-process", and all behind one proxy have the proxy's address.
class PeerAddressIdentity final : public ClientIdentity {
 public:
  ClientId Of(absl::string_view peer) const override;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_CLIENT_IDENTITY_H_
