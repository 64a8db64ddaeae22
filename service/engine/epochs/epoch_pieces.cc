#include "service/engine/epochs/epoch_pieces.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/pieces/graph_pieces.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kCutGraphs = "graphs that are cut";

uint64_t RowsOfPiece(const GraphPiece& piece) {
  uint64_t rows = 0;
  for (const GraphPiece::Rows& of_component : piece.components) rows += of_component.numbers.size();
  return rows;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const EpochPieces>> EpochPieces::Cut(
    const PieceSchema* schema, const DatasetReader& reader, const GraphSelection& selection,
    const BatchShape& shape, const Making& making, EpochItems& items) {
  auto pieces = std::shared_ptr<EpochPieces>(new EpochPieces(schema, making.memory()));
  const size_t n = reader.num_graphs();
  const size_t l = schema->whole().num_components();
  pieces->num_graphs_ = n;
  PH_ASSIGN_OR_RETURN(pieces->memory_, making.Hold(kCutGraphs, sizeof(uint32_t) * (n * l + 1)));
  PH_ASSIGN_OR_RETURN(items.memory,
                      making.Hold(kCutGraphs, sizeof(uint32_t) * (selection.num_graphs() + 1)));
  pieces->counts_.assign(reader.counts().begin(), reader.counts().end());
  std::vector<uint64_t> limits;
  for (size_t k = 0; k < l; ++k) limits.push_back(shape.LargestGraph(k));
  for (size_t i = 0; i < selection.num_graphs(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const auto graph =
        static_cast<uint32_t>(selection.positions() ? (*selection.positions())[i] : i);
    size_t beyond = 0;
    while (beyond < l && reader.counts()[graph * l + beyond] <= limits[beyond]) ++beyond;
    if (beyond == l) {
      items.numbers.push_back(graph);
      continue;
    }
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, reader.Graph(graph));
    uint64_t rows = 0;
    for (size_t k = 0; k < l; ++k) rows += reader.counts()[graph * l + k];
    PH_ASSIGN_OR_RETURN(const MemoryHold working,
                        making.Hold(kCutGraphs, 128 * rows + 2 * stored.chunk->num_bytes()));
    absl::StatusOr<std::vector<GraphPiece>> cut =
        CutGraph(*schema, *stored.chunk, stored.index, limits);
    if (!cut.ok()) {
      const OversizeItem item = {reader.graph_ids()[graph], beyond,
                                 reader.counts()[graph * l + beyond], limits[beyond]};
      if (items.oversize.items.size() < Oversize::kMaxListed) {
        items.oversize.items.push_back(item);
      }
      ++items.oversize.num_graphs;
      continue;
    }
    ++pieces->num_cut_graphs_;
    for (uint32_t number = 0; number < cut->size(); ++number) {
      GraphPiece& piece = (*cut)[number];
      // Vectors may have twice the room.
      PH_RETURN_IF_ERROR(making.Grow(
          kCutGraphs, sizeof(uint32_t) * (RowsOfPiece(piece) + 2 * l + 2) + sizeof(Piece) + 64 * l,
          pieces->memory_));
      if (n + pieces->pieces_.size() >= ItemSizes::kMaxItems) {
        return absl::InvalidArgumentError(absl::StrCat(
            "oversize_policy: graphs and pieces are more than ", ItemSizes::kMaxItems));
      }
      items.numbers.push_back(static_cast<uint32_t>(n + pieces->pieces_.size()));
      pieces->counts_.insert(pieces->counts_.end(), piece.tuple.begin(), piece.tuple.end());
      pieces->pieces_.push_back(
          {graph, number, static_cast<uint32_t>(cut->size()), std::move(piece)});
    }
    PH_RETURN_IF_ERROR(making.Grow(kCutGraphs, sizeof(uint32_t) * cut->size(), items.memory));
  }
  PH_RETURN_IF_ERROR(reader.CheckIntact());
  return pieces;
}

ItemSizes EpochPieces::sizes() const {
  return ItemSizes::Create(num_graphs_ + pieces_.size(), schema_->whole().num_components(), counts_)
      .value();
}

absl::StatusOr<EpochPieces::Gathered> EpochPieces::Gather(const DatasetReader& reader,
                                                          absl::Span<const uint32_t> items) const {
  const size_t l = schema_->whole().num_components();
  std::vector<uint64_t> rows(l + 1);
  uint64_t most_rows = 0;
  for (const uint32_t item : items) {
    uint64_t of_item = 0;
    uint64_t of_whole = 0;
    for (size_t k = 0; k < l; ++k) {
      rows[k] += counts_[item * l + k];
      of_item += counts_[item * l + k];
      of_whole += counts_[GraphOf(item) * l + k];
    }
    ++rows.back();
    most_rows = std::max(most_rows, of_item + of_whole);
  }
  MemoryHold memory;
  if (budget_ != nullptr) {
    // While an item is added, its rows and those of its graph are numbered, in vectors that may
    // have twice the room.
    const uint64_t numbers = 4 * sizeof(uint32_t) * most_rows;
    PH_ASSIGN_OR_RETURN(
        memory, budget_->Hold("the pieces of a batch",
                              GraphPieces::ColumnBytes(schema_->with_pieces(), rows) + numbers +
                                  items.size() * (sizeof(uint32_t) * l + sizeof(uint64_t)) * 2));
  }
  GraphPieces gathered(schema_);
  gathered.Reserve(rows);
  for (const uint32_t item : items) {
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, reader.Graph(GraphOf(item)));
    if (item < num_graphs_) {
      gathered.AddWhole(*stored.chunk, stored.index);
      continue;
    }
    const Piece& piece = pieces_[item - num_graphs_];
    gathered.AddPiece(*stored.chunk, stored.index, piece.rows, piece.number, piece.num_pieces);
  }
  PH_ASSIGN_OR_RETURN(GraphChunk graphs, gathered.Finish());
  return Gathered{std::move(memory), std::move(graphs)};
}

}  // namespace packhouse
