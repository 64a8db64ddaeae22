#include "service/server/services/wire_admin.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {
namespace {

// In the order of v1::LogLevel, from 1 on.
constexpr std::array<absl::string_view, 6> kLevels = {"trace",   "debug", "info",
                                                      "warning", "error", "off"};

}  // namespace

void TimeToWire(absl::Time time, google::protobuf::Timestamp& wire) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  wire.set_seconds(seconds);
  wire.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

absl::StatusOr<std::string> LogLevelFromWire(v1::LogLevel level) {
  const auto number = static_cast<size_t>(level);
  if (number == 0 || number > kLevels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("level: ", static_cast<int>(level),
                                                   " is none of LOG_LEVEL_TRACE to LOG_LEVEL_OFF"));
  }
  return std::string(kLevels[number - 1]);
}

v1::LogLevel LogLevelToWire(absl::string_view name) {
  const auto* const found = std::find(kLevels.begin(), kLevels.end(), name);
  if (found == kLevels.end()) return v1::LOG_LEVEL_UNSPECIFIED;
  return static_cast<v1::LogLevel>(found - kLevels.begin() + 1);
}

void FileToWire(const FileState& file, v1::ServerFile& wire) {
  wire.set_name(file.name);
  wire.set_failure(file.failure);
  wire.set_num_reloads(file.num_reloads);
  if (file.expires != absl::InfiniteFuture()) TimeToWire(file.expires, *wire.mutable_expires());
}

void QuotaToWire(const QuotaReading& reading, v1::QuotaUse& wire) {
  wire.set_namespace_(reading.where);
  wire.set_quota(reading.quota);
  wire.set_used(reading.used);
  wire.set_limit(reading.limit);
}

void ClientsToWire(absl::Span<const OpenCallInfo> calls, absl::Span<const SessionSummary> sessions,
                   v1::ListClientsResponse& wire) {
  std::map<std::string, v1::ConnectedClient> clients;
  std::map<std::string, std::set<std::string>> peers;
  for (const OpenCallInfo& call : calls) {
    v1::ConnectedClient& client = clients[call.client];
    client.set_is_principal(call.is_principal);
    peers[call.client].insert(call.peer);
    if (call.is_stream) {
      client.set_num_streams(client.num_streams() + 1);
    } else {
      client.set_num_calls(client.num_calls() + 1);
    }
    v1::OpenCall& open = *wire.add_calls();
    open.set_client(call.client);
    open.set_peer(call.peer);
    open.set_method(std::string(kMethodNames[static_cast<size_t>(call.method)]));
    open.set_is_stream(call.is_stream);
    open.set_resource(call.resource);
    open.set_request_id(call.request_id);
    open.set_trace(call.trace);
    const bool is_by_lane = call.uses_lane != nullptr && *call.uses_lane;
    open.set_transport(is_by_lane ? v1::TRANSPORT_LANE : v1::TRANSPORT_GRPC);
    if (is_by_lane) client.set_num_lane_streams(client.num_lane_streams() + 1);
    TimeToWire(call.started, *open.mutable_started());
  }
  for (const SessionSummary& session : sessions) {
    v1::ConnectedClient& client = clients[session.client];
    client.set_num_sessions(client.num_sessions() + 1);
    client.set_num_leases(client.num_leases() + session.num_leases);
    v1::LoadingWorker& worker = *wire.add_workers();
    worker.set_client(session.client);
    worker.set_job(session.key.job);
    worker.set_epoch(session.key.epoch);
    worker.set_queue(session.queue);
    worker.set_worker(session.worker);
    worker.set_session(session.id);
    worker.set_num_leases(session.num_leases);
  }
  for (auto& [name, client] : clients) {
    client.set_client(name);
    for (const std::string& peer : peers[name]) client.add_peers(peer);
    *wire.add_clients() = std::move(client);
  }
}

absl::Status CheckSnapshotName(absl::string_view name) {
  if (!name.empty() && name.front() != '.' && CheckNamespace(name).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("name: ", Quoted(name),
                   " is not 1 to 63 characters of [A-Za-z0-9_.-], without a dot at the beginning"));
}

}  // namespace packhouse
