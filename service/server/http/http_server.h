// A small HTTP server for monitoring: GET of a few pages. It does not trust its peers.
//
// Who a request comes from is decided in one place, before any page is made: HttpSecurity::admit.
#ifndef PACKHOUSE_SERVICE_SERVER_HTTP_HTTP_SERVER_H_
#define PACKHOUSE_SERVICE_SERVER_HTTP_HTTP_SERVER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/base/execution.h"

namespace packhouse::http {

struct Page {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  // Further headers. Without a Cache-Control among them, the page is not to be kept.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// A request, for pages that depend on it.
struct Request {
  std::string path;
  std::string query;          // What follows the '?', as it came; empty if there is none.
  std::string principal;      // Who asks, as `admit` has decided; empty: nobody in particular.
  std::string authorization;  // The header's value; empty: none.
};

struct Route {
  std::string path;  // "/healthz"
  // Both are called on the server's thread; no other request is served meanwhile. Exactly one is
  // set. Requests that have come before the call share the result of render(). answer() is called
  // for each request.
  std::function<Page()> render = nullptr;
  std::function<Page(const Request&)> answer = nullptr;
  // Nobody is asked who he is: for what tells nothing, such as whether the server lives.
  bool is_free = false;
  // For the script of the server's own page: other sites are refused with 403 (own_page.h).
  bool is_for_own_page = false;
  // Only for requests whose Accept names this type: "application/openmetrics-text". Empty: for all.
  // The first route that fits is taken.
  std::string accepts = {};
};

// What a request has brought with it.
struct Caller {
  std::string address;  // Of the host, without a port: "10.0.0.1", "::1".
  // Whether a certificate was shown that the CA has signed, and its alternative names: URIs first,
  // then hosts, then e-mail addresses.
  bool has_certificate = false;
  std::vector<std::string> certificate_names;
};

// 200: the page is made for the principal. Another status, such as 401 and 403, is the answer, with
// the reason as its text.
struct Admission {
  int status = 200;
  std::string principal;
  std::string why_not;
};

// In PEM.
struct TlsIdentity {
  std::string certificate;
  std::string key;
  std::string client_ca;  // Empty: no certificate is asked for. One that is shown must be good.
};

struct HttpSecurity {
  // TLS 1.2 or 1.3. Asked for at the start and for each connection; it must be good at all times.
  // Whether there is a CA of clients must not change. Null: plain text.
  std::function<TlsIdentity()> tls = nullptr;
  // Called on the server's thread for each request of a route that is not free, and for paths of no
  // route, and must not wait. Null: everybody is let in, as nobody in particular.
  std::function<Admission(const Caller&, const Request&)> admit = nullptr;
  // Names under which browsers know the server (OwnPage).
  std::vector<std::string> names = {};
};

struct HttpBounds {
  // One connection more closes another. If its own address has too many, it is one of these; else
  // it is one of the address with the most. Of these, the connection that has waited longest since
  // its last answer is closed. So a connection that asks at once is answered even if many others
  // are silent, and a client that opens many closes its own.
  size_t max_connections = 256;
  size_t max_connections_per_address = 64;
  // From being accepted to the first answer, even if bytes come slowly.
  absl::Duration first_answer = absl::Seconds(10);
  // From one answer to the next.
  absl::Duration keep_alive = absl::Minutes(2);
  // A connection's memory; the head of a request may take about half of it.
  size_t connection_bytes = 16384;
};

// Serves until destroyed, on one thread of its own, by events: a connection costs memory and a file
// descriptor, not a thread. HTTP/1.0 and 1.1, keep-alive, GET and HEAD; 404 for paths that are no
// route's, 405 for other methods, 414 for a query of more than 64 arguments.
class HttpServer {
 public:
  // `address` is "host:port": an IPv4 address, an IPv6 one in brackets ("[::]" takes IPv4 too), or
  // a name that the system resolves; port 0: any free one. INVALID_ARGUMENT for an address that is
  // malformed or unknown, or for a certificate and a key that GnuTLS does not take; UNAVAILABLE if
  // the address cannot be listened on; all say why.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           std::vector<Route> routes,
                                                           const HttpBounds& bounds = {},
                                                           HttpSecurity security = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "host:port" with the port resolved.
  const std::string& address() const { return address_; }

 private:
  class Loop;

  HttpServer(std::string address, std::unique_ptr<Loop> loop);

  const std::string address_;
  const std::unique_ptr<Loop> loop_;
  Thread thread_;  // Ends before the others do.
};

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_SERVER_HTTP_HTTP_SERVER_H_
