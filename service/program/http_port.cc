#include "service/program/http_port.h"

#include <utility>
#include <vector>

#include "service/base/status_macros.h"
#include "service/program/page_routes.h"
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
  port.page = std::make_unique<page::PageApi>(page::PageSources{
      .clock = &clock,
      .calls = server.MakePageCalls(),
      .memory = server.working(),
      .authorizer = files.authorizer(),
      .reading = [&readings, &metrics] { return readings.ReadForPage(metrics); },
      .state = [&readings] { return readings.ReadForFrame(); },
      .histogram_names = [&server] { return server.histogram_names(); },
      .quotas = [&server] { return server.recent_quotas(); },
      .watch_job = [&server](const std::string& job) { return server.WatchJob(job); },
      .streams = &server.live_streams()});
  http::Watched watched;
  watched.exposition = [&metrics] { return metrics.Exposition(); };
  watched.open_metrics = [&metrics] { return metrics.OpenMetrics(); };
  watched.why_not_healthy = [&folder] { return folder.why_not_healthy(); };
  watched.why_not_ready = [&readiness] { return readiness.why_not(); };
  std::vector<http::Route> routes = http::WatchingPages(std::move(watched));
  for (http::Route& route : PageRoutes(port.page.get())) routes.push_back(std::move(route));
  PH_ASSIGN_OR_RETURN(port.server,
                      http::HttpServer::Start(options.http_address, std::move(routes),
                                              http::HttpBounds(), HttpSecurityOf(files, options)));
  return port;
}

}  // namespace packhouse
