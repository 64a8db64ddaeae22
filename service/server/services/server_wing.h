// What a wing adds to a server. The program makes the wings that were built; the server knows this
// alone.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_WING_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_WING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/impl/service_type.h"
#include "service/access/policy.h"
#include "service/engine/epochs/sampling_observer.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/live_streams.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/call_context.h"
#include "service/server/wire/epoch_kinds.h"
#include "service/server/wire/example_format.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/limits/disk_quota.h"

namespace packhouse {
class EpochCatalog;
}

namespace packhouse::rpc {

class ServerWing;
struct ServerPools;

// What a wing works on, as the services do. The pointees outlive it.
struct WingSources {
  // Of all calls, and of streams of graphs.
  CallContext context;
  StreamBounds streams;
  PackObserverFactory* pack_observers = nullptr;
  LiveStreams* live = nullptr;  // Null: nobody looks at streams.
  HistogramStore* histograms = nullptr;
  SamplingObserver* sampled = nullptr;  // May be null.
  // Null, both: no namespace has a quota.
  QuotasOf quotas_of;
  DiskQuota* disk_quota = nullptr;
  // Within the quotas of namespaces. Null: there are none.
  DatasetStore* datasets = nullptr;
  EpochCatalog* catalog = nullptr;  // May be null.
  ServerPools* pools = nullptr;
  // Of this server: all of them once calls begin.
  const std::vector<std::unique_ptr<ServerWing>>* wings = nullptr;
  // Whether several servers share the jobs.
  bool shares_jobs = false;
};

// Thread-safe, as its services are. It outlives all calls.
class ServerWing {
 public:
  virtual ~ServerWing() = default;

  struct Service {
    grpc::Service* service = nullptr;  // Valid as long as the wing.
    std::string name;                  // In full, as in the proto.
    // Whether it can do anything, for gRPC's health.
    bool is_served = true;
  };
  virtual std::vector<Service> services() = 0;

  // A kind of epochs that the wing brings; valid as long as it. Null: none.
  virtual const EpochKindReader* epoch_kind() const { return nullptr; }

  // The format of examples that the wing brings; valid as long as it. Null: none.
  virtual const ExampleFormat* example_format() const { return nullptr; }

  // What a namespace has of what its quotas bound.
  struct Use {
    uint64_t disk_bytes = 0;
    uint64_t source_graphs = 0;
  };
  // Adds what the wing keeps of these namespaces, by their names. May wait for the disk.
  virtual void CountUses(std::map<std::string, Use>& /*uses*/) const {}

  // Deletes a source graph with what the wing keeps of it. Unset: the wing keeps nothing of them.
  virtual std::optional<absl::Status> DeleteSourceGraph(absl::string_view /*name*/) {
    return std::nullopt;
  }
  // A source graph was deleted without a call: what the wing knows of it is to go, too.
  virtual void ForgetSourceGraph(absl::string_view /*name*/) {}
};

using MakeServerWing = std::function<std::unique_ptr<ServerWing>(const WingSources& sources)>;

// Services of a wing that the server does not have: every call is UNIMPLEMENTED.
struct AbsentServices {
  std::vector<std::string> names;  // In full.
  std::string why_not;             // "this packhoused was built without the wing NAME"
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_WING_H_
