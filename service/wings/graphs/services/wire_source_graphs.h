// Source graphs: wire to domain and back. Errors as in wire_sizes.h, unless said otherwise.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_WIRE_SOURCE_GRAPHS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_WIRE_SOURCE_GRAPHS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "packhouse/v1/source_graph.pb.h"
#include "service/base/memory_budget.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// The arguments of SourceGraphStore::Create().
struct NewSourceGraph {
  std::string name;
  SourceGraphSchema schema;
  SourceGraphOptions options;
};
absl::StatusOr<NewSourceGraph> NewSourceGraphFromWire(const v1::CreateSourceGraphRequest& wire);

// Views the message's bytes.
absl::StatusOr<SourceGraphChunk> SourceGraphChunkFromWire(const v1::AppendSourceGraphRequest& wire,
                                                          const SourceGraphSchema& schema);

absl::StatusOr<DuplicateNodes> DuplicateNodesFromWire(v1::DuplicateNodes wire);

// `request` is the one that is answered.
void SourceAppendResultToWire(const SourceAppendResult& result,
                              const v1::AppendSourceGraphRequest& request,
                              v1::AppendSourceGraphResponse& wire);

// For a kDamaged graph only name and state are set, since nothing else is known.
void SourceGraphToWire(const SourceGraphInfo& info, v1::SourceGraph& wire);
void SourceGraphListToWire(const SourceGraphList& list, v1::ListSourceGraphsResponse& wire);

// The last response; `bytes` is what was read.
void SourceGraphReportToWire(const SourceGraphVerifyReport& report,
                             v1::VerifySourceGraphResponse& wire);

// Rows of a sealed graph. Errors as the RPCs; rows that take more than `max_bytes` are refused.
// `hold` takes their memory from `working` (null: it is not counted).
absl::StatusOr<v1::LookupNodesResponse> LookUpNodes(const v1::LookupNodesRequest& request,
                                                    const SourceGraph& graph, size_t max_bytes,
                                                    MemoryBudget* working, MemoryHold& hold);
absl::StatusOr<v1::ReadEdgesResponse> ReadEdges(const v1::ReadEdgesRequest& request,
                                                const SourceGraph& graph, size_t max_bytes,
                                                MemoryBudget* working, MemoryHold& hold);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_WIRE_SOURCE_GRAPHS_H_
