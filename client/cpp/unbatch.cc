#include "client/cpp/unbatch.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/widen.h"

namespace packhouse::client {
namespace {

template <typename... Args>
absl::Status Malformed(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat("batch: ", what...));
}

// Size tuples of the real graphs, `graphs` included as the last component.
class RealSizes {
 public:
  RealSizes(const std::string& sizes, std::size_t components)
      : counts_(sizes), components_(components) {}

  uint64_t Rows(std::size_t graph, std::size_t component) const {
    return component == components_ ? 1 : counts_[graph * components_ + component];
  }

 private:
  const LittleEndianView<uint32_t> counts_;
  const std::size_t components_;
};

// Subtracts, from every element of a plane of `tensor` that begins at `element`, the first row of
// its graph in the component that it points into.
template <typename T>
absl::Status MakeIndicesLocal(const TensorLayout& tensor, const RealSizes& sizes,
                              std::size_t num_graphs, char* element) {
  const std::size_t row_elements = tensor.row_elements / tensor.num_planes();
  uint64_t offset = 0;
  for (std::size_t graph = 0; graph < num_graphs; ++graph) {
    const uint64_t elements = sizes.Rows(graph, tensor.component) * row_elements;
    const uint64_t bound = sizes.Rows(graph, *tensor.index_into);
    for (uint64_t i = 0; i < elements; ++i, element += sizeof(T)) {
      const T index = LoadLittleEndian<T>(element);
      // A negative index becomes huge, and so does one before the graph's first row.
      const uint64_t local = static_cast<uint64_t>(index) - offset;
      if (local >= bound) {
        return Malformed(
            "tensor '", tensor.name, "' of graph ", graph, " holds the index ",
            static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(index),
            ", outside its rows ", offset, " to ", offset + bound);
      }
      StoreLittleEndian(static_cast<T>(local), element);
    }
    offset += bound;
  }
  return absl::OkStatus();
}

absl::Status MakeIndicesLocal(const TensorLayout& tensor, const RealSizes& sizes,
                              std::size_t num_graphs, char* plane) {
  switch (tensor.dtype) {
    case v1::DATA_TYPE_INT8:
      return MakeIndicesLocal<int8_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_INT16:
      return MakeIndicesLocal<int16_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_INT32:
      return MakeIndicesLocal<int32_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_INT64:
      return MakeIndicesLocal<int64_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_UINT8:
      return MakeIndicesLocal<uint8_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_UINT16:
      return MakeIndicesLocal<uint16_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_UINT32:
      return MakeIndicesLocal<uint32_t>(tensor, sizes, num_graphs, plane);
    case v1::DATA_TYPE_UINT64:
      return MakeIndicesLocal<uint64_t>(tensor, sizes, num_graphs, plane);
    default:
      return Malformed("tensor '", tensor.name, "' holds indices, but its dtype is no integer");
  }
}

absl::Status CheckTensor(const TensorLayout& expected, uint64_t rows, const v1::Tensor& tensor) {
  if (tensor.name() != expected.name) {
    return Malformed("tensor '", tensor.name(), "' where the schema has '", expected.name, "'");
  }
  if (tensor.dtype() != expected.dtype) {
    return Malformed("tensor '", tensor.name(), "' has dtype ", static_cast<int>(tensor.dtype()),
                     ", in the schema it is ", static_cast<int>(expected.dtype));
  }
  const std::size_t rank = expected.row_shape.size();
  bool same_shape = static_cast<std::size_t>(tensor.shape_size()) == rank + 1;
  const int rows_axis = expected.rows_last ? static_cast<int>(rank) : 0;
  const int row_shape_begin = expected.rows_last ? 0 : 1;
  if (same_shape && tensor.shape(rows_axis) != rows) {
    return Malformed("tensor '", tensor.name(), "' has ", tensor.shape(rows_axis),
                     " rows, its component has ", rows);
  }
  for (std::size_t i = 0; same_shape && i < rank; ++i) {
    same_shape = tensor.shape(static_cast<int>(i) + row_shape_begin) == expected.row_shape[i];
  }
  if (!same_shape) {
    return Malformed("tensor '", tensor.name(), "' differs from the schema in its row shape");
  }
  // By division: rows * row_bytes could overflow.
  const std::size_t bytes = tensor.data().size();
  if (bytes / expected.row_bytes != rows || bytes % expected.row_bytes != 0) {
    return Malformed("tensor '", tensor.name(), "' has ", bytes, " bytes for ", rows, " rows of ",
                     expected.row_bytes);
  }
  return absl::OkStatus();
}

// Checks lengths and sums; returns the number of graphs.
absl::StatusOr<std::size_t> CheckSizes(const SchemaLayout& schema, const v1::Batch& batch) {
  const std::size_t num_components = schema.components.size();
  if (batch.graph_ids().size() % sizeof(uint64_t) != 0) {
    return Malformed("graph_ids has ", batch.graph_ids().size(), " bytes, no multiple of 8");
  }
  const std::size_t num_graphs = batch.graph_ids().size() / sizeof(uint64_t);
  if (batch.sizes().size() != num_graphs * num_components * sizeof(uint32_t)) {
    return Malformed("sizes has ", batch.sizes().size(), " bytes for ", num_graphs, " graphs of ",
                     num_components, " components");
  }
  if (static_cast<std::size_t>(batch.real_rows_size()) != num_components + 1 ||
      static_cast<std::size_t>(batch.rows_size()) != num_components + 1) {
    return Malformed("real_rows and rows have ", batch.real_rows_size(), " and ", batch.rows_size(),
                     " values, must have ", num_components + 1);
  }
  const RealSizes sizes(batch.sizes(), num_components);
  for (std::size_t k = 0; k <= num_components; ++k) {
    const int i = static_cast<int>(k);
    // Cannot overflow: fewer than 2^32 graphs' counts of 32 bits fit into a message.
    uint64_t sum = 0;
    for (std::size_t graph = 0; graph < num_graphs; ++graph) sum += sizes.Rows(graph, k);
    const std::string& name = k == num_components ? std::string("graphs") : schema.components[k];
    if (batch.real_rows(i) != sum) {
      return Malformed("real_rows says ", batch.real_rows(i), " ", name, ", sizes add up to ", sum);
    }
    if (batch.rows(i) < sum) {
      return Malformed("rows says ", batch.rows(i), " ", name, ", fewer than the real ", sum);
    }
  }
  if (static_cast<std::size_t>(batch.tensors_size()) < schema.tensors.size()) {
    return Malformed("has ", batch.tensors_size(), " tensors, the schema ", schema.tensors.size());
  }
  return num_graphs;
}

}  // namespace

