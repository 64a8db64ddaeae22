#include "service/wings/page/server_reading.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace packhouse::page {
namespace {

// Of each stream: server/calls/outbox.h.
constexpr uint64_t kBuiltAhead = 2;

Json WaitingJson(const std::string& what, const Waiting& waiting) {
  return {{"what", what},
          {"open", waiting.open},
          {"awaited", waiting.awaited},
          {"starved", waiting.starved}};
}

Json LanesJson(const std::optional<ServerReading::Lanes>& lanes) {
  if (!lanes) return nullptr;
  return {{"open", lanes->open},
          {"offered", lanes->offered},
          {"batches", lanes->num_batches},
          {"slots", lanes->num_slots}};
}

}  // namespace

Waiting WaitingOf(const ServerReading::Streams& streams) {
  return {streams.open, std::min(streams.open, streams.unsent_responses / kBuiltAhead), 0};
}

Waiting WaitingOf(const DeliverySnapshot& delivery) {
  const SessionCounts all = delivery.sessions();
  return {all.num_sessions, all.num_awaited, all.num_starved};
}

Json StateJson(const ServerState& state) {
  Json not_ready = Json::array();
  for (const ServerState::NotReady& each : state.not_ready) {
    not_ready.push_back({{"reason", each.reason}, {"why", each.why}});
  }
  return {{"version", state.version},
          {"page", state.page_digest},
          {"grpc", state.grpc_address},
          {"draining", state.is_draining},
          {"not_ready", std::move(not_ready)}};
}

Json OverviewJson(const ServerReading& now, Json history, absl::Time time) {
  Json memory = Json::array();
  for (const ServerReading::Share& share : now.memory) {
    memory.push_back(
        {{"name", share.name}, {"held", share.held_bytes}, {"most", share.most_bytes}});
  }
  Json disks = Json::array();
  for (const ServerReading::Disk& disk : now.disks) {
    disks.push_back({{"name", disk.name},
                     {"bytes", disk.num_bytes},
                     {"most", disk.max_bytes},
                     {"free", disk.free_bytes ? Json(*disk.free_bytes) : Json()}});
  }
  Json waiting = Json::array();
  for (const ServerReading::Streams& streams : now.streams) {
    // How far a stream of epochs is ahead, its workers' batches in flight tell better.
    if (streams.open == 0 || streams.method == "Load") continue;
    waiting.push_back(WaitingJson(streams.method, WaitingOf(streams)));
  }
  if (now.delivery.sessions().num_sessions != 0)
    waiting.push_back(WaitingJson("Load", WaitingOf(now.delivery)));
  const LeaseCounters& totals = now.delivery.totals;
  return {{"state", StateJson(now.state)},
          {"time", absl::ToUnixMillis(time)},
          {"totals",
           {{"batches", now.served.batches},
            {"graphs", now.served.graphs},
            {"bytes", now.served.bytes}}},
          {"history", std::move(history)},
          {"memory", std::move(memory)},
          {"disks", std::move(disks)},
          {"waiting", std::move(waiting)},
          {"pending_graphs", now.pending_graphs},
          {"connections", {{"open", now.num_connections}, {"most", now.max_connections}}},
          {"lanes", LanesJson(now.lanes)},
          {"delivery",
           {{"epochs", now.delivery.num_epochs},
            {"sessions", now.delivery.sessions().num_sessions},
            {"in_flight", now.delivery.sessions().num_in_flight},
            {"leased", totals.leased},
            {"redelivered", totals.redelivered},
            {"acknowledged", totals.acknowledged},
            {"expired", totals.expired}}}};
}

}  // namespace packhouse::page
