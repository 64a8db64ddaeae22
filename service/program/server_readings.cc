#include "service/program/server_readings.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/base/out_of_memory.h"
#include "service/program/wing.h"

namespace packhouse {
namespace {

// A page of metrics does not wait for the disk for longer than this.
constexpr absl::Duration kLongestReading = absl::Milliseconds(100);

// The data sets of a store, and the disk that it, or its cache, lies on. O(data sets).
metrics::StoreReading ReadStore(const DatasetStore& store, const std::string& folder) {
  metrics::StoreReading reading;
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) == 0) {
    reading.disk = {.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize,
                    .all_bytes = uint64_t{disk.f_blocks} * disk.f_frsize};
  }
  std::string page;
  do {
    const auto list = store.List(/*page_size=*/1000, page);
    if (!list.ok()) break;
    for (const DatasetInfo& info : list->datasets) {
      reading.datasets.push_back(
          {info.name, info.state == DatasetState::kSealed, info.num_graphs, info.num_bytes});
    }
    page = list->next_page_token;
  } while (!page.empty());
  return reading;
}

std::optional<metrics::SharedDatasetsReading> ReadSharedDatasets(const SharedStores* shared) {
  if (shared == nullptr) return std::nullopt;
  return shared->Read();
}

std::optional<metrics::ClusterReading> ReadCluster(const rpc::Server& server,
                                                   const Membership* membership) {
  const auto jobs = server.shared_jobs();
  if (membership == nullptr || !jobs) return std::nullopt;
  metrics::ClusterReading read = membership->Read();
  read.num_jobs = jobs->num_owned;
  read.num_opened = jobs->counts.num_opened;
  read.num_taken_over = jobs->counts.num_taken_over;
  return read;
}

std::vector<metrics::FileReading> ReadFiles(const security::SecurityFiles& files) {
  std::vector<metrics::FileReading> read;
  for (const security::Reloader::Reading& each : files.readings()) {
    read.push_back({each.name, each.is_broken, each.num_reloads, each.num_failures, each.begins,
                    each.expires});
  }
  return read;
}

std::vector<metrics::ReadyReading> ReadReadiness(const Readiness& readiness) {
  std::vector<metrics::ReadyReading> read;
  for (Readiness::Reading& each : readiness.Read()) {
    read.push_back({std::move(each.reason), each.why_not.empty()});
  }
  return read;
}

std::vector<metrics::QuotaUseReading> ReadQuotas(rpc::Server& server) {
  std::vector<metrics::QuotaUseReading> read;
  for (QuotaReading& each : server.recent_quotas()) {
    read.push_back({std::move(each.where), std::move(each.quota), each.used, each.limit});
  }
  return read;
}

std::optional<metrics::LaneReading> ReadLanes(const LaneCounts* counts) {
  if (counts == nullptr) return std::nullopt;
  metrics::LaneReading read;
  const uint64_t num_offered = counts->num_offered;
  read.num_open = counts->num_open;
  read.num_not_open = std::max(num_offered, read.num_open) - read.num_open;
  read.num_slots = counts->num_slots_sent;
  read.num_batches = counts->num_batches;
  read.num_refused = counts->num_refused;
  read.num_too_large = counts->num_too_large;
  read.num_without_slot = counts->num_without_slot;
  read.num_chunks = counts->num_chunks;
  return read;
}

std::function<void(std::function<void()>)> On(WorkerPool& pool) {
  return [&pool](std::function<void()> read) { pool.Submit(/*client=*/"", std::move(read)); };
}

// Waits for the disk.
std::optional<uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs disk = {};
  if (folder.empty() || statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

}  // namespace

ServerReadings::ServerReadings(const Sources& sources, Clock* clock)
    : sources_(sources),
      reader_(clock, 1),
      recent_store_(
          [stores = sources.stores] {
            return ReadStore(*stores->stored_datasets(), stores->disk());
          },
          On(reader_), kLongestReading),
      recent_free_bytes_([stores = sources.stores] { return FreeBytes(stores->disk()); },
                         On(reader_), kLongestReading) {}

void ServerReadings::ShowIn(metrics::Metrics& metrics) {
  metrics.SetDelivery([server = sources_.server] { return server->recent_delivery(); });
  metrics.SetServer([this] { return ReadServer(); });
  if (sources_.stores->stored_datasets() != nullptr) {
    metrics.SetStores([this] { return recent_store_.Get(); });
  }
}

metrics::ServerReading ServerReadings::ReadServer() const {
  rpc::Server& server = *sources_.server;
  const ServedStores& stores = *sources_.stores;
  metrics::ServerReading reading = {
      .pending = {server.pending_bytes(), server.max_pending_bytes()},
      .unsent = {server.unsent_bytes(), server.max_unsent_bytes()},
      .working = {server.working_bytes(), server.max_working_bytes()},
      .ready = ReadReadiness(*sources_.readiness),
      .is_draining = server.is_draining(),
      .num_connections = server.num_connections(),
      .max_connections = server.bounds().connections.most,
      .num_out_of_memory = NumOutOfMemory(),
      .num_expired_datasets =
          stores.retained_datasets() == nullptr ? 0 : stores.retained_datasets()->num_expired(),
      .num_expired_histograms =
          server.num_expired_histograms() +
          (sources_.membership == nullptr ? 0 : sources_.membership->num_expired_histograms()),
      .num_expired_models = server.num_expired_models(),
      .files = ReadFiles(*sources_.files),
      .cluster = ReadCluster(server, sources_.membership),
      .shared_datasets = ReadSharedDatasets(stores.shared()),
      .lanes = ReadLanes(server.lane_counts()),
      .quotas = ReadQuotas(server),
      .feedback = server.feedback(),
  };
  for (const auto& wing : *sources_.wings) wing->Show(reading);
  return reading;
}

std::optional<metrics::SourceGraphReading> ServerReadings::source_graphs() const {
  metrics::ServerReading reading;
  for (const auto& wing : *sources_.wings) wing->Show(reading);
  return reading.source_graphs;
}

}  // namespace packhouse
