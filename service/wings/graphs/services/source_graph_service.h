// SourceGraphService (proto/packhouse/v1/source_graph.proto).
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SOURCE_GRAPH_SERVICE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SOURCE_GRAPH_SERVICE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/wings/graphs/source_graphs/seal_runs.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse::rpc {

// Calls that write wait for the disk on the append pool; sealing and verifying are on the planning
// pool. A seal goes on when its calls have ended. Thread-safe.
class SourceGraphService final : public EarlyService {
 public:
  using DeleteGraph = std::function<absl::Status(absl::string_view name)>;

  // The pointees must outlive the service. Without graphs every call is answered with
  // NoDataFolder(). `delete_graph` deletes one with what others keep of it; `catalog` may be null.
  // `are_distant`: to open a graph is to wait for other machines, as writing is.
  SourceGraphService(const CallContext& context, SourceGraphStore* graphs, DeleteGraph delete_graph,
                     EpochCatalog* catalog, bool are_distant);

 private:
  const DeleteGraph delete_graph_;
  SealRuns seals_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SOURCE_GRAPH_SERVICE_H_
