// The memory of a reader.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_READER_BYTES_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_READER_BYTES_H_

#include <cstdint>

#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// The bytes of a reader of this many graphs and records, with the chunks that it decodes when they
// are used (record_dataset_reader.h).
inline uint64_t BytesOfReader(const DatasetInfo& info, uint64_t num_graphs, uint64_t num_records) {
  const uint64_t l = info.schema->num_components();
  // Counts, an id, and in the chunk offsets, counts and an id again.
  const uint64_t of_graph = sizeof(uint32_t) * 2 * l + sizeof(uint64_t) * (l + 3) +
                            (info.options.grouped ? sizeof(uint64_t) : 0);
  // The place of a record, in a list that has up to twice the room that it needs and exists twice
  // for a moment; and its chunk.
  constexpr uint64_t kBytesOfRecord = 512;
  return of_graph * num_graphs + kBytesOfRecord * (num_records + 1);
}

inline uint64_t BytesOfReader(const DatasetInfo& info) {
  return BytesOfReader(info, info.num_graphs, info.num_records);
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_READER_BYTES_H_
