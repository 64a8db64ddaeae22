#include "service/program/page_routes.h"

#include <sys/statvfs.h>

#include <utility>

#include "absl/strings/string_view.h"
#include "service/base/digest.h"
#include "service/program/page_files.h"

namespace packhouse {
namespace {

// Scripts, styles and data come from this server alone, and no other page may show this one.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::vector<std::pair<std::string, std::string>> Headers() {
  return {{"Content-Security-Policy", kPolicy},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"}};
}

// Of all files, read once.
const std::string& PageDigest() {
  static const std::string& digest = *new std::string([] {
    Digest all;
    for (const PageFile& file : PageFiles()) {
      all.Add(absl::string_view(reinterpret_cast<const char*>(file.bytes), file.size));
    }
    return all.Hex(8);
  }());
  return digest;
}

}  // namespace

std::optional<uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs disk = {};
  if (folder.empty() || statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

std::vector<http::Route> PageRoutes(page::PageApi* api) {
  std::vector<http::Route> routes;
  for (const PageFile& file : PageFiles()) {
    http::Route& route = routes.emplace_back();
    route.path = file.path;
    route.render = [&file] {
      return http::Page{200, file.type,
                        std::string(reinterpret_cast<const char*>(file.bytes), file.size),
                        Headers()};
    };
    route.is_free = true;
  }
  for (const std::string& path : page::PageApi::Paths()) {
    http::Route& route = routes.emplace_back();
    route.path = path;
    route.is_for_own_page = true;
    route.answer = [api](const http::Request& request) {
      page::PageAnswer answer = api->Answer(request.path, request.query, {request.principal});
      return http::Page{answer.status, "application/json", std::move(answer.body), Headers()};
    };
  }
  return routes;
}

page::ServerState ReadState(const rpc::Server& server, const Readiness& readiness,
                            const std::string& version) {
  page::ServerState state;
  state.version = version;
  state.page_digest = PageDigest();
  state.grpc_address = server.address();
  state.is_draining = server.is_draining();
  for (Readiness::Reading& each : readiness.Read()) {
    if (!each.why_not.empty()) {
      state.not_ready.push_back({std::move(each.reason), std::move(each.why_not)});
    }
  }
  return state;
}

page::ServerReading ReadServer(rpc::Server& server, page::ServerState state,
                               const metrics::Metrics& metrics,
                               const FileSourceGraphStore* source_graphs,
                               std::optional<uint64_t> free_bytes) {
  const metrics::ServedReading served = metrics.Served();
  page::ServerReading now;
  now.state = std::move(state);
  now.served = {served.batches, served.graphs, served.batch_bytes, {}};
  for (const auto& rows : served.components) {
    now.served.components.push_back({rows.component, rows.real, rows.padding});
  }
  now.memory = {{"pending", server.pending_bytes(), server.max_pending_bytes()},
                {"unsent", server.unsent_bytes(), server.max_unsent_bytes()},
                {"working", server.working_bytes(), server.max_working_bytes()}};
  for (const auto& store : served.stores) {
    now.disks.push_back({store.name, store.num_bytes, store.max_bytes, free_bytes});
  }
  if (source_graphs != nullptr) {
    const SourceGraphStoreCounts counts = source_graphs->counts();
    now.disks.push_back({"source_graphs", counts.num_bytes, counts.max_bytes, free_bytes});
  }
  for (const auto& streams : served.streams) {
    now.streams.push_back({streams.method, streams.open, streams.unsent_responses});
  }
  now.pending_graphs = served.pending_graphs;
  now.num_connections = server.num_connections();
  now.max_connections = server.bounds().connections.most;
  now.delivery = server.recent_delivery();
  return now;
}

}  // namespace packhouse
