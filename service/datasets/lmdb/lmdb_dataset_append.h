// Appends a chunk to a data set, in a transaction.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_DATASET_APPEND_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_DATASET_APPEND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/datasets/chunk_record.h"
#include "service/datasets/dataset_store.h"
#include "service/datasets/lmdb/group_commit.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/datasets/lmdb/lmdb_transaction.h"
#include "service/graphs/graph_chunk.h"
#include "service/histograms/size_histogram.h"

namespace packhouse {

// Everything that an append needs, made by the calling thread before the commit. Views the data
// that it was made of.
struct PreparedAppend {
  absl::string_view name;
  uint64_t id;  // 0: the data set that has the name.
  const GraphChunk* chunk;
  absl::Span<const uint64_t> group_ids;
  const std::optional<ProducerSequence>& producer;
  EncodedChunk record;
  SizeHistogram sizes;
  std::string schema;
};

// The whole append. Errors as DatasetStore::Append(). `max_bytes` bounds all data sets together;
// `may_need_room` becomes true if an error might not happen in a store with more room.
absl::StatusOr<AppendResult> AppendIn(LmdbTransaction& transaction, StoreTotals& totals,
                                      const LmdbEnvironment& environment, uint64_t max_bytes,
                                      const PreparedAppend& append, bool& may_need_room);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_DATASET_APPEND_H_
