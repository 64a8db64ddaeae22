// Schemas, chunks, limits and batches: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_GRAPHS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/graphs.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/collation/batch_layout.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

// Unset (no components, no tensors, `is_set` false): `nodes`, `edges`, no tensors.
absl::StatusOr<GraphSchema> GraphSchemaFromWire(bool is_set, const v1::GraphSchema& wire);
void GraphSchemaToWire(const GraphSchema& schema, v1::GraphSchema& wire);

// Views the message's tensors in place; `owner` must keep `wire` alive. Graphs without ids are
// numbered from `next_id`.
absl::StatusOr<GraphChunk> GraphChunkFromWire(const v1::GraphChunk& wire, const GraphSchema* schema,
                                              uint64_t next_id, std::shared_ptr<const void> owner);

// The capacity of each component, `graphs` last; kUnlimited where there is none.
absl::StatusOr<std::vector<uint64_t>> CapacitiesFromWire(const v1::Limits& wire,
                                                         const SizeSchema& schema);
// A number of rows of one graph for each component, without `graphs`; 0 where none is given. Empty
// if none is given at all. `field` is for messages.
absl::StatusOr<std::vector<uint32_t>> CountsFromWire(
    const google::protobuf::RepeatedPtrField<v1::Capacity>& wire, const SizeSchema& schema,
    absl::string_view field);
void CapacitiesToWire(absl::Span<const uint64_t> capacities, const SizeSchema& schema,
                      v1::Limits& wire);

v1::DataType DTypeToWire(DType dtype);
// nullopt for a value that is no type.
std::optional<DType> DTypeFromWire(v1::DataType wire);
absl::StatusOr<Padding> PaddingFromWire(v1::Padding wire);
// A schema with only one tensor for each of `index_targets`, which points into it, and one for each
// of `ragged_components`, a ragged feature: this is all that padding needs to know of a schema.
// INVALID_ARGUMENT for a name that is no component or comes twice.
absl::StatusOr<GraphSchema> SchemaOfTargets(
    const SizeSchema& sizes, const google::protobuf::RepeatedPtrField<std::string>& index_targets,
    const google::protobuf::RepeatedPtrField<std::string>& ragged_components);
v1::Padding PaddingToWire(Padding padding);
absl::StatusOr<DerivedTensors> DerivedFromWire(const google::protobuf::RepeatedField<int>& wire);
// INVALID_ARGUMENT also for narrow integers where batches have no tensors.
absl::StatusOr<IntegerWidth> IntegerWidthFromWire(v1::IntegerWidth wire, bool whole_graphs);

// Whether batches have tensors; unspecified: if the schema has any.
absl::StatusOr<bool> CarriesGraphs(v1::Payload payload, const GraphSchema& schema);
enum class OversizeRule { kReject, kError, kCut };
absl::StatusOr<OversizeRule> OversizeRuleFromWire(v1::OversizePolicy policy);

// Ids, sizes and row counts; tensors are sent separately (batch_reply.h).
void BatchToWire(const Batch& batch, uint64_t id, v1::Batch& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_GRAPHS_H_
