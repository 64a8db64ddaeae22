// The page on the HTTP port: its files, and what it asks.
#ifndef PACKHOUSE_SERVICE_PROGRAM_PAGE_ROUTES_H_
#define PACKHOUSE_SERVICE_PROGRAM_PAGE_ROUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/server/calls/readiness.h"
#include "service/server/http/http_server.h"
#include "service/server/listen/server.h"
#include "service/server/metrics/metrics.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "service/wings/page/page_api.h"

namespace packhouse {

// The page loads nothing from elsewhere, and its own files tell nothing of the server, so that
// everybody may have them. `api` must outlive the routes.
std::vector<http::Route> PageRoutes(page::PageApi* api);

// Of the disk that the folder lies on; nullopt if it cannot be read, or if there is no folder.
// Waits for the disk.
std::optional<uint64_t> FreeBytes(const std::string& folder);

// What the frame of the page shows. Does not wait.
page::ServerState ReadState(const rpc::Server& server, const Readiness& readiness,
                            const std::string& version);

// What the page shows of the whole server. May wait for a moment, not for the disk.
page::ServerReading ReadServer(rpc::Server& server, page::ServerState state,
                               const metrics::Metrics& metrics,
                               const FileSourceGraphStore* source_graphs,
                               std::optional<uint64_t> free_bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_PAGE_ROUTES_H_
