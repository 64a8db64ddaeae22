// The page on the HTTP port: its files, and what it asks.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/base/digest.h"
#include "service/program/version.h"
#include "service/program/wing.h"
#include "service/wings/page/page_api.h"
#include "service/wings/page/page_files.h"

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
    for (const StaticFile& file : PageFiles()) {
      all.Add(absl::string_view(reinterpret_cast<const char*>(file.bytes), file.size));
    }
    return all.Hex(8);
  }());
  return digest;
}

// The page loads nothing from elsewhere, and its own files tell nothing of the server, so that
// everybody may have them. `api` must outlive the routes.
std::vector<http::Route> PageRoutes(page::PageApi* api) {
  std::vector<http::Route> routes;
  for (const StaticFile& file : PageFiles()) {
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

// What the frame of the page shows. Does not wait.
page::ServerState ReadState(const HttpSources& sources) {
  page::ServerState state;
  state.version = kVersion;
  state.page_digest = PageDigest();
  state.grpc_address = sources.server->address();
  state.is_draining = sources.server->is_draining();
  for (Readiness::Reading& each : sources.readiness->Read()) {
    if (!each.why_not.empty()) {
      state.not_ready.push_back({std::move(each.reason), std::move(each.why_not)});
    }
  }
  return state;
}

// What the page shows of the whole server. May wait for a moment, not for the disk.
page::ServerReading ReadServer(const HttpSources& sources) {
  rpc::Server& server = *sources.server;
  const metrics::ServedReading served = sources.metrics->Served();
  const std::optional<uint64_t> free_bytes = sources.readings->recent_free_bytes();
  page::ServerReading now;
  now.state = ReadState(sources);
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
  if (const auto graphs = sources.readings->source_graphs()) {
    now.disks.push_back({"source_graphs", graphs->num_bytes, graphs->max_bytes, free_bytes});
  }
  for (const auto& streams : served.streams) {
    now.streams.push_back({streams.method, streams.open, streams.unsent_responses});
  }
  now.pending_graphs = served.pending_graphs;
  now.num_connections = server.num_connections();
  now.max_connections = server.bounds().connections.most;
  if (const LaneCounts* const lanes = server.lane_counts(); lanes != nullptr) {
    const uint64_t open = lanes->num_open;
    now.lanes = {.open = open,
                 .offered = std::max<uint64_t>(open, lanes->num_offered),
                 .num_batches = lanes->num_batches,
                 .num_slots = lanes->num_slots_sent};
  }
  now.delivery = server.recent_delivery();
  return now;
}

class PageOfServer final : public WingPages {
 public:
  explicit PageOfServer(const HttpSources& sources)
      : api_(page::PageSources{
            .clock = sources.clock,
            .calls = sources.server->MakePageCalls(),
            .memory = sources.server->working(),
            .authorizer = sources.files->authorizer(),
            .reading = [sources] { return ReadServer(sources); },
            .state = [sources] { return ReadState(sources); },
            .quotas = [server = sources.server] { return server->recent_quotas(); },
            .watch_job =
                [server = sources.server](const std::string& job) { return server->WatchJob(job); },
            .streams = &sources.server->live_streams()}) {}

  std::vector<http::Route> Routes() override { return PageRoutes(&api_); }

 private:
  page::PageApi api_;
};

class PageWing final : public Wing {
 public:
  std::unique_ptr<WingPages> OpenPages(const HttpSources& sources) override {
    return std::make_unique<PageOfServer>(sources);
  }
};

}  // namespace

BuiltWing PageInProgram() {
  return {.name = "page", .make = [] { return std::unique_ptr<Wing>(new PageWing); }};
}

}  // namespace packhouse
