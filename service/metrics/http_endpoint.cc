#include "service/metrics/http_endpoint.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "civetweb.h"

namespace packhouse::metrics {
namespace {

// Answers and tells civetweb the status.
int Answer(mg_connection* connection, int status, const char* type, const std::string& body) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\n\r\n",
            status, mg_get_response_code_text(connection, status), type, body.size());
  mg_write(connection, body.data(), body.size());
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& address,
                                                                  Pages pages) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("HTTP address '", address, "' is not host:port"));
  }
  auto endpoint = std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(pages)));
  const char* const options[] = {"listening_ports",
                                 address.c_str(),
                                 "num_threads",
                                 "4",
                                 "request_timeout_ms",
                                 "10000",
                                 "enable_directory_listing",
                                 "no",
                                 nullptr};
  const mg_callbacks callbacks = {};
  endpoint->context_ = mg_start(&callbacks, nullptr, const_cast<const char**>(options));
  if (endpoint->context_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on '", address, "' for HTTP"));
  }
  mg_server_port ports[1] = {};
  if (mg_get_server_ports(endpoint->context_, 1, ports) != 1) {
    return absl::InternalError(absl::StrCat("no port is known for '", address, "'"));
  }
  endpoint->address_ = absl::StrCat(address.substr(0, colon), ":", ports[0].port);
  mg_set_request_handler(endpoint->context_, "/metrics$", &ServeMetrics, endpoint.get());
  mg_set_request_handler(endpoint->context_, "/healthz$", &ServeHealth, endpoint.get());
  mg_set_request_handler(endpoint->context_, "/readyz$", &ServeReadiness, endpoint.get());
  return endpoint;
}

HttpEndpoint::~HttpEndpoint() {
  if (context_ != nullptr) mg_stop(context_);
}

int HttpEndpoint::ServeMetrics(mg_connection* connection, void* self) {
  return Answer(connection, 200, "text/plain; version=0.0.4; charset=utf-8",
                static_cast<HttpEndpoint*>(self)->pages_.exposition());
}

int HttpEndpoint::ServeHealth(mg_connection* connection, void* /*self*/) {
  return Answer(connection, 200, "text/plain", "ok\n");
}

int HttpEndpoint::ServeReadiness(mg_connection* connection, void* self) {
  const bool ready = static_cast<HttpEndpoint*>(self)->pages_.is_ready();
  return Answer(connection, ready ? 200 : 503, "text/plain", ready ? "ready\n" : "draining\n");
}

}  // namespace packhouse::metrics
