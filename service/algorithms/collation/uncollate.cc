#include "service/algorithms/collation/uncollate.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Subtracts the rows that come before each graph from the values of a plane of index tensor t.
void MakeLocal(const GraphSchema& schema, size_t t, const SizeTable& sizes, char* plane) {
  const TensorSpec& spec = schema.tensors()[t];
  uint64_t target_rows = 0;
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    const auto count = [&](size_t k) {
      return k == schema.num_components() ? uint64_t{1} : sizes.tuple(i)[k];
    };
    const uint64_t bytes = count(spec.component) * schema.plane_row_bytes(t);
    ShiftIndices(spec.dtype, plane, bytes, -target_rows);
    plane += bytes;
    target_rows += count(*spec.index_into);
  }
}

}  // namespace

absl::StatusOr<std::string> WidenedData(const BatchTensor& tensor) {
  const DType from = tensor.dtype;
  const DType to = tensor.declared_dtype.value_or(from);
  if (from == to) return std::string(tensor.data);
  const bool is_narrow = from == DType::kUint8 || from == DType::kInt16 || from == DType::kInt32;
  if (!is_narrow || !IsInteger(to) || ElementBytes(to) <= ElementBytes(from)) {
    return absl::InvalidArgumentError(absl::StrCat("batch: tensor '", tensor.name, "' of ",
                                                   DTypeName(to), " comes as ", DTypeName(from)));
  }
  if (tensor.data.size() % ElementBytes(from) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch: tensor '", tensor.name, "' has ",
                                                   tensor.data.size(), " bytes of ",
                                                   DTypeName(from)));
  }
  const size_t n = tensor.data.size() / ElementBytes(from);
  std::string widened(n * ElementBytes(to), '\0');
  for (size_t i = 0; i < n; ++i) {
    const int64_t value = IndexValueAt(from, tensor.data, i);
    // Little-endian: the lowest bytes come first.
    std::memcpy(widened.data() + i * ElementBytes(to), &value, ElementBytes(to));
  }
  return widened;
}

absl::StatusOr<GraphChunk> Uncollate(const GraphSchema* schema, const Batch& batch) {
  const size_t l = schema->num_components();
  const size_t n = batch.graph_ids.size();
  PH_ASSIGN_OR_RETURN(SizeTable sizes, SizeTable::WithAnyIds(n, l, batch.sizes, batch.graph_ids));
  if (batch.tensors.size() < schema->tensors().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.tensors.size(), " tensors, the schema has ", schema->tensors().size()));
  }
  std::vector<uint64_t> real_rows(l + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < l; ++k) real_rows[k] += sizes.tuple(i)[k];
  }
  real_rows[l] = n;

  // Real rows come first in each plane of a tensor, padding behind them.
  auto owned = std::make_shared<std::vector<std::string>>();
  for (size_t t = 0; t < schema->tensors().size(); ++t) {
    const TensorSpec& spec = schema->tensors()[t];
    const auto real_bytes = CheckedMultiply(real_rows[spec.component], schema->row_bytes(t));
    absl::string_view data = batch.tensors[t].data;
    std::string widened;
    if (const std::optional<DType> declared = batch.tensors[t].declared_dtype) {
      // Its values are read as the schema's type.
      if (*declared != spec.dtype) {
        return absl::InvalidArgumentError(absl::StrCat("batch: tensor '", spec.name, "' is of ",
                                                       DTypeName(*declared), ", the schema says ",
                                                       DTypeName(spec.dtype)));
      }
      PH_ASSIGN_OR_RETURN(widened, WidenedData(batch.tensors[t]));
      data = widened;
    }
    const size_t num_planes = schema->num_planes(t);
    if (!real_bytes || data.size() < *real_bytes || data.size() % num_planes != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: tensor '", spec.name, "' has ", data.size(), " bytes for ",
                       real_rows[spec.component], " real rows of ", schema->row_bytes(t)));
    }
    std::string& column = owned->emplace_back();
    column.reserve(*real_bytes);
    for (size_t plane = 0; plane < num_planes; ++plane) {
      const size_t begin = column.size();
      column.append(data.data() + data.size() / num_planes * plane, *real_bytes / num_planes);
      if (spec.index_into) MakeLocal(*schema, t, sizes, column.data() + begin);
    }
  }
  std::vector<absl::string_view> columns(owned->begin(), owned->end());
  return GraphChunk::Create(schema, std::move(sizes), std::move(columns), std::move(owned));
}

}  // namespace packhouse
