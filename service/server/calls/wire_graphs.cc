#include "service/server/calls/wire_graphs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {
namespace {

// DType and v1::DataType list the same types in the same order, the latter from 1.
static_assert(static_cast<int>(DType::kBool) + 1 == v1::DATA_TYPE_BOOL);
static_assert(static_cast<int>(DType::kUint64) + 1 == v1::DATA_TYPE_UINT64);
static_assert(static_cast<int>(DType::kFloat64) + 1 == v1::DATA_TYPE_FLOAT64);
static_assert(v1::DataType_MAX == v1::DATA_TYPE_FLOAT64);

absl::StatusOr<TensorSpec> TensorSpecFromWire(const v1::TensorSpec& wire, const SizeSchema& sizes) {
  const auto component = [&](const std::string& name,
                             absl::string_view field) -> absl::StatusOr<size_t> {
    const std::optional<size_t> k = sizes.IndexOf(name);
    if (k) return *k;
    return absl::InvalidArgumentError(absl::StrCat("schema: tensor ", Quoted(wire.name()), ".",
                                                   field, ": unknown component ", Quoted(name)));
  };
  const std::optional<DType> dtype = DTypeFromWire(wire.dtype());
  if (!dtype) {
    return absl::InvalidArgumentError(absl::StrCat("schema: tensor ", Quoted(wire.name()),
                                                   ".dtype: unknown value ",
                                                   static_cast<int>(wire.dtype())));
  }
  TensorSpec spec;
  spec.name = wire.name();
  spec.dtype = *dtype;
  spec.row_shape.assign(wire.row_shape().begin(), wire.row_shape().end());
  PH_ASSIGN_OR_RETURN(spec.component, component(wire.component(), "component"));
  if (!wire.index_into().empty()) {
    PH_ASSIGN_OR_RETURN(spec.index_into, component(wire.index_into(), "index_into"));
  }
  spec.padding_value = wire.padding_value();
  switch (wire.layout()) {
    case v1::LAYOUT_UNSPECIFIED:
    case v1::LAYOUT_ROWS_FIRST:
      break;
    case v1::LAYOUT_ROWS_LAST:
      spec.layout = Layout::kRowsLast;
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat("schema: tensor ", Quoted(wire.name()),
                                                     ".layout: unknown value ",
                                                     static_cast<int>(wire.layout())));
  }
  return spec;
}

}  // namespace

v1::DataType DTypeToWire(DType dtype) {
  return static_cast<v1::DataType>(static_cast<int>(dtype) + 1);
}

std::optional<DType> DTypeFromWire(v1::DataType wire) {
  if (wire < v1::DATA_TYPE_BOOL || wire > v1::DATA_TYPE_FLOAT64) return std::nullopt;
  return static_cast<DType>(static_cast<int>(wire) - 1);
}

absl::StatusOr<GraphSchema> GraphSchemaFromWire(bool is_set, const v1::GraphSchema& wire) {
  if (!is_set) return GraphSchema::Create(SizeSchema::NodesAndEdges(), {});
  PH_ASSIGN_OR_RETURN(SizeSchema sizes,
                      SizeSchema::Create({wire.components().begin(), wire.components().end()}));
  if (static_cast<size_t>(wire.tensors_size()) > GraphSchema::kMaxTensors) {
    return absl::InvalidArgumentError(absl::StrCat("schema: ", wire.tensors_size(),
                                                   " tensors, at most ", GraphSchema::kMaxTensors));
  }
  std::vector<TensorSpec> tensors;
  for (const v1::TensorSpec& tensor : wire.tensors()) {
    PH_ASSIGN_OR_RETURN(TensorSpec spec, TensorSpecFromWire(tensor, sizes));
    tensors.push_back(std::move(spec));
  }
  return GraphSchema::Create(std::move(sizes), std::move(tensors));
}

void GraphSchemaToWire(const GraphSchema& schema, v1::GraphSchema& wire) {
  wire.Clear();
  for (const std::string& name : schema.sizes().components()) wire.add_components(name);
  for (const TensorSpec& spec : schema.tensors()) {
    v1::TensorSpec& tensor = *wire.add_tensors();
    tensor.set_name(spec.name);
    tensor.set_dtype(DTypeToWire(spec.dtype));
    for (const uint32_t extent : spec.row_shape) tensor.add_row_shape(extent);
    tensor.set_component(std::string(schema.sizes().name(spec.component)));
    if (spec.index_into) {
      tensor.set_index_into(std::string(schema.sizes().name(*spec.index_into)));
    }
    tensor.set_padding_value(spec.padding_value);
    if (spec.layout == Layout::kRowsLast) tensor.set_layout(v1::LAYOUT_ROWS_LAST);
  }
}

