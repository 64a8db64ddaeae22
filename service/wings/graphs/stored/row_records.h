// Rows of nodes and edges as they are logged until the graph is sealed: one record an append.
// docs/storage-format.md has the format.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ROW_RECORDS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ROW_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/wings/graphs/source_graphs/source_graph_chunk.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// What begins each record.
struct RowHeader {
  static constexpr size_t kBytes = 64;
  static constexpr uint64_t kAlignment = 64;  // Of records in the file.
  static constexpr uint32_t kVersion = 1;

  uint32_t index_bytes = 0;
  uint64_t record_bytes = 0;
  // The first bytes of the file that were known to be durable when the record was written.
  uint64_t durable_bytes = 0;
  uint64_t sequence = 0;
  uint64_t graph = 0;
  uint32_t index_crc = 0;
  uint32_t data_crc = 0;
  // ProducerHistory::forget_seconds() after it.
  uint32_t forget_seconds = 0;

  // Of what a repetition must have as well: the rows, and the producer's name.
  uint32_t Digest() const;
  std::string Encode() const;
  // nullopt unless its checksum holds and its numbers can be.
  static std::optional<RowHeader> Decode(absl::string_view bytes);
};

// The rows of one set in a record.
struct StoredRows {
  // One of the arrays: ids first (those of sources, then of targets), then the columns.
  struct Array {
    const char* data = nullptr;
    uint64_t bytes = 0;
    // Ragged and text: rows + 1 ascending numbers of steps. Otherwise null.
    const uint32_t* offsets = nullptr;
  };
  bool is_edges = false;
  size_t set = 0;
  uint64_t num_rows = 0;
  std::vector<Array> arrays;
};

// What the index of a record says.
struct RowIndex {
  struct Part {
    bool is_edges = false;
    size_t set = 0;
    uint64_t num_rows = 0;
    // Of each array: bytes of the data, then bytes of the offsets.
    std::vector<uint64_t> lengths;
  };
  std::string producer;
  std::vector<Part> parts;
  uint64_t num_nodes() const;
  uint64_t num_edges() const;
};

// A record of a chunk that CheckSourceGraphChunk() accepts. `durable_bytes` as in RowHeader.
std::string EncodeRows(const SourceGraphChunk& chunk,
                       const std::optional<ProducerSequence>& producer, uint64_t graph,
                       uint64_t durable_bytes);

// ProducerHistory::IsRepetition() of rows that `producer` sends to this graph.
absl::StatusOr<bool> RepeatsRows(absl::string_view graph_name, uint64_t graph,
                                 const SourceGraphChunk& chunk, const ProducerSequence& producer,
                                 const ProducerHistory& history);

// nullopt if the bytes, which lie behind the header, fail their checksum or are no index.
std::optional<RowIndex> DecodeIndex(const RowHeader& header, absl::string_view bytes);

// Views of a whole record whose data checksum holds. DATA_LOSS naming the set if an array has not
// the length that its rows need.
absl::StatusOr<std::vector<StoredRows>> ViewRows(const SourceGraphSchema& schema,
                                                 const SourceGraphOptions& options,
                                                 const RowHeader& header, const RowIndex& index,
                                                 absl::string_view record);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ROW_RECORDS_H_
