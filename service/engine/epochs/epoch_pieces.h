// The pieces of an epoch's graphs that no batch takes whole.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_PIECES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/pieces/graph_cutting.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_items.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Items are numbered as the graphs of the data set, and pieces behind them. What the pieces are
// depends on the graphs and the limits alone. Immutable; thread-safe.
class EpochPieces {
 public:
  // Cuts the selected graphs that exceed what one graph may have of `shape`. `schema` must outlive
  // it. Graphs that cannot be cut are in items.oversize. `items` are the others and the pieces, in
  // the order of the selection.
  //
  // DATA_LOSS as the reader; INVALID_ARGUMENT for more items than ItemSizes::kMaxItems;
  // RESOURCE_EXHAUSTED and CANCELLED as `making`. O(graphs), and CutGraph() of those that exceed
  // it; the sizes of all items, and 4 bytes for each row of the pieces.
  static absl::StatusOr<std::shared_ptr<const EpochPieces>> Cut(
      const PieceSchema* schema, const DatasetReader& reader, const GraphSelection& selection,
      const BatchShape& shape, const Making& making, EpochItems& items);

  // Sizes of all graphs, whether they are items or not, and of the pieces.
  ItemSizes sizes() const;
  uint64_t num_cut_graphs() const { return num_cut_graphs_; }
  uint64_t num_pieces() const { return pieces_.size(); }
  // The place in the data set of an item, or of the graph that it is a piece of.
  uint32_t GraphOf(uint32_t item) const {
    return item < num_graphs_ ? item : pieces_[item - num_graphs_].graph;
  }
  uint64_t bytes() const { return memory_.bytes(); }

  // The items of a batch as graphs of schema.with_pieces(), and the memory that they take, which
  // is held before they are made. DATA_LOSS as the reader; RESOURCE_EXHAUSTED as the memory of the
  // Making that was given to Cut(), which must outlive this. O(bytes).
  struct Gathered {
    MemoryHold memory;
    GraphChunk graphs;
  };
  absl::StatusOr<Gathered> Gather(const DatasetReader& reader,
                                  absl::Span<const uint32_t> items) const;

 private:
  struct Piece {
    uint32_t graph;
    uint32_t number;
    uint32_t num_pieces;
    GraphPiece rows;
  };

  EpochPieces(const PieceSchema* schema, MemoryBudget* budget) : schema_(schema), budget_(budget) {}

  const PieceSchema* const schema_;
  MemoryBudget* const budget_;  // Null: memory has no bound.
  MemoryHold memory_;
  size_t num_graphs_ = 0;
  std::vector<uint32_t> counts_;  // Of all items, row-major.
  std::vector<Piece> pieces_;
  uint64_t num_cut_graphs_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_PIECES_H_
