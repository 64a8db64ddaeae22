// What the page shows of a server as a whole, as main reads it.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_SERVER_READING_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_SERVER_READING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/wings/page/history.h"
#include "service/wings/page/json.h"

namespace packhouse::page {

// What the frame of the page shows beside every view.
struct ServerState {
  // One of what keeps the server from work (server/calls/readiness.h).
  struct NotReady {
    std::string reason;
    std::string why;
  };

  std::string version;
  // Of the files of the page: a tab that was opened before an update has others.
  std::string page_digest;
  std::string grpc_address;  // For commands.
  bool is_draining = false;
  std::vector<NotReady> not_ready;  // Empty: the server is ready.
};

struct ServerReading {
  // A share of --memory-budget.
  struct Share {
    std::string name;
    uint64_t held_bytes = 0;
    uint64_t most_bytes = 0;
  };
  // A store, and the file system that it is on.
  struct Disk {
    std::string name;
    uint64_t num_bytes = 0;
    uint64_t max_bytes = 0;
    std::optional<uint64_t> free_bytes;
  };
  // The open streams of a method.
  struct Streams {
    std::string method;
    uint64_t open = 0;
    // Responses that are built and not taken by their clients.
    uint64_t unsent_responses = 0;
  };

  // Of streams that were offered a lane (server/lanes/lane.h): whose batches go through memory that
  // their client shares, and all.
  struct Lanes {
    uint64_t open = 0;
    uint64_t offered = 0;
    uint64_t num_batches = 0;  // Ever.
    uint64_t num_slots = 0;    // That clients have.
  };

  ServerState state;
  ServedTotals served;
  std::vector<Share> memory;
  std::vector<Disk> disks;
  std::vector<Streams> streams;
  uint64_t pending_graphs = 0;  // Accepted, and in no batch yet.
  uint64_t num_connections = 0;
  uint64_t max_connections = 0;
  std::optional<Lanes> lanes = std::nullopt;  // Unset without --lane.
  DeliverySnapshot delivery;
};

// Who waits for whom, of streams that are open.
struct Waiting {
  uint64_t open = 0;
  // Streams whose client the server waits for, and whose client waits for the server.
  uint64_t awaited = 0;
  uint64_t starved = 0;
};
// Of streams that batches leave by: each may have two responses built ahead, and the server waits
// for clients that do not take them. Whether others send little or wait is not known: none is
// starved.
Waiting WaitingOf(const ServerReading::Streams& streams);
// Of workers of epochs (LeaseTable::WaitOf()).
Waiting WaitingOf(const DeliverySnapshot& delivery);

Json StateJson(const ServerState& state);

// Everything of the overview: the reading and History::ToJson().
Json OverviewJson(const ServerReading& now, Json history, absl::Time time);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_SERVER_READING_H_
