#include "service/algorithms/pieces/graph_pieces.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/status_macros.h"

namespace packhouse {

GraphPieces::GraphPieces(const PieceSchema* schema)
    : schema_(schema),
      columns_(schema->with_pieces().tensors().size()),
      rows_(schema->components().size()),
      local_(schema->components().size()) {
  for (size_t t = 0; t < columns_.size(); ++t) {
    columns_[t].planes.resize(schema_->with_pieces().num_planes(t));
  }
}

void GraphPieces::Reserve(absl::Span<const uint64_t> rows) {
  const GraphSchema& schema = schema_->with_pieces();
  for (size_t t = 0; t < columns_.size(); ++t) {
    const uint64_t bytes = rows[schema.tensors()[t].component] * schema.plane_row_bytes(t);
    for (std::string& plane : columns_[t].planes) plane.reserve(bytes);
  }
}

uint64_t GraphPieces::ColumnBytes(const GraphSchema& with_pieces, absl::Span<const uint64_t> rows) {
  uint64_t bytes = 0;
  uint64_t largest_in_planes = 0;
  for (size_t t = 0; t < with_pieces.tensors().size(); ++t) {
    const uint64_t of_column = rows[with_pieces.tensors()[t].component] * with_pieces.row_bytes(t);
    bytes += of_column;
    if (with_pieces.num_planes(t) > 1) largest_in_planes = std::max(largest_in_planes, of_column);
  }
  // Planes are there once more when they are put together, one column after the other.
  return bytes + largest_in_planes;
}

void GraphPieces::Append(size_t tensor, size_t plane, const char* from, size_t bytes) {
  columns_[tensor].planes[plane].append(from, bytes);
  num_bytes_ += bytes;
}

void GraphPieces::AppendPieceTensors(uint32_t number, uint32_t num_pieces, uint32_t num_cut_edges,
                                     absl::Span<const uint32_t> num_inner) {
  const auto append_number = [this](size_t tensor, uint32_t value) {
    Append(tensor, 0, reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append_number(schema_->first_of_graph(), number);
  append_number(schema_->first_of_graph() + 1, num_pieces);
  append_number(schema_->first_of_graph() + 2, num_cut_edges);
  for (size_t k = 0; k < rows_.size(); ++k) {
    const PieceSchema::Component& component = schema_->components()[k];
    if (component.lengths) continue;
    Append(component.row, 0, reinterpret_cast<const char*>(rows_[k].data()),
           rows_[k].size() * sizeof(uint32_t));
    std::string marks(rows_[k].size(), '\0');
    std::fill_n(marks.begin(), num_inner[k], '\1');
    Append(component.inner, 0, marks.data(), marks.size());
  }
}

void GraphPieces::AddWhole(const GraphChunk& chunk, size_t index) {
  const GraphSchema& whole = schema_->whole();
  std::vector<uint32_t> num_inner;
  for (size_t k = 0; k < rows_.size(); ++k) {
    rows_[k].resize(schema_->components()[k].lengths ? 0 : chunk.count(index, k));
    std::iota(rows_[k].begin(), rows_[k].end(), uint32_t{0});
    num_inner.push_back(static_cast<uint32_t>(rows_[k].size()));
  }
  for (size_t t = 0; t < whole.tensors().size(); ++t) {
    for (size_t plane = 0; plane < whole.num_planes(t); ++plane) {
      const absl::string_view rows = chunk.rows(index, t, plane);
      Append(t, plane, rows.data(), rows.size());
    }
  }
  AppendPieceTensors(0, 1, 0, num_inner);
  const auto tuple = chunk.sizes().tuple(index);
  counts_.insert(counts_.end(), tuple.begin(), tuple.end());
  ids_.push_back(chunk.sizes().graph_id(index));
}

void GraphPieces::FindRows(const GraphChunk& chunk, size_t index, const GraphPiece& piece) {
  const GraphSchema& whole = schema_->whole();
  for (const size_t k : schema_->order()) {
    const PieceSchema::Component& component = schema_->components()[k];
    if (!component.lengths) {
      rows_[k] = piece.components[k].numbers;
      std::vector<uint32_t>& local = local_[k];
      if (!whole.IsPointedInto(k)) continue;
      if (local.size() < chunk.count(index, k)) local.resize(chunk.count(index, k));
      for (size_t i = 0; i < rows_[k].size(); ++i) local[rows_[k][i]] = static_cast<uint32_t>(i);
      continue;
    }
    // The steps of each row along which the lengths lie.
    const TensorSpec& spec = whole.tensors()[*component.lengths];
    const absl::string_view lengths = chunk.rows(index, *component.lengths);
    const size_t elements = whole.row_bytes(*component.lengths) / ElementBytes(spec.dtype);
    std::vector<uint32_t> starts = {0};
    for (size_t i = 0; i < chunk.count(index, spec.component); ++i) {
      uint32_t steps = 0;
      for (size_t e = 0; e < elements; ++e) {
        steps += static_cast<uint32_t>(IndexValueAt(spec.dtype, lengths, i * elements + e));
      }
      starts.push_back(starts.back() + steps);
    }
    rows_[k].clear();
    for (const uint32_t row : rows_[spec.component]) {
      for (uint32_t step = starts[row]; step < starts[row + 1]; ++step) rows_[k].push_back(step);
    }
  }
}

void GraphPieces::AppendRows(const GraphChunk& chunk, size_t index, size_t tensor) {
  const GraphSchema& whole = schema_->whole();
  const size_t bytes = whole.plane_row_bytes(tensor);
  const std::vector<uint32_t>& rows = rows_[whole.tensors()[tensor].component];
  for (size_t plane = 0; plane < whole.num_planes(tensor); ++plane) {
    const absl::string_view from = chunk.rows(index, tensor, plane);
    std::string& to = columns_[tensor].planes[plane];
    const size_t had = to.size();
    to.resize(had + rows.size() * bytes);
    char* at = to.data() + had;
    for (const uint32_t row : rows) {
      std::memcpy(at, from.data() + row * bytes, bytes);
      at += bytes;
    }
    num_bytes_ += rows.size() * bytes;
  }
}

void GraphPieces::AppendIndices(const GraphChunk& chunk, size_t index, size_t tensor) {
  const GraphSchema& whole = schema_->whole();
  const TensorSpec& spec = whole.tensors()[tensor];
  const std::vector<uint32_t>& rows = rows_[spec.component];
  const std::vector<uint32_t>& local = local_[*spec.index_into];
  const size_t elements = whole.plane_row_bytes(tensor) / ElementBytes(spec.dtype);
  for (size_t plane = 0; plane < whole.num_planes(tensor); ++plane) {
    const absl::string_view from = chunk.rows(index, tensor, plane);
    std::string& to = columns_[tensor].planes[plane];
    WithIndexType(spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (const uint32_t row : rows) {
        for (size_t e = 0; e < elements; ++e) {
          const auto value =
              static_cast<size_t>(IndexValueAt(spec.dtype, from, row * elements + e));
          const auto mapped = static_cast<T>(local[value]);
          to.append(reinterpret_cast<const char*>(&mapped), sizeof(mapped));
        }
      }
    });
    num_bytes_ += rows.size() * whole.plane_row_bytes(tensor);
  }
}

void GraphPieces::AddPiece(const GraphChunk& chunk, size_t index, const GraphPiece& piece,
                           uint32_t number, uint32_t num_pieces) {
  const GraphSchema& whole = schema_->whole();
  FindRows(chunk, index, piece);
  std::vector<uint32_t> num_inner;
  for (const GraphPiece::Rows& rows : piece.components) num_inner.push_back(rows.num_inner);
  for (size_t t = 0; t < whole.tensors().size(); ++t) {
    const TensorSpec& spec = whole.tensors()[t];
    if (spec.component == rows_.size()) {
      for (size_t plane = 0; plane < whole.num_planes(t); ++plane) {
        const absl::string_view of_graph = chunk.rows(index, t, plane);
        Append(t, plane, of_graph.data(), of_graph.size());
      }
    } else if (spec.index_into) {
      AppendIndices(chunk, index, t);
    } else {
      AppendRows(chunk, index, t);
    }
  }
  AppendPieceTensors(number, num_pieces, piece.num_cut_edges, num_inner);
  counts_.insert(counts_.end(), piece.tuple.begin(), piece.tuple.end());
  ids_.push_back(chunk.sizes().graph_id(index));
}

absl::StatusOr<GraphChunk> GraphPieces::Finish() {
  const size_t n = ids_.size();
  PH_ASSIGN_OR_RETURN(
      SizeTable sizes,
      SizeTable::WithAnyIds(n, rows_.size(), std::exchange(counts_, {}), std::exchange(ids_, {})));
  auto bytes = std::make_shared<std::vector<std::string>>(columns_.size());
  std::vector<absl::string_view> views;
  for (size_t t = 0; t < columns_.size(); ++t) {
    std::string& column = (*bytes)[t];
    std::vector<std::string>& planes = columns_[t].planes;
    if (planes.size() == 1) {
      column = std::exchange(planes[0], {});
    } else {
      size_t all = 0;
      for (const std::string& plane : planes) all += plane.size();
      column.reserve(all);
      for (std::string& plane : planes) column += std::exchange(plane, {});
    }
    views.emplace_back(column);
  }
  num_bytes_ = 0;
  return GraphChunk::CreateTrusted(&schema_->with_pieces(), std::move(sizes), std::move(views),
                                   std::move(bytes));
}

namespace {

uint64_t BytesOfPiece(const GraphSchema& schema, const GraphPiece& piece) {
  uint64_t bytes = 0;
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    const size_t component = schema.tensors()[t].component;
    bytes += schema.row_bytes(t) *
             (component < piece.tuple.size() ? piece.tuple[component] : uint64_t{1});
  }
  return bytes;
}

}  // namespace

uint64_t CuttingBytes(const GraphChunk& chunk) {
  // Columns may grow to twice their bytes, pieces have copies of rows, and rows are numbered.
  uint64_t rows = 0;
  for (const uint32_t count : chunk.sizes().counts()) rows += count;
  return 4 * chunk.num_bytes() + 128 * rows;
}

absl::StatusOr<GraphChunk> CutOversizeGraphs(const PieceSchema& schema, const GraphChunk& chunk,
                                             absl::Span<const uint64_t> limits,
                                             absl::FunctionRef<absl::Status(uint64_t bytes)> hold) {
  GraphPieces pieces(&schema);
  for (size_t i = 0; i < chunk.num_graphs(); ++i) {
    const auto tuple = chunk.sizes().tuple(i);
    bool fits = true;
    for (size_t k = 0; k < tuple.size(); ++k) fits &= tuple[k] <= limits[k];
    if (fits) {
      pieces.AddWhole(chunk, i);
      continue;
    }
    const auto cut = CutGraph(schema, chunk, i, limits);
    if (!cut.ok()) {
      pieces.AddWhole(chunk, i);
      continue;
    }
    const auto num_pieces = static_cast<uint32_t>(cut->size());
    // Columns may grow to twice their bytes.
    uint64_t bytes = 0;
    for (const GraphPiece& piece : *cut) bytes += 2 * BytesOfPiece(schema.with_pieces(), piece);
    PH_RETURN_IF_ERROR(hold(bytes));
    for (uint32_t number = 0; number < num_pieces; ++number) {
      pieces.AddPiece(chunk, i, (*cut)[number], number, num_pieces);
    }
  }
  return pieces.Finish();
}

}  // namespace packhouse