absl::StatusOr<GraphChunk> GraphChunkFromWire(const v1::GraphChunk& wire, const GraphSchema* schema,
                                              uint64_t next_id, std::shared_ptr<const void> owner) {
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTableFromWire(wire.sizes(), schema->num_components(), next_id));
  std::vector<std::optional<absl::string_view>> found(schema->tensors().size());
  for (const v1::TensorData& tensor : wire.tensors()) {
    const std::optional<size_t> t = schema->TensorIndex(tensor.name());
    if (!t) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: tensor ", Quoted(tensor.name()), " is not in the schema"));
    }
    if (found[*t]) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: tensor ", Quoted(tensor.name()), " occurs twice"));
    }
    found[*t] = tensor.data();
  }
  std::vector<absl::string_view> columns;
  columns.reserve(found.size());
  for (size_t t = 0; t < found.size(); ++t) {
    if (!found[t]) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: tensor ", Quoted(schema->tensors()[t].name), " is missing"));
    }
    columns.push_back(*found[t]);
  }
  return GraphChunk::Create(schema, std::move(sizes), std::move(columns), std::move(owner));
}

absl::StatusOr<std::vector<uint64_t>> CapacitiesFromWire(const v1::Limits& wire,
                                                         const SizeSchema& schema) {
  std::vector<uint64_t> capacities(schema.num_components() + 1, kUnlimited);
  std::vector<bool> listed(capacities.size(), false);
  for (const v1::Capacity& capacity : wire.capacities()) {
    const std::optional<size_t> k = schema.IndexOf(capacity.component());
    if (!k) {
      return absl::InvalidArgumentError(
          absl::StrCat("limits: unknown component ", Quoted(capacity.component())));
    }
    if (listed[*k]) {
      return absl::InvalidArgumentError(
          absl::StrCat("limits: component ", Quoted(capacity.component()), " is listed twice"));
    }
    listed[*k] = true;
    if (capacity.rows() != 0) capacities[*k] = capacity.rows();
  }
  return capacities;
}

absl::StatusOr<std::vector<uint32_t>> CountsFromWire(
    const google::protobuf::RepeatedPtrField<v1::Capacity>& wire, const SizeSchema& schema,
    absl::string_view field) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if (wire.empty()) return std::vector<uint32_t>();
  std::vector<uint32_t> counts(schema.num_components(), 0);
  std::vector<bool> listed(counts.size(), false);
  for (const v1::Capacity& capacity : wire) {
    const std::string name = absl::CHexEscape(capacity.component().substr(0, 128));
    const std::optional<size_t> k = schema.IndexOf(capacity.component());
    if (!k) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": unknown component '", name, "'"));
    }
    if (*k == schema.num_components()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": '", kGraphs, "' has no bound: every graph is one"));
    }
    if (listed[*k]) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": component '", name, "' is listed twice"));
    }
    if (capacity.rows() > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": component '", name, "': ", capacity.rows(), ", at most ", kMost));
    }
    listed[*k] = true;
    counts[*k] = static_cast<uint32_t>(capacity.rows());
  }
  return counts;
}

void CapacitiesToWire(absl::Span<const uint64_t> capacities, const SizeSchema& schema,
                      v1::Limits& wire) {
  wire.Clear();
  for (size_t k = 0; k < capacities.size(); ++k) {
    v1::Capacity& capacity = *wire.add_capacities();
    capacity.set_component(std::string(schema.name(k)));
    capacity.set_rows(capacities[k] == kUnlimited ? 0 : capacities[k]);
  }
}

absl::StatusOr<Padding> PaddingFromWire(v1::Padding wire) {
  switch (wire) {
    case v1::PADDING_UNSPECIFIED:
    case v1::PADDING_NONE:
      return Padding::kNone;
    case v1::PADDING_MASKED:
      return Padding::kMasked;
    case v1::PADDING_GRAPH:
      return Padding::kGraph;
    case v1::PADDING_TFGNN:
      return Padding::kTfgnn;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("padding: unknown value ", static_cast<int>(wire)));
  }
}

