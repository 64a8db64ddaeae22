#include "service/program/http_port.h"

#include <utility>
#include <vector>

#include "service/base/status_macros.h"
#include "service/program/server_security.h"
#include "service/server/http/watching_pages.h"

namespace packhouse {

absl::StatusOr<HttpPort> HttpPort::Open(const Options& options, rpc::Server& server,
                                        const FolderStores& folder,
                                        const security::SecurityFiles& files,
                                        const Readiness& readiness, ServerReadings& readings,
                                        metrics::Metrics& metrics, Clock& clock) {
  HttpPort port;
  if (options.http_address.empty()) return port;
  http::Watched watched;
  watched.exposition = [&metrics] { return metrics.Exposition(); };
  watched.open_metrics = [&metrics] { return metrics.OpenMetrics(); };
  watched.why_not_healthy = [&folder] { return folder.why_not_healthy(); };
  watched.why_not_ready = [&readiness] { return readiness.why_not(); };
  std::vector<http::Route> routes = http::WatchingPages(std::move(watched));
  const auto add = [&routes](std::vector<http::Route> more) {
    for (http::Route& route : more) routes.push_back(std::move(route));
  };
  const HttpSources sources = {.server = &server,
                               .files = &files,
                               .readiness = &readiness,
                               .readings = &readings,
                               .metrics = &metrics,
                               .clock = &clock};
  for (const auto& wing : options.wings) {
    auto pages = wing->OpenPages(sources);
    if (pages == nullptr) continue;
    add(pages->Routes());
    port.pages.push_back(std::move(pages));
  }
  add(RoutesOfAbsentWings());
  PH_ASSIGN_OR_RETURN(port.server,
                      http::HttpServer::Start(options.http_address, std::move(routes),
                                              http::HttpBounds(), HttpSecurityOf(files, options)));
  return port;
}

}  // namespace packhouse
