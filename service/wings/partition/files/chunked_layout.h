// The chunked layout, from which DGL's newer pipeline partitions: metadata.json, and beside it the
// parts of nodes: TYPE.txt with a part a line, and partition_meta.json.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_CHUNKED_LAYOUT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_CHUNKED_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

enum class ChunkFormat { kCsv, kNumpy, kParquet };

// UNIMPLEMENTED, which says what makes numpy files of Parquet files.
absl::Status ParquetIsNotRead();

// A table in chunks: files that follow one another.
struct ChunkedTable {
  std::string name;  // Of a feature; of edges empty.
  ChunkFormat format = ChunkFormat::kNumpy;
  // Of csv. In metadata that does not say it a space for edges, and a comma for features, as in
  // DGL.
  char delimiter = ' ';
  std::vector<std::string> files;  // Relative to the folder of metadata.json, or absolute.

  friend bool operator==(const ChunkedTable&, const ChunkedTable&) = default;
};

struct ChunkedNodeType {
  std::string name;
  uint64_t num_nodes = 0;
  std::vector<uint64_t> chunks;  // Sums to num_nodes; empty where only the total is known.
  std::vector<ChunkedTable> features;

  friend bool operator==(const ChunkedNodeType&, const ChunkedNodeType&) = default;
};

struct ChunkedEdgeType {
  std::string name;  // source:relation:target
  uint64_t num_edges = 0;
  std::vector<uint64_t> chunks;
  ChunkedTable edges;  // Rows of two ids within their types: source, target.
  std::vector<ChunkedTable> features;

  friend bool operator==(const ChunkedEdgeType&, const ChunkedEdgeType&) = default;
};

struct ChunkedGraph {
  std::string graph_name;
  std::vector<ChunkedNodeType> node_types;
  std::vector<ChunkedEdgeType> edge_types;

  friend bool operator==(const ChunkedGraph&, const ChunkedGraph&) = default;
};

// Takes any text, with num_nodes_per_chunk or num_nodes_per_type or both, and so for edges.
// INVALID_ARGUMENT naming field and type: also where both do not agree, or an edge type is not
// source:relation:target of known node types.
absl::StatusOr<ChunkedGraph> ReadChunkedMetadata(absl::string_view text);
// With both kinds of counts, since older tools read one and newer ones the other.
absl::StatusOr<std::string> WriteChunkedMetadata(const ChunkedGraph& graph);

// partition_meta.json. The pipeline knows two names of algorithms: metis and random; another one is
// written as metis, which has no effect beyond the name.
struct AssignmentMeta {
  uint64_t num_parts = 0;
  std::string algorithm = "metis";

  friend bool operator==(const AssignmentMeta&, const AssignmentMeta&) = default;
};
absl::StatusOr<AssignmentMeta> ReadAssignmentMeta(absl::string_view text);
absl::StatusOr<std::string> WriteAssignmentMeta(const AssignmentMeta& meta);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_CHUNKED_LAYOUT_H_
