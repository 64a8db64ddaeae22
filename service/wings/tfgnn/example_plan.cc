#include "service/wings/tfgnn/example_plan.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/tensor_names.h"

namespace packhouse::tfgnn {
namespace {

template <typename... Parts>
absl::Status CannotCome(const TensorSpec& tensor, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("schema: tensor ", Quoted(tensor.name), ": ", parts...));
}

absl::Status CheckTensors(const GraphSets& sets) {
  const absl::Span<const TensorSpec> tensors = sets.schema().tensors();
  std::vector<bool> is_end(tensors.size());
  for (const EdgeSet& edges : sets.edge_sets()) {
    for (const size_t t : {edges.source, edges.target}) {
      is_end[t] = true;
      if (edges.source != edges.target && tensors[t].dtype == DType::kInt32) continue;
      return CannotCome(tensors[t],
                        "the ends of edges come from tf.Examples as two tensors of int32, source "
                        "and target");
    }
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].index_into && !is_end[t]) {
      return CannotCome(tensors[t],
                        "an index tensor that is no end of edges does not come from tf.Examples");
    }
    if (tensors[t].layout != Layout::kRowsFirst) {
      return CannotCome(tensors[t], "the layout rows last does not come from tf.Examples");
    }
  }
  return absl::OkStatus();
}

uint64_t Product(const std::vector<uint32_t>& row_shape) {
  uint64_t product = 1;
  for (const uint32_t extent : row_shape) product *= extent;
  return product;
}

ListKind KindOf(const Feature& feature) {
  if (feature.is_text) return ListKind::kBytes;
  return IsInteger(feature.dtype) || feature.dtype == DType::kBool ? ListKind::kInt64s
                                                                   : ListKind::kFloats;
}

absl::StatusOr<FeaturePart> FeaturePartOf(const Feature& feature, const std::string& key,
                                          const GraphSchema& schema, ExampleFields& fields) {
  FeaturePart part;
  part.key = fields.AddKey(key);
  part.kind = KindOf(feature);
  part.tensor = feature.values;
  part.dtype = feature.dtype;
  part.is_text = feature.is_text;
  part.per_row = Product(schema.tensors()[feature.values].row_shape);
  for (size_t i = 0; i < feature.ragged.size(); ++i) {
    const RaggedDimension& ragged = feature.ragged[i];
    const TensorSpec& tensor = schema.tensors()[ragged.lengths];
    if (tensor.dtype != DType::kInt32) {
      return CannotCome(tensor, "lengths come from tf.Examples as int32, not ",
                        DTypeName(tensor.dtype));
    }
    const bool is_last = i + 1 == feature.ragged.size();
    LengthsPart lengths;
    if (!is_last || !feature.is_text) {
      lengths.key = fields.AddKey(LengthsName(key, ragged.number));
    }
    lengths.tensor = ragged.lengths;
    lengths.per_row = Product(tensor.row_shape);
    const size_t next = is_last ? feature.values : feature.ragged[i + 1].lengths;
    lengths.component = schema.tensors()[next].component;
    part.lengths.push_back(lengths);
  }
  return part;
}

absl::Status AddFeatures(const RowSet& set, const std::string& prefix, const GraphSchema& schema,
                         ExampleFields& fields, SetPart& part) {
  part.component = set.component;
  for (const Feature& feature : set.features) {
    PH_ASSIGN_OR_RETURN(FeaturePart added,
                        FeaturePartOf(feature, prefix + feature.name, schema, fields));
    part.features.push_back(std::move(added));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExamplePlan> ExamplePlan::Make(const GraphSets& sets, absl::string_view prefix,
                                              ExampleFields& fields) {
  PH_RETURN_IF_ERROR(CheckTensors(sets));
  ExamplePlan plan;
  plan.context.text = "the context";
  PH_RETURN_IF_ERROR(AddFeatures(sets.context(), absl::StrCat(prefix, "context/"), sets.schema(),
                                 fields, plan.context));
  for (const RowSet& set : sets.node_sets()) {
    const std::string before = absl::StrCat(prefix, "nodes/", set.name, ".");
    SetPart part;
    part.text = absl::StrCat("node set ", Quoted(set.name));
    part.size_key = fields.AddKey(before + "#size");
    PH_RETURN_IF_ERROR(AddFeatures(set, before, sets.schema(), fields, part));
    plan.node_sets.push_back(std::move(part));
  }
  for (const EdgeSet& set : sets.edge_sets()) {
    const std::string before = absl::StrCat(prefix, "edges/", set.name, ".");
    EdgePart part;
    part.text = absl::StrCat("edge set ", Quoted(set.name));
    part.size_key = fields.AddKey(before + "#size");
    part.ends[0] = {fields.AddKey(before + "#source"), set.source, set.source_set};
    part.ends[1] = {fields.AddKey(before + "#target"), set.target, set.target_set};
    PH_RETURN_IF_ERROR(AddFeatures(set, before, sets.schema(), fields, part));
    plan.edge_sets.push_back(std::move(part));
  }
  return plan;
}

}  // namespace packhouse::tfgnn