absl::StatusOr<v1::GraphChunk> Unbatch(const v1::GraphSchema& schema, const v1::Batch& batch) {
  const absl::StatusOr<SchemaLayout> layout = ResolveSchema(schema);
  if (!layout.ok()) return layout.status();
  return Unbatch(*layout, batch);
}

absl::StatusOr<v1::GraphChunk> Unbatch(const SchemaLayout& schema, const v1::Batch& batch) {
  const absl::StatusOr<std::size_t> num_graphs = CheckSizes(schema, batch);
  if (!num_graphs.ok()) return num_graphs.status();
  const RealSizes sizes(batch.sizes(), schema.components.size());

  v1::GraphChunk chunk;
  chunk.mutable_sizes()->set_num_graphs(*num_graphs);
  chunk.mutable_sizes()->set_counts(batch.sizes());
  chunk.mutable_sizes()->set_graph_ids(batch.graph_ids());
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorLayout& layout = schema.tensors[i];
    v1::Tensor widened;
    const bool is_narrow =
        batch.tensors(static_cast<int>(i)).declared_dtype() != v1::DATA_TYPE_UNSPECIFIED;
    if (is_narrow) {
      widened = batch.tensors(static_cast<int>(i));
      if (absl::Status status = Widen(widened); !status.ok()) return status;
    }
    const v1::Tensor& tensor = is_narrow ? widened : batch.tensors(static_cast<int>(i));
    const int component = static_cast<int>(layout.component);
    absl::Status status = CheckTensor(layout, batch.rows(component), tensor);
    if (!status.ok()) return status;

    v1::TensorData* data = chunk.add_tensors();
    data->set_name(layout.name);
    std::string& rows = *data->mutable_data();
    const std::size_t plane_bytes = batch.rows(component) * layout.plane_row_bytes();
    const std::size_t real_bytes = batch.real_rows(component) * layout.plane_row_bytes();
    rows.reserve(real_bytes * layout.num_planes());
    for (std::size_t plane = 0; plane < layout.num_planes(); ++plane) {
      rows.append(tensor.data(), plane * plane_bytes, real_bytes);
      if (!layout.index_into.has_value()) continue;
      status = MakeIndicesLocal(layout, sizes, *num_graphs, rows.data() + plane * real_bytes);
      if (!status.ok()) return status;
    }
  }
  return chunk;
}

}  // namespace packhouse::client
