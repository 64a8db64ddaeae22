#include "service/collation/collate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/graphs/index_values.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kMaxInt32 = (uint64_t{1} << 31) - 1;

// Appends `rows` copies of a row of `row_bytes` bytes whose elements all are `element`.
void AppendFilled(std::string& data, uint64_t rows, size_t row_bytes, absl::string_view element) {
  const size_t bytes = rows * row_bytes;
  if (element.empty() || element.find_first_not_of('\0') == absl::string_view::npos) {
    data.append(bytes, '\0');
    return;
  }
  for (size_t i = 0; i < bytes; i += element.size()) data.append(element.data(), element.size());
}

std::string IndexElement(DType dtype, uint64_t value) {
  std::string element(ElementBytes(dtype), '\0');
  ShiftIndices(dtype, element.data(), element.size(), value);
  return element;
}

BatchTensor CollateTensor(const BatchLayout& layout, size_t t, absl::Span<const GraphRef> graphs,
                          const Batch& batch) {
  const TensorSpec& spec = layout.schema().tensors()[t];
  const size_t row_bytes = layout.schema().row_bytes(t);
  const uint64_t rows = batch.rows[spec.component];
  BatchTensor tensor{spec.name, spec.dtype, {rows}, {}};
  tensor.shape.insert(tensor.shape.end(), spec.row_shape.begin(), spec.row_shape.end());
  tensor.data.reserve(rows * row_bytes);
  uint64_t target_rows = 0;  // Rows of the target component in the graphs before.
  for (const GraphRef& graph : graphs) {
    const absl::string_view data = graph.chunk->rows(graph.index, t);
    tensor.data.append(data.data(), data.size());
    if (!spec.index_into) continue;
    ShiftIndices(spec.dtype, tensor.data.data() + tensor.data.size() - data.size(), data.size(),
                 target_rows);
    target_rows += graph.chunk->count(graph.index, *spec.index_into);
  }
  const uint64_t padding_rows = rows - batch.real_rows[spec.component];
  if (padding_rows == 0) return tensor;
  std::string element = spec.padding_value;
  if (spec.index_into) {
    const uint64_t last_row = std::max<uint64_t>(batch.rows[*spec.index_into], 1) - 1;
    element = IndexElement(spec.dtype, std::min(batch.real_rows[*spec.index_into], last_row));
  }
  AppendFilled(tensor.data, padding_rows, row_bytes, element);
  return tensor;
}

BatchTensor Int32Tensor(std::string name, absl::Span<const int32_t> values) {
  BatchTensor tensor{std::move(name), DType::kInt32, {values.size()}, {}};
  tensor.data.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
  return tensor;
}

BatchTensor Mask(std::string name, uint64_t rows, uint64_t real) {
  BatchTensor tensor{std::move(name), DType::kBool, {rows}, std::string(real, '\1')};
  tensor.data.append(rows - real, '\0');
  return tensor;
}

void AppendDerived(const BatchLayout& layout, size_t k, Batch& batch) {
  const DerivedTensors& derived = layout.derived();
  const size_t l = layout.schema().num_components();
  const std::string name(layout.schema().sizes().name(k));
  const uint64_t real_graphs = batch.real_rows[l];
  const uint64_t padding_rows = batch.rows[k] - batch.real_rows[k];

  // Rows of each graph, padding graphs included.
  std::vector<int32_t> counts(batch.rows[l], 0);
  for (size_t i = 0; i < real_graphs; ++i) {
    counts[i] = static_cast<int32_t>(batch.sizes[i * l + k]);
  }
  // The first padding graph holds the spare rows in kGraph; in kMasked they belong to no graph's
  // count, only the graph index has to name some graph for them.
  if (layout.padding() == Padding::kGraph) {
    counts[real_graphs] = static_cast<int32_t>(padding_rows);
  }
  if (derived.row_counts) batch.tensors.push_back(Int32Tensor(name + "/counts", counts));
  if (derived.graph_index) {
    std::vector<int32_t> graph_of_row;
    graph_of_row.reserve(batch.rows[k]);
    for (size_t i = 0; i < real_graphs; ++i) {
      graph_of_row.insert(graph_of_row.end(), batch.sizes[i * l + k], static_cast<int32_t>(i));
    }
    const uint64_t last_graph = std::max<uint64_t>(batch.rows[l], 1) - 1;
    graph_of_row.resize(batch.rows[k], static_cast<int32_t>(std::min(real_graphs, last_graph)));
    batch.tensors.push_back(Int32Tensor(name + "/graph", graph_of_row));
  }
  if (derived.row_offsets) {
    std::vector<int32_t> offsets(1, 0);
    for (const int32_t count : counts) offsets.push_back(offsets.back() + count);
    batch.tensors.push_back(Int32Tensor(name + "/offsets", offsets));
  }
  if (derived.masks) {
    batch.tensors.push_back(Mask(name + "/mask", batch.rows[k], batch.real_rows[k]));
  }
}

