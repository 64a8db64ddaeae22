// The HTTP port for those who watch: /metrics, /healthz, /readyz.
#ifndef PACKHOUSE_SERVICE_METRICS_HTTP_ENDPOINT_H_
#define PACKHOUSE_SERVICE_METRICS_HTTP_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_context;
struct mg_connection;

namespace packhouse::metrics {

// Serves until destroyed, on threads of its own.
// - GET /metrics: exposition(), Prometheus text format.
// - GET /healthz: 200 while the process can answer.
// - GET /readyz: 200 if is_ready(), otherwise 503.
class HttpEndpoint {
 public:
  struct Pages {
    std::function<std::string()> exposition;
    std::function<bool()> is_ready;
  };

  // `address` is "host:port" (an IPv6 host in brackets); port 0: any free one. INVALID_ARGUMENT for
  // a malformed address, UNAVAILABLE if it cannot be listened on. The functions must be
  // thread-safe.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const std::string& address,
                                                             Pages pages);
  ~HttpEndpoint();

  // "host:port" with the port resolved.
  const std::string& address() const { return address_; }

 private:
  explicit HttpEndpoint(Pages pages) : pages_(std::move(pages)) {}

  static int ServeMetrics(mg_connection* connection, void* self);
  static int ServeHealth(mg_connection* connection, void* self);
  static int ServeReadiness(mg_connection* connection, void* self);

  const Pages pages_;
  std::string address_;
  mg_context* context_ = nullptr;
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_METRICS_HTTP_ENDPOINT_H_
