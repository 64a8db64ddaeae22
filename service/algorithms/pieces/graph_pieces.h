// Graphs and pieces of graphs in one chunk, with the tensors that tell of pieces.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PIECES_GRAPH_PIECES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PIECES_GRAPH_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/pieces/graph_cutting.h"
#include "service/algorithms/pieces/piece_schema.h"

namespace packhouse {

// Thread-compatible.
class GraphPieces {
 public:
  // `schema` must outlive this and what Finish() gives.
  explicit GraphPieces(const PieceSchema* schema);

  // Makes room for so many rows of each component of schema.with_pieces(), `graphs` last, so that
  // columns do not grow. To be called before anything is added.
  void Reserve(absl::Span<const uint64_t> rows);
  // The bytes of columns that have these rows, while Finish() makes them.
  static uint64_t ColumnBytes(const GraphSchema& with_pieces, absl::Span<const uint64_t> rows);

  // Copies graph `index` of a chunk of schema.whole(), or a piece of it; each has the graph's id.
  // `piece` is what CutGraph() gave for it. O(bytes).
  void AddWhole(const GraphChunk& chunk, size_t index);
  void AddPiece(const GraphChunk& chunk, size_t index, const GraphPiece& piece, uint32_t number,
                uint32_t num_pieces);

  size_t num_graphs() const { return ids_.size(); }
  // Of all tensors.
  uint64_t num_bytes() const { return num_bytes_; }

  // The graphs, in a chunk of schema.with_pieces() that owns its rows; this is then empty.
  absl::StatusOr<GraphChunk> Finish();

 private:
  struct Column {
    std::vector<std::string> planes;
  };

  // The rows of each component in the whole graph, with ragged features.
  void FindRows(const GraphChunk& chunk, size_t index, const GraphPiece& piece);
  void AppendRows(const GraphChunk& chunk, size_t index, size_t tensor);
  void AppendIndices(const GraphChunk& chunk, size_t index, size_t tensor);
  void AppendPieceTensors(uint32_t number, uint32_t num_pieces, uint32_t num_cut_edges,
                          absl::Span<const uint32_t> num_inner);
  void Append(size_t tensor, size_t plane, const char* from, size_t bytes);

  const PieceSchema* const schema_;
  std::vector<Column> columns_;
  std::vector<uint32_t> counts_;
  std::vector<uint64_t> ids_;
  uint64_t num_bytes_ = 0;
  // Of the graph that is being added.
  std::vector<std::vector<uint32_t>> rows_;
  // By component that is pointed into, and row of the whole: its place among rows_, if it is there.
  std::vector<std::vector<uint32_t>> local_;
};

// The memory that cutting the graphs of a chunk takes, with a chunk of as many bytes that is made.
uint64_t CuttingBytes(const GraphChunk& chunk);

// The graphs of a chunk with those that exceed `limits` (one a component) cut into pieces. A graph
// that cannot be cut stays whole. Pieces repeat rows: `hold` is told of bytes beyond CuttingBytes()
// before they are taken, and may refuse them with the error that is returned.
absl::StatusOr<GraphChunk> CutOversizeGraphs(const PieceSchema& schema, const GraphChunk& chunk,
                                             absl::Span<const uint64_t> limits,
                                             absl::FunctionRef<absl::Status(uint64_t bytes)> hold);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PIECES_GRAPH_PIECES_H_
