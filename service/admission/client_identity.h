// Who a call comes from, as far as shares and bounds are concerned.
#ifndef PACKHOUSE_SERVICE_ADMISSION_CLIENT_IDENTITY_H_
#define PACKHOUSE_SERVICE_ADMISSION_CLIENT_IDENTITY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace packhouse {

// The name of a client: calls with the same name share one client's turns and bounds.
using ClientId = std::string;

// Thread-safe.
class ClientIdentity {
 public:
  virtual ~ClientIdentity() = default;

  // Of a call from `peer`, an address as gRPC gives it: "ipv4:10.0.0.1:4711",
  // "ipv6:%5B::1%5D:4711", "unix:/path", "inproc:...". Never empty.
  virtual ClientId Of(absl::string_view peer) const = 0;
};

// One client for each host: its address without the port. All that come through a unix socket are
// "unix", all in this process "in-process", and all behind one proxy are its address.
class PeerAddressIdentity final : public ClientIdentity {
 public:
  ClientId Of(absl::string_view peer) const override;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_CLIENT_IDENTITY_H_
