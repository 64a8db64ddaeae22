// Whether a browser asks for this server's own page, and not for a page of somebody else.
//
// Somebody else's page in the same browser can ask addresses that only the browser reaches:
// directly (a cross-site request), or under a name of its own that it points at this server's
// address (DNS rebinding), where the browser lets it read the answers. Browsers say where a request
// comes from, and which name it was sent to; programs such as curl say nothing of the kind, or an
// address.
#ifndef PACKHOUSE_SERVICE_SERVER_HTTP_OWN_PAGE_H_
#define PACKHOUSE_SERVICE_SERVER_HTTP_OWN_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace packhouse::http {

// The headers of a request; empty: not there.
struct CameFrom {
  std::string host;        // "Host"
  std::string origin;      // "Origin"
  std::string fetch_site;  // "Sec-Fetch-Site"
};

// Constant; thread-safe.
class OwnPage {
 public:
  // Names under which this server is known, without ports: besides numeric addresses, "localhost"
  // and what ends with ".localhost", which nobody else can point here. "*": every name.
  explicit OwnPage(std::vector<std::string> names);

  // Why a request is refused, for people; empty if it may come from the server's own page.
  // `is_proven`: the name needs no look, since the request is authenticated by what no other site
  // has (a token), or came by TLS for the name.
  std::string WhyNot(const CameFrom& request, bool is_proven) const;

 private:
  bool Knows(absl::string_view name) const;

  std::vector<std::string> names_;
};

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_SERVER_HTTP_OWN_PAGE_H_
