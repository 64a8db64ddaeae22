// Cuts a graph that no batch takes into pieces that fit.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PIECES_GRAPH_CUTTING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PIECES_GRAPH_CUTTING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/pieces/piece_schema.h"

namespace packhouse {

// The rules by which graphs are cut. Part of an epoch's identity, so that another release never
// goes on with other pieces.
inline constexpr char kCuttingRules[] = "cut-v1";

// One piece: its rows by component. Ragged features have none here; they follow their rows.
struct GraphPiece {
  struct Rows {
    // Numbers in the whole graph, ascending: those that the piece owns, then the halo's.
    std::vector<uint32_t> numbers;
    uint32_t num_inner = 0;
  };
  std::vector<Rows> components;
  // As the piece's size tuple, with ragged features.
  std::vector<uint32_t> tuple;
  // Rows that it owns and that point at rows which it does not own.
  uint32_t num_cut_edges = 0;
};

// Graph `index` of `chunk`, whose schema is `schema.whole()`, in few pieces of at most `limits`
// rows of each component, one a component. Pieces grow one after another from a row that nobody
// owns, by the rows that have most to do with the piece, until no more fits; twice, by affinity and
// in the order of rows, and the result with fewer pieces is taken, then that with fewer cut edges.
//
// Each row is owned by one piece. A row without indices (a node) is owned with the rows that it
// owns: those whose last index, over others if need be, leads to it (its in-edges). If these are
// too many for one piece, the others are spread over more. A piece has copies of all rows that its
// rows point at. The result is a function of the graph and the limits. A graph that fits is one
// piece.
//
// OUT_OF_RANGE naming the component, the row and the limit, if one row does not fit with what it
// points at. Also if the pieces together would have more than 65,536 and four times the graph's
// rows, or if a cut takes more than 4 million and, for each row and index, 64 steps: then the
// limits are too small for the graph to be of use. INVALID_ARGUMENT for lengths that are negative
// or do not add up. Memory: 96 bytes a row and 8 for each index, and 1 MiB.
absl::StatusOr<std::vector<GraphPiece>> CutGraph(const PieceSchema& schema, const GraphChunk& chunk,
                                                 size_t index, absl::Span<const uint64_t> limits);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PIECES_GRAPH_CUTTING_H_
