// Small values of the embedded store: to their stored messages (packhouse/internal/stored.proto)
// and back. chunk_record.h has the format of the graphs themselves.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_STORED_VALUES_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_STORED_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/producer.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// All decoding functions read any bytes: DATA_LOSS unless the bytes are exactly those that the
// encoding function would write. Time and memory O(bytes).

// Equal schemas have equal encodings.
std::string EncodeSchema(const GraphSchema& schema);
absl::StatusOr<GraphSchema> DecodeSchema(absl::string_view bytes);

// What a data set is created with.
struct StoredDefinition {
  uint64_t dataset = 0;  // Its number; it may be used again after a deletion.
  uint64_t id = 0;       // Its id; it is never used again.
  DatasetOptions options;
  std::string schema;  // EncodeSchema().
};
std::string EncodeDefinition(const StoredDefinition& definition);
absl::StatusOr<StoredDefinition> DecodeDefinition(absl::string_view payload);

// What changes with each append.
struct StoredState {
  bool sealed = false;
  uint64_t version = 0;
  uint64_t num_graphs = 0;
  uint64_t num_records = 0;
  uint64_t num_bytes = 0;
  uint64_t num_producers = 0;
  // Of these, with names that were made up for one call; and the number of them at which those
  // whose time is over are forgotten.
  uint64_t num_made_up = 0;
  uint64_t sweep_made_up_at = 0;
  // Distinct sizes in the histogram's first run, and in all later ones together.
  uint64_t base_run_sizes = 0;
  uint64_t later_run_sizes = 0;
  std::vector<uint64_t> totals;  // Per component.
};
std::string EncodeState(const StoredState& state);
absl::StatusOr<StoredState> DecodeState(absl::string_view payload);

// A run: sizes in ascending order with their counts.
std::string EncodeRun(const SizeHistogram& histogram);
// Adds a run. DATA_LOSS if its number of components differs from the histogram's.
absl::Status AddRun(absl::string_view payload, SizeHistogram& histogram);

// What is remembered of a producer.
std::string EncodeProducer(const ProducerHistory& history);
absl::StatusOr<ProducerHistory> DecodeProducer(absl::string_view payload);

// The tombstone of a deleted data set.
std::string EncodeTombstone(absl::string_view name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_STORED_VALUES_H_
