// What every store checks of an append, and what it makes of it before the commit.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_PREPARED_APPEND_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_PREPARED_APPEND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/stored_values.h"

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
  // Of what a repetition must have as well.
  uint32_t digest = 0;

  // With `history`, that of the append's producer: ProducerHistory::IsRepetition().
  absl::StatusOr<bool> Repeats(const ProducerHistory& history) const;
};

// Checks what can be checked without the data set: INVALID_ARGUMENT. O(bytes).
absl::StatusOr<PreparedAppend> PrepareAppend(const DatasetStore::Target& target,
                                             const GraphChunk& chunk,
                                             absl::Span<const uint64_t> group_ids,
                                             const std::optional<ProducerSequence>& producer);

// FAILED_PRECONDITION for another schema, INVALID_ARGUMENT for group ids that disagree,
// OUT_OF_RANGE naming the graph that exceeds a max_count.
absl::Status CheckFitsDefinition(const PreparedAppend& append, const StoredDefinition& definition);

// Adds the append's sizes to the totals. RESOURCE_EXHAUSTED, and nothing changes, if a total would
// exceed 2^64 - 1.
absl::Status AddToTotals(const PreparedAppend& append, std::vector<uint64_t>& totals);

// RESOURCE_EXHAUSTED if `used` + `added` bytes exceed the data set's quota; 0 is no quota.
absl::Status CheckDatasetQuota(absl::string_view name, uint64_t used, uint64_t added,
                               uint64_t quota);
// RESOURCE_EXHAUSTED. `are_made_up`: they are those whose names were made up for a call.
absl::Status TooManyProducers(absl::string_view name, uint64_t num_producers, bool are_made_up);
absl::Status IsSealed(absl::string_view name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_PREPARED_APPEND_H_
