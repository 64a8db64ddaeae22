// The HTTP port: monitoring, and the pages of wings.
#ifndef PACKHOUSE_SERVICE_PROGRAM_HTTP_PORT_H_
#define PACKHOUSE_SERVICE_PROGRAM_HTTP_PORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/access/security/security_files.h"
#include "service/base/clock.h"
#include "service/program/folder_stores.h"
#include "service/program/options.h"
#include "service/program/server_readings.h"
#include "service/program/wing.h"
#include "service/server/calls/readiness.h"
#include "service/server/http/http_server.h"
#include "service/server/listen/server.h"
#include "service/server/metrics/metrics.h"

namespace packhouse {

struct HttpPort {
  std::vector<std::unique_ptr<WingPages>> pages;
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

#endif  // PACKHOUSE_SERVICE_PROGRAM_HTTP_PORT_H_
