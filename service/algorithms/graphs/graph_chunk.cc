#include "service/algorithms/graphs/graph_chunk.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/index_check.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Checks the values of index tensor t in one of its planes.
absl::Status CheckIndices(const GraphChunk& chunk, size_t t, size_t plane) {
  const TensorSpec& tensor = chunk.schema().tensors()[t];
  const IndexCheck check(tensor.dtype);
  for (size_t i = 0; i < chunk.num_graphs(); ++i) {
    const absl::string_view data = chunk.rows(i, t, plane);
    const uint64_t bound = chunk.count(i, *tensor.index_into);
    if (check.AllInRange(data, bound)) continue;
    const size_t bad = FindIndexOutOfRange(tensor.dtype, data, bound);
    // The position in the graph's own tensor.
    const size_t position = plane * chunk.count(i, tensor.component) + bad;
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: graph ", chunk.sizes().graph_id(i), ": tensor '", tensor.name,
                     "': index ", IndexValueAt(tensor.dtype, data, bad), " at position ", position,
                     " is not in [0, ", bound, ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GraphChunk> GraphChunk::CreateTrusted(const GraphSchema* schema, SizeTable sizes,
                                                     std::vector<absl::string_view> columns,
                                                     std::shared_ptr<const void> owner) {
  const size_t l = schema->num_components();
  if (sizes.num_graphs() != 0 && sizes.num_components() != l) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: sizes of ", sizes.num_components(),
                                                   " components, the schema has ", l));
  }
  if (columns.size() != schema->tensors().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk: ", columns.size(), " tensors, the schema has ", schema->tensors().size()));
  }
  GraphChunk chunk(schema, std::move(sizes), std::move(columns), std::move(owner));
  const size_t n = chunk.num_graphs();

  // n * 2^32 does not wrap around: the counts are in memory, 4 bytes each.
  chunk.first_rows_.assign((n + 1) * l, 0);
  for (size_t i = 0; i < n; ++i) {
    const auto tuple = chunk.sizes_.tuple(i);
    for (size_t k = 0; k < l; ++k) {
      chunk.first_rows_[(i + 1) * l + k] = chunk.first_rows_[i * l + k] + tuple[k];
    }
  }
  for (size_t t = 0; t < chunk.columns_.size(); ++t) {
    const TensorSpec& tensor = schema->tensors()[t];
    const uint64_t rows = chunk.first_row(n, tensor.component);
    const auto expected = CheckedMultiply(rows, schema->row_bytes(t));
    if (!expected || *expected != chunk.columns_[t].size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "chunk: tensor '", tensor.name, "' has ", chunk.columns_[t].size(), " bytes, its ", n,
          " graphs have ", rows, " rows of ", schema->row_bytes(t), " bytes"));
    }
  }
  return chunk;
}

absl::StatusOr<GraphChunk> GraphChunk::Create(const GraphSchema* schema, SizeTable sizes,
                                              std::vector<absl::string_view> columns,
                                              std::shared_ptr<const void> owner) {
  PH_ASSIGN_OR_RETURN(GraphChunk chunk, CreateTrusted(schema, std::move(sizes), std::move(columns),
                                                      std::move(owner)));
  for (size_t t = 0; t < chunk.columns_.size(); ++t) {
    if (!schema->tensors()[t].index_into || chunk.columns_[t].empty()) continue;
    for (size_t plane = 0; plane < schema->num_planes(t); ++plane) {
      PH_RETURN_IF_ERROR(CheckIndices(chunk, t, plane));
    }
  }
  return chunk;
}

size_t GraphChunk::num_bytes() const {
  size_t bytes = 0;
  for (const absl::string_view column : columns_) bytes += column.size();
  return bytes;
}

}  // namespace packhouse
