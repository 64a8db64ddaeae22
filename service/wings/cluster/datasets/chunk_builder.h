// The bytes of an object of records.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_BUILDER_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/wings/cluster/datasets/object_values.h"

namespace packhouse {

// "PHOBJECT" and a version of 8 bytes, little-endian; then records, each at 16 bytes behind a
// multiple of 64, so that their columns are aligned in a map; then the histogram of all of them, a
// HistogramRun.
inline constexpr absl::string_view kChunkObjectMagic = "PHOBJECT";
inline constexpr uint64_t kChunkObjectVersion = 1;

// Bytes that count for a record in the store.
uint64_t BytesInObject(uint64_t record_bytes);
// About the bytes of an object of these appends, and not less.
uint64_t BytesOfObject(absl::Span<const PreparedAppend* const> appends);

struct BuiltChunk {
  std::string bytes;
  // One record for each append; first_graph is not known yet.
  ObjectChunk chunk;
};

// `id`: of the data set. `object`: the number of the object. Each append has graphs, and all have
// one schema. O(bytes).
absl::StatusOr<BuiltChunk> BuildChunk(uint64_t id, uint64_t object,
                                      absl::Span<const PreparedAppend* const> appends);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_BUILDER_H_
