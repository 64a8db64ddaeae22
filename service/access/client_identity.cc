#include "service/access/client_identity.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace packhouse {

ClientId PeerAddressIdentity::Of(absl::string_view peer) const {
  if (absl::StartsWith(peer, "unix")) return "unix";
  if (absl::ConsumePrefix(&peer, "ipv4:")) return ClientId(peer.substr(0, peer.rfind(':')));
  if (absl::ConsumePrefix(&peer, "ipv6:")) {
    // The address is in brackets; newer versions of gRPC escape them.
    std::string address = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
    const size_t end = address.rfind(']');
    if (address.empty() || address.front() != '[' || end == std::string::npos) return address;
    return address.substr(1, end - 1);
  }
  return "in-process";
}

}  // namespace packhouse
