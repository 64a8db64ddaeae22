// The HTTP port: monitoring, and the page.
#ifndef PACKHOUSE_SERVICE_HTTP_PORT_H_
#define PACKHOUSE_SERVICE_HTTP_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/admission/readiness.h"
#include "service/base/clock.h"
#include "service/folder_stores.h"
#include "service/http/http_server.h"
#include "service/metrics/metrics.h"
#include "service/options.h"
#include "service/page/page_api.h"
#include "service/rpc/server.h"
#include "service/security/security_files.h"
#include "service/server_readings.h"

namespace packhouse {

struct HttpPort {
  std::unique_ptr<page::PageApi> page;
  std::unique_ptr<http::HttpServer> server;

  // "-" if there is none.
  std::string address() const { return server == nullptr ? "-" : server->address(); }

  // Empty without an address in the options. The references must be valid as long as the result.
  // Errors of HttpServer::Start().
  static absl::StatusOr<HttpPort> Open(const Options& options, rpc::Server& server,
                                       const FolderStores& folder,
                                       const security::SecurityFiles& files,
                                       const Readiness& readiness, ServerReadings& readings,
                                       metrics::Metrics& metrics, Clock& clock);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_HTTP_PORT_H_
