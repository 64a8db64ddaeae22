#include "client/cpp/schema_layout.h"

#include <algorithm>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {
namespace {

// The most planes of a tensor with rows last.
constexpr std::size_t kMaxPlanes = 16;
constexpr std::size_t kMaxRowBytes = std::size_t{16} << 20;

// The number of `name` among the components and `graphs`.
std::optional<std::size_t> FindComponent(const std::vector<std::string>& components,
                                         const std::string& name) {
  if (name == "graphs") return components.size();
  const auto found = std::find(components.begin(), components.end(), name);
  if (found == components.end()) return std::nullopt;
  return static_cast<std::size_t>(found - components.begin());
}

}  // namespace

bool IsInteger(v1::DataType dtype) {
  return dtype >= v1::DATA_TYPE_INT8 && dtype <= v1::DATA_TYPE_UINT64;
}

std::size_t ElementBytes(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_BOOL:
    case v1::DATA_TYPE_INT8:
    case v1::DATA_TYPE_UINT8:
      return 1;
    case v1::DATA_TYPE_INT16:
    case v1::DATA_TYPE_UINT16:
    case v1::DATA_TYPE_FLOAT16:
    case v1::DATA_TYPE_BFLOAT16:
      return 2;
    case v1::DATA_TYPE_INT32:
    case v1::DATA_TYPE_UINT32:
    case v1::DATA_TYPE_FLOAT32:
      return 4;
    case v1::DATA_TYPE_INT64:
    case v1::DATA_TYPE_UINT64:
    case v1::DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

absl::StatusOr<SchemaLayout> ResolveSchema(const v1::GraphSchema& schema) {
  SchemaLayout layout;
  for (const std::string& component : schema.components()) {
    if (FindComponent(layout.components, component).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("schema: component '", component,
                       component == "graphs" ? "' is implied, not listed" : "' is listed twice"));
    }
    layout.components.push_back(component);
  }

  std::unordered_set<std::string> names;
  for (const v1::TensorSpec& spec : schema.tensors()) {
    const auto fail = [&spec](const auto&... what) {
      return absl::InvalidArgumentError(
          absl::StrCat("schema: tensor '", spec.name(), "' ", what...));
    };
    if (!names.insert(spec.name()).second) return fail("is listed twice");
    TensorLayout tensor;
    tensor.name = spec.name();
    tensor.dtype = spec.dtype();
    const std::size_t element_bytes = ElementBytes(spec.dtype());
    if (element_bytes == 0) return fail("has the unknown dtype ", static_cast<int>(spec.dtype()));

    tensor.row_elements = 1;
    for (const uint32_t extent : spec.row_shape()) {
      if (extent == 0) return fail("has an extent of 0 in its row shape");
      if (extent > kMaxRowBytes / element_bytes / tensor.row_elements) {
        return fail("has rows of more than ", kMaxRowBytes, " bytes");
      }
      tensor.row_elements *= extent;
      tensor.row_shape.push_back(extent);
    }
    tensor.row_bytes = tensor.row_elements * element_bytes;
    if (spec.layout() < v1::LAYOUT_UNSPECIFIED || spec.layout() > v1::LAYOUT_ROWS_LAST) {
      return fail("has the unknown layout ", static_cast<int>(spec.layout()));
    }
    tensor.rows_last = spec.layout() == v1::LAYOUT_ROWS_LAST;
    if (tensor.rows_last && tensor.row_shape.size() != 1) {
      return fail("has its rows last, and a row shape of ", tensor.row_shape.size(),
                  " extents, must be 1");
    }
    if (tensor.rows_last && tensor.row_elements > kMaxPlanes) {
      return fail("has its rows last, and ", tensor.row_elements, " elements a row, at most ",
                  kMaxPlanes);
    }

    const std::optional<std::size_t> component = FindComponent(layout.components, spec.component());
    if (!component.has_value()) {
      return fail("grows along '", spec.component(), "', which is no component of the schema");
    }
    tensor.component = *component;
    if (!spec.index_into().empty()) {
      tensor.index_into = FindComponent(layout.components, spec.index_into());
      if (!tensor.index_into.has_value()) {
        return fail("points into '", spec.index_into(), "', which is no component of the schema");
      }
      if (!IsInteger(spec.dtype())) return fail("holds indices, but its dtype is no integer");
    }
    layout.tensors.push_back(std::move(tensor));
  }
  return layout;
}

v1::GraphSchema DefaultSchema() {
  v1::GraphSchema schema;
  schema.add_components("nodes");
  schema.add_components("edges");
  return schema;
}

}  // namespace packhouse::client
