// A small HTTP server for monitoring: GET of a few pages. It does not trust its peers.
#ifndef PACKHOUSE_SERVICE_HTTP_HTTP_SERVER_H_
#define PACKHOUSE_SERVICE_HTTP_HTTP_SERVER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace packhouse::http {

struct Page {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct Route {
  std::string path;  // "/healthz"
  // Called on the server's thread; no other request is served meanwhile. Requests that have come
  // before the call share its result.
  std::function<Page()> render;
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
// route's (a query after the path is ignored), 405 for other methods.
class HttpServer {
 public:
  // `address` is "host:port": an IPv4 address, an IPv6 one in brackets ("[::]" takes IPv4 too), or
  // a name that the system resolves; port 0: any free one. INVALID_ARGUMENT for an address that is
  // malformed or unknown, UNAVAILABLE if it cannot be listened on; both say why.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           std::vector<Route> routes,
                                                           const HttpBounds& bounds = {});
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
  std::thread thread_;
};

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_HTTP_HTTP_SERVER_H_
