// Whole graphs from a .npz archive: molecules, the TU sets, or your own.
//
// `node_offsets` and `edge_offsets` [graphs + 1] say which rows of the other arrays are a graph's:
// ascending whole numbers from 0. `edge_index` [2, edges] holds row numbers within each graph and
// becomes two int32 index tensors, `senders` and `receivers`. Each further array is a tensor of its
// own name and type, whose rows are numbered by its first extent: `x`, `node_tag` of the nodes,
// `edge_attr` of the edges, `y` of the graphs; any other name of what its number of rows fits, and
// if that is more than one, of what its name begins with: `node_`, `edge_` or `graph_`. The Python
// package (packhouse.datasets.npz) reads the same files as the same graphs.
#ifndef PACKHOUSE_CLIENT_CLI_FILES_NPZ_GRAPHS_H_
#define PACKHOUSE_CLIENT_CLI_FILES_NPZ_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/files/graph_source.h"
#include "client/cli/files/npz_archive.h"

namespace packhouse::client {

// Holds the offsets in memory, 16 bytes a graph (24 with groups); the rest is streamed.
class NpzGraphs final : public GraphSource {
 public:
  // Opens an archive and reads all of it once, so that nothing of a broken file is ever sent.
  // `groups` names an array of whole numbers [graphs], each graph's group id, which is no tensor
  // then; empty: no groups.
  //
  // Errors: as NpzArchive::Open and CheckArrays; INVALID_ARGUMENT naming file, array and value if
  // offsets are missing, do not begin with 0, descend, or give a graph 2^32 rows or more; if an
  // array's number of rows fits nothing, or its type or shape is wrong for what it is;
  // OUT_OF_RANGE naming array, graph and value if an end of an edge is no node of its graph.
  static absl::StatusOr<std::unique_ptr<GraphSource>> Open(const std::string& path,
                                                           const std::string& groups);

  const v1::GraphSchema& schema() const override { return schema_; }
  bool is_grouped() const override { return groups_.has_value(); }
  uint64_t num_graphs() const override { return num_graphs_; }
  uint64_t GraphBytes(uint64_t graph) const override;
  std::string fingerprint() const override;
  absl::StatusOr<SourceChunk> Next(uint64_t count) override;

 private:
  enum Component { kNodes, kEdges, kGraphs };
  // One tensor of the schema.
  struct Column {
    const NpzArray* array = nullptr;
    Component component = kNodes;
    // On the wire.
    uint64_t row_bytes = 0;
    // Of edge_index: elements before the first one that is the column's.
    std::optional<uint64_t> first_index;
    std::optional<NpzStream> stream;
  };
  struct Groups {
    std::string name;
    // One for each graph.
    std::vector<uint64_t> ids;
  };

  explicit NpzGraphs(std::unique_ptr<NpzArchive> archive) : archive_(std::move(archive)) {}
  absl::StatusOr<std::vector<uint64_t>> ReadWholeNumbers(const NpzArray& array) const;
  absl::StatusOr<std::vector<uint64_t>> ReadOffsets(const std::string& name) const;
  absl::Status ReadGroups(const std::string& name);
  absl::Status AddColumns();
  absl::Status AddTensor(const NpzArray& array);
  absl::Status AddEdgeIndex(const NpzArray& array);
  absl::StatusOr<Component> ComponentOf(const NpzArray& array) const;
  uint64_t FirstRow(Component component, uint64_t graph) const;
  // Opens the streams of all columns at their first rows.
  absl::Status Rewind();
  absl::Status CheckIndices();
  // Appends the rows of graphs [begin, end), which are next in the column's stream.
  absl::Status AppendRows(uint64_t begin, uint64_t end, Column& column, std::string& data) const;
  absl::Status AppendIndices(uint64_t begin, uint64_t end, Column& column, std::string& data) const;

  const std::unique_ptr<NpzArchive> archive_;
  // Below: constant after Open, but for the streams.
  std::vector<uint64_t> node_offsets_;
  std::vector<uint64_t> edge_offsets_;
  std::optional<Groups> groups_;
  uint64_t num_graphs_ = 0;
  v1::GraphSchema schema_;
  // In the order of the schema's tensors.
  std::vector<Column> columns_;

  uint64_t next_ = 0;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_FILES_NPZ_GRAPHS_H_