// What an int32 tensor or an index tensor of the batch must be able to number.
absl::Status CheckNumberable(const BatchLayout& layout, const Batch& batch) {
  const GraphSchema& schema = layout.schema();
  for (const TensorSpec& tensor : schema.tensors()) {
    if (!tensor.index_into || batch.rows[*tensor.index_into] == 0) continue;
    if (batch.rows[*tensor.index_into] - 1 > MaxIndex(tensor.dtype)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "batch: ", batch.rows[*tensor.index_into], " rows of component '",
          schema.sizes().name(*tensor.index_into), "', which has no limit, exceed what tensor '",
          tensor.name, "' of ", DTypeName(tensor.dtype), " can number"));
    }
  }
  for (size_t k = 0; k < batch.rows.size(); ++k) {
    if (batch.rows[k] > kMaxInt32) {
      return absl::ResourceExhaustedError(
          absl::StrCat("batch: ", batch.rows[k], " rows of component '", schema.sizes().name(k),
                       "', which has no limit, exceed 2^31 - 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Batch> CollateSizes(const BatchLayout& layout, absl::Span<const GraphRef> graphs) {
  const size_t l = layout.schema().num_components();
  Batch batch;
  batch.graph_ids.reserve(graphs.size());
  batch.sizes.reserve(graphs.size() * l);
  batch.real_rows.assign(l + 1, 0);
  for (const GraphRef& graph : graphs) {
    const auto tuple = graph.chunk->sizes().tuple(graph.index);
    batch.graph_ids.push_back(graph.chunk->sizes().graph_id(graph.index));
    batch.sizes.insert(batch.sizes.end(), tuple.begin(), tuple.end());
    for (size_t k = 0; k < l; ++k) batch.real_rows[k] += tuple[k];
  }
  batch.real_rows[l] = graphs.size();
  for (size_t k = 0; k <= l; ++k) {
    batch.rows.push_back(layout.RowsFor(k, batch.real_rows[k]));
    if (batch.real_rows[k] > batch.rows[k]) {
      return absl::InternalError(absl::StrCat("batch: ", batch.real_rows[k], " rows of component '",
                                              layout.schema().sizes().name(k), "', capacity ",
                                              batch.rows[k]));
    }
  }
  return batch;
}

absl::StatusOr<Batch> Collate(const BatchLayout& layout, absl::Span<const GraphRef> graphs,
                              uint64_t max_bytes) {
  const size_t l = layout.schema().num_components();
  PH_ASSIGN_OR_RETURN(Batch batch, CollateSizes(layout, graphs));
  PH_RETURN_IF_ERROR(CheckNumberable(layout, batch));
  const auto bytes = layout.BatchBytes(batch.rows);
  if (!bytes || *bytes > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("batch: its tensors would take ",
                                                     bytes.value_or(UINT64_MAX), " bytes, at most ",
                                                     max_bytes, " are allowed"));
  }
  if (layout.padding() == Padding::kGraph && batch.real_rows[l] >= batch.rows[l]) {
    return absl::InternalError("batch: no graph is left for padding");
  }
  for (size_t t = 0; t < layout.schema().tensors().size(); ++t) {
    batch.tensors.push_back(CollateTensor(layout, t, graphs, batch));
  }
  for (size_t k = 0; k < l; ++k) AppendDerived(layout, k, batch);
  if (layout.derived().masks) {
    batch.tensors.push_back(
        Mask(absl::StrCat(kGraphs, "/mask"), batch.rows[l], batch.real_rows[l]));
  }
  return batch;
}

}  // namespace packhouse
