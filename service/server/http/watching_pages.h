// The pages for monitoring a server: /metrics, /healthz, /readyz.
#ifndef PACKHOUSE_SERVICE_SERVER_HTTP_WATCHING_PAGES_H_
#define PACKHOUSE_SERVICE_SERVER_HTTP_WATCHING_PAGES_H_

#include <functional>
#include <string>
#include <vector>

#include "service/server/http/http_server.h"

namespace packhouse::http {

// The functions are called on the HTTP server's thread, and must not wait.
struct Watched {
  // Prometheus text format; and OpenMetrics 1.0.
  std::function<std::string()> exposition;
  std::function<std::string()> open_metrics;
  // Why the process should be started anew; empty if that would not help.
  std::function<std::string()> why_not_healthy;
  // Why no work should be sent here; empty if work is welcome.
  std::function<std::string()> why_not_ready;
};

// - GET /metrics: open_metrics() for those who accept it, exposition() for all others.
// - GET /healthz: 200 while the process can answer, or 503 and why.
// - GET /readyz: 200, or 503 and why.
std::vector<Route> WatchingPages(Watched watched);

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_SERVER_HTTP_WATCHING_PAGES_H_
