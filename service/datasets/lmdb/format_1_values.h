// Small values of the embedded store as servers before format 2 wrote them: read once, when a store
// is converted.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_FORMAT_1_VALUES_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_FORMAT_1_VALUES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// The new value under `key` in place of `payload`, without its checksum. nullopt if values under
// such a key have not changed: records and the format's number. DATA_LOSS if it is malformed.
// O(bytes).
//
// All numbers were little-endian:
//   definition := u64 dataset, u64 max_bytes, u32 n, u32[n] max_counts, u8 grouped, string schema,
//                 [u64 id]                        absent: dataset + 1
//   state      := u8 sealed, u64 version, u64 graphs, u64 records, u64 bytes, u64 producers,
//                 u64 base_run_sizes, u64 later_run_sizes, u32 l, u64[l] totals
//   run        := u32 l, u32 n, (u32[l] counts, u64 graphs)[n]
//   schema     := u32 l, string[l] components, u32 n, tensor[n]
//   tensor     := string name, string dtype, u32 rank, u32[rank] row_shape, u32 component,
//                 u32 index_into (2^32 - 1: none), string padding_value
//   producer   := u64 sequence
//   tombstone  := NAME
//   string     := u32 length, bytes
absl::StatusOr<std::optional<std::string>> FromFormat1(absl::string_view key,
                                                       absl::string_view payload);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_FORMAT_1_VALUES_H_
