// What a wing adds to a server. The program makes the wings that were built; the server knows this
// alone.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_WING_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_WING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/impl/service_type.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/call_context.h"
#include "service/server/wire/epoch_kinds.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/limits/disk_quota.h"

namespace packhouse::rpc {

// What a wing works on. The pointees outlive it.
struct WingSources {
  // Of all calls.
  CallContext context;
  Clock* clock = nullptr;
  MemoryBudget* working = nullptr;
  // Null: no namespace has a quota.
  DiskQuota* disk_quota = nullptr;
  // Within the quotas of namespaces. Null: there are none.
  DatasetStore* datasets = nullptr;
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

  // On the disk, of a namespace: a part of its quota of disk_bytes.
  virtual uint64_t BytesOf(absl::string_view /*where*/) const { return 0; }

  // Deletes a source graph with what the wing keeps of it. Null: the wing keeps nothing of them.
  virtual std::function<absl::Status(absl::string_view name)> graph_deletion() { return nullptr; }
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
