// Sub-graphs and their seeds: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_WIRE_SAMPLING_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_WIRE_SAMPLING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "packhouse/v1/sampling.pb.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/base/memory_budget.h"
#include "service/wings/graphs/epochs/seed_counter.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// The most seeds of one request of a stream.
inline constexpr uint64_t kMaxStreamSeeds = uint64_t{1} << 20;

absl::StatusOr<SubGraphsRequest> SubGraphsFromWire(const v1::SubGraphs& wire);

// Opens the source graph that the request names. Errors also as SourceGraphStore::Open and
// SubGraphSource::Create; FAILED_PRECONDITION if `graphs` is null. `at_once`: CANCELLED rather than
// to wait until a graph is fetched, as SourceGraphStore::OpenIfHere.
absl::StatusOr<std::shared_ptr<const SubGraphSource>> OpenSubGraphs(const v1::SubGraphs& wire,
                                                                    const SourceGraphStore* graphs,
                                                                    bool at_once = false);

// The seeds, checked as SubGraphSource::CheckSeeds does. Not set: all nodes. NOT_FOUND naming an id
// that no node has. O(seeds), for ids O(seeds * log nodes).
//
// How often each seed came before is counted in the list, or by `counter` if that is not null,
// unless the message says it.
absl::StatusOr<SeedList> SeedsFromWire(bool is_set, const v1::Seeds& wire,
                                       const SubGraphSource& source,
                                       SeedCounter* counter = nullptr);
// At most the bytes of its result.
uint64_t BytesOfSeeds(const v1::Seeds& wire);

// False: sub-graphs beyond the limits are refused.
absl::StatusOr<bool> DrawsSmaller(v1::BeyondLimits wire);

// Copies all rows.
void GraphChunkToWire(const GraphChunk& chunk, v1::GraphChunk& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_WIRE_SAMPLING_H_