absl::StatusOr<GraphSchema> SchemaOfTargets(
    const SizeSchema& sizes, const google::protobuf::RepeatedPtrField<std::string>& index_targets,
    const google::protobuf::RepeatedPtrField<std::string>& ragged_components) {
  std::vector<TensorSpec> tensors;
  for (const std::string& ragged : ragged_components) {
    const std::optional<size_t> k = sizes.IndexOf(ragged);
    if (!k || *k == sizes.num_components()) {
      return absl::InvalidArgumentError(
          absl::StrCat("ragged_components: ", Quoted(ragged), " is no component of the graphs"));
    }
    if (std::find(index_targets.begin(), index_targets.end(), ragged) != index_targets.end()) {
      return absl::InvalidArgumentError(absl::StrCat("ragged_components: ", Quoted(ragged),
                                                     " is in index_targets, so it is no feature"));
    }
    for (const TensorSpec& other : tensors) {
      if (other.component != *k) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("ragged_components: ", Quoted(ragged), " is listed twice"));
    }
    TensorSpec tensor;
    tensor.name = ragged;
    tensor.dtype = DType::kUint8;
    tensor.component = *k;
    tensors.push_back(std::move(tensor));
  }
  for (const std::string& target : index_targets) {
    const std::optional<size_t> k = sizes.IndexOf(target);
    if (!k || *k == sizes.num_components()) {
      return absl::InvalidArgumentError(
          absl::StrCat("index_targets: ", Quoted(target), " is no component of the graphs"));
    }
    for (const TensorSpec& other : tensors) {
      if (other.index_into != k) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("index_targets: ", Quoted(target), " is listed twice"));
    }
    TensorSpec tensor;
    tensor.name = absl::StrCat("into/", *k);
    tensor.dtype = DType::kInt64;
    tensor.component = *k;
    tensor.index_into = *k;
    tensors.push_back(std::move(tensor));
  }
  return GraphSchema::Create(sizes, std::move(tensors));
}

v1::Padding PaddingToWire(Padding padding) {
  switch (padding) {
    case Padding::kMasked:
      return v1::PADDING_MASKED;
    case Padding::kGraph:
      return v1::PADDING_GRAPH;
    case Padding::kTfgnn:
      return v1::PADDING_TFGNN;
    case Padding::kNone:
      break;
  }
  return v1::PADDING_NONE;
}

absl::StatusOr<IntegerWidth> IntegerWidthFromWire(v1::IntegerWidth wire, bool whole_graphs) {
  switch (wire) {
    case v1::INTEGER_WIDTH_UNSPECIFIED:
    case v1::INTEGER_WIDTH_DECLARED:
      return IntegerWidth::kDeclared;
    case v1::INTEGER_WIDTH_COMPACT:
      if (whole_graphs) return IntegerWidth::kCompact;
      return absl::InvalidArgumentError("integer_width: only for whole graphs");
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("integer_width: unknown value ", static_cast<int>(wire)));
  }
}

absl::StatusOr<DerivedTensors> DerivedFromWire(const google::protobuf::RepeatedField<int>& wire) {
  DerivedTensors derived;
  for (const int value : wire) {
    switch (value) {
      case v1::DERIVED_TENSOR_ROW_COUNTS:
        derived.row_counts = true;
        break;
      case v1::DERIVED_TENSOR_GRAPH_INDEX:
        derived.graph_index = true;
        break;
      case v1::DERIVED_TENSOR_ROW_OFFSETS:
        derived.row_offsets = true;
        break;
      case v1::DERIVED_TENSOR_MASKS:
        derived.masks = true;
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat("derived: unknown value ", value));
    }
  }
  return derived;
}

absl::StatusOr<bool> CarriesGraphs(v1::Payload payload, const GraphSchema& schema) {
  switch (payload) {
    case v1::PAYLOAD_UNSPECIFIED:
      return !schema.tensors().empty();
    case v1::PAYLOAD_GRAPHS:
      return true;
    case v1::PAYLOAD_SIZES:
      return false;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("payload: unknown value ", static_cast<int>(payload)));
  }
}

absl::StatusOr<OversizeRule> OversizeRuleFromWire(v1::OversizePolicy policy) {
  switch (policy) {
    case v1::OVERSIZE_POLICY_UNSPECIFIED:
    case v1::OVERSIZE_POLICY_REJECT:
      return OversizeRule::kReject;
    case v1::OVERSIZE_POLICY_ERROR:
      return OversizeRule::kError;
    case v1::OVERSIZE_POLICY_PARTITION:
      return OversizeRule::kCut;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("oversize_policy: unknown value ", static_cast<int>(policy)));
  }
}

void BatchToWire(const Batch& batch, uint64_t id, v1::Batch& wire) {
  wire.Clear();
  wire.set_id(id);
  wire.set_step(id);
  wire.set_graph_ids(Uint64sToWire(batch.graph_ids));
  wire.set_sizes(Uint32sToWire(batch.sizes));
  wire.mutable_real_rows()->Add(batch.real_rows.begin(), batch.real_rows.end());
  wire.mutable_rows()->Add(batch.rows.begin(), batch.rows.end());
}

}  // namespace packhouse
