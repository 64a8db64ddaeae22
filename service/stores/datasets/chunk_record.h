// The format of a stored chunk of graphs; docs/storage-format.md has its grammar and an example.
//
// Writer and reader share the constants here. A record is one append, columnar as it came, so that
// a graph's rows can be viewed where they lie.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_CHUNK_RECORD_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_CHUNK_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"

namespace packhouse {

// "PHCHUNK" and a newline; a transfer in text mode would change the newline.
inline constexpr absl::string_view kChunkRecordMagic = "PHCHUNK\n";
inline constexpr uint32_t kChunkRecordVersion = 1;
inline constexpr size_t kChunkRecordHeaderBytes = 112;
// Columns begin at multiples of 64 bytes, counted from the page in which the record begins. LMDB
// puts the record behind a page header of 16 bytes.
inline constexpr size_t kColumnAlignment = 64;
inline constexpr size_t kRecordOffsetInPage = 16;
// Less than LMDB can hold, and about the size of the largest message.
inline constexpr uint64_t kMaxChunkRecordBytes = uint64_t{1} << 30;
// Graphs without components and tensors take no bytes, so a bound on bytes is not enough.
inline constexpr uint64_t kMaxChunkRecordGraphs = uint64_t{1} << 24;

// The place of a record. The record contains it, so that a record in a wrong place is noticed.
struct ChunkRecordPlace {
  uint64_t dataset = 0;
  // In a store of objects, whose records are written before their first graph is known, another
  // number that no other record of the data set has.
  uint64_t first_graph = 0;

  friend bool operator==(const ChunkRecordPlace& a, const ChunkRecordPlace& b) {
    return a.dataset == b.dataset && a.first_graph == b.first_graph;
  }
};

// A chunk with its checksums, ready to be written. Views the chunk, which must outlive it.
class EncodedChunk {
 public:
  // `group_ids` has one id for each graph, or is empty. INVALID_ARGUMENT above kMaxChunkRecordBytes
  // or kMaxChunkRecordGraphs. O(bytes), most of it the checksum.
  static absl::StatusOr<EncodedChunk> Create(const GraphChunk* chunk,
                                             absl::Span<const uint64_t> group_ids);

  size_t num_bytes() const { return num_bytes_; }
  // Of everything that the chunk has; without ids that are counted from a first one, unless
  // `with_first_id`. O(1).
  uint32_t Digest(bool with_first_id) const;
  // Writes num_bytes() bytes to `out`.
  void WriteTo(char* out, const ChunkRecordPlace& place) const;

 private:
  EncodedChunk() = default;

  const GraphChunk* chunk_ = nullptr;
  uint32_t flags_ = 0;
  std::string index_;
  std::vector<size_t> column_offsets_;
  size_t num_bytes_ = 0;
  uint32_t index_crc_ = 0;
  uint32_t columns_crc_ = 0;
};

// A record as it lies in memory, which must outlive the view. Immutable; thread-safe. Any bytes may
// be parsed.
class ChunkRecordView {
 public:
  // Checks the header, that all lengths agree, and the checksum of the index section; not the
  // columns. Bytes after the record are ignored. O(n * l).
  //
  // DATA_LOSS saying what is wrong; FAILED_PRECONDITION naming both versions if the header is
  // sound but of another format.
  static absl::StatusOr<ChunkRecordView> Parse(absl::string_view bytes);

  const ChunkRecordPlace& place() const { return place_; }
  size_t num_graphs() const { return num_graphs_; }
  size_t num_components() const { return num_components_; }
  size_t num_columns() const { return columns_.size(); }
  size_t num_bytes() const { return num_bytes_; }
  bool has_group_ids() const { return !group_ids_.empty(); }

  // These append to `out`: n * l counts; n ids.
  void AppendCounts(std::vector<uint32_t>& out) const;
  void AppendGraphIds(std::vector<uint64_t>& out) const;
  // Appends nothing if there are none.
  void AppendGroupIds(std::vector<uint64_t>& out) const;

  // DATA_LOSS if the columns fail their checksum. O(bytes).
  absl::Status CheckColumns() const;

  // The graphs. `schema` must outlive the chunk; `owner` keeps the bytes. Call CheckColumns()
  // first. DATA_LOSS if the record does not have this schema. O(n * l).
  absl::StatusOr<GraphChunk> ToChunk(const GraphSchema* schema,
                                     std::shared_ptr<const void> owner) const;

 private:
  ChunkRecordView() = default;

  ChunkRecordPlace place_;
  size_t num_graphs_ = 0;
  size_t num_components_ = 0;
  size_t num_bytes_ = 0;
  uint64_t first_id_ = 0;
  uint32_t columns_crc_ = 0;
  absl::string_view counts_;
  absl::string_view graph_ids_;  // Empty: consecutive from first_id_.
  absl::string_view group_ids_;
  std::vector<absl::string_view> columns_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_CHUNK_RECORD_H_
