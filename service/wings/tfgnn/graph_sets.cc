#include "service/wings/tfgnn/graph_sets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "service/wings/tfgnn/tensor_names.h"
#include "tensorflow/core/framework/types.pb.h"

namespace packhouse::tfgnn {
namespace {

// TF-GNN's types that packhouse has, but strings.
constexpr std::pair<tensorflow::DataType, DType> kDtypes[] = {
    {tensorflow::DT_BOOL, DType::kBool},         {tensorflow::DT_INT8, DType::kInt8},
    {tensorflow::DT_INT16, DType::kInt16},       {tensorflow::DT_INT32, DType::kInt32},
    {tensorflow::DT_INT64, DType::kInt64},       {tensorflow::DT_UINT8, DType::kUint8},
    {tensorflow::DT_UINT16, DType::kUint16},     {tensorflow::DT_UINT32, DType::kUint32},
    {tensorflow::DT_UINT64, DType::kUint64},     {tensorflow::DT_HALF, DType::kFloat16},
    {tensorflow::DT_BFLOAT16, DType::kBfloat16}, {tensorflow::DT_FLOAT, DType::kFloat32},
    {tensorflow::DT_DOUBLE, DType::kFloat64},
};

template <typename Map>
std::vector<std::string> NamesIn(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

// The tensors of a schema as they are made, their components by name.
class SchemaMaker {
 public:
  void AddComponent(const std::string& name) { components_.push_back(name); }

  void Add(std::string name, DType dtype, const std::string& component,
           std::vector<uint32_t> row_shape, std::string index_into = "") {
    tensors_.push_back(
        {std::move(name), dtype, std::move(row_shape), 0, std::nullopt, "", Layout::kRowsFirst});
    grows_along_.push_back(component);
    index_into_.push_back(std::move(index_into));
  }

  // `tensor_name` is what the feature's tensor is called, without the ending for strings.
  absl::Status AddFeature(const std::string& where, std::string tensor_name, std::string component,
                          const tensorflow_gnn::Feature& feature);

  absl::StatusOr<GraphSchema> Make() && {
    PH_ASSIGN_OR_RETURN(SizeSchema sizes, SizeSchema::Create(std::move(components_)));
    for (size_t t = 0; t < tensors_.size(); ++t) {
      // Every component that a tensor names was added, or is `graphs`.
      tensors_[t].component = *sizes.IndexOf(grows_along_[t]);
      if (!index_into_[t].empty()) tensors_[t].index_into = sizes.IndexOf(index_into_[t]);
    }
    return GraphSchema::Create(std::move(sizes), std::move(tensors_));
  }

 private:
  std::vector<std::string> components_;
  std::vector<TensorSpec> tensors_;
  std::vector<std::string> grows_along_;
  std::vector<std::string> index_into_;
};

absl::Status SchemaMaker::AddFeature(const std::string& where, std::string tensor_name,
                                     std::string component,
                                     const tensorflow_gnn::Feature& feature) {
  const auto invalid = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("graph schema: ", where, ": ", parts...));
  };
  std::vector<int64_t> dims;
  for (const auto& dim : feature.shape().dim()) dims.push_back(dim.size());
  DType dtype = DType::kUint8;
  if (feature.dtype() == tensorflow::DT_STRING) {
    absl::StrAppend(&tensor_name, kBytesEnding);
    dims.push_back(-1);
  } else {
    const auto found = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const auto& pair) {
      return pair.first == feature.dtype();
    });
    if (found == std::end(kDtypes)) {
      return invalid("packhouse has no dtype ", tensorflow::DataType_Name(feature.dtype()));
    }
    dtype = found->second;
  }
  // The row shape of the next tensor.
  std::vector<uint32_t> fixed;
  // Tensors of lengths after the first, and the values, each grow along a component of their own
  // name. Which name a tensor has depends on what comes after it, so names are known in advance.
  std::vector<std::string> names;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) names.push_back(LengthsName(tensor_name, i + 1));
  }
  names.push_back(tensor_name);
  size_t next = 0;
  for (const int64_t dim : dims) {
    if (dim < -1 || dim == 0 || dim > std::numeric_limits<uint32_t>::max()) {
      return invalid("a dimension of ", dim, " is neither -1 (ragged) nor from 1 to 2^32 - 1");
    }
    if (dim != -1) {
      fixed.push_back(static_cast<uint32_t>(dim));
      continue;
    }
    Add(names[next], DType::kInt32, component, std::move(fixed));
    fixed.clear();
    component = names[++next];
    AddComponent(component);
  }
  Add(tensor_name, dtype, component, std::move(fixed));
  return absl::OkStatus();
}

template <typename Features>
absl::Status AddFeatures(const std::string& set_text, const std::string& prefix,
                         const std::string& component, const Features& features,
                         SchemaMaker& maker) {
  for (const std::string& name : NamesIn(features)) {
    PH_RETURN_IF_ERROR(maker.AddFeature(absl::StrCat(set_text, ": feature ", Quoted(name)),
                                        absl::StrCat(prefix, name), component, features.at(name)));
  }
  return absl::OkStatus();
}

// What a set or a feature is called, and of which type and shape: what must survive the way to a
// packhouse schema and back.
std::vector<std::string> Meaning(const tensorflow_gnn::GraphSchema& schema) {
  std::vector<std::string> lines;
  const auto add = [&lines](const std::string& set, const auto& features) {
    lines.push_back(set);
    for (const std::string& name : NamesIn(features)) {
      const tensorflow_gnn::Feature& feature = features.at(name);
      std::string line = absl::StrCat(set, ": feature ", Quoted(name), " of ",
                                      tensorflow::DataType_Name(feature.dtype()), "[");
      for (const auto& dim : feature.shape().dim()) absl::StrAppend(&line, dim.size(), ",");
      lines.push_back(line + "]");
    }
  };
  add("context", schema.context().features());
  for (const std::string& name : NamesIn(schema.node_sets())) {
    add(absl::StrCat("node set ", Quoted(name)), schema.node_sets().at(name).features());
  }
  for (const std::string& name : NamesIn(schema.edge_sets())) {
    const tensorflow_gnn::EdgeSet& edges = schema.edge_sets().at(name);
    add(absl::StrCat("edge set ", Quoted(name), " from ", Quoted(edges.source()), " to ",
                     Quoted(edges.target())),
        edges.features());
  }
  return lines;
}

void AddFeatureTo(const Feature& feature, tensorflow_gnn::Feature& proto) {
  if (feature.is_text) {
    proto.set_dtype(tensorflow::DT_STRING);
  } else {
    for (const auto& [tf, ours] : kDtypes) {
      if (ours == feature.dtype) proto.set_dtype(tf);
    }
  }
  for (const int64_t dim : feature.shape) proto.mutable_shape()->add_dim()->set_size(dim);
}

}  // namespace

absl::StatusOr<GraphSets> GraphSets::FromTfgnn(const tensorflow_gnn::GraphSchema& schema) {
  PH_RETURN_IF_ERROR(ValidateGraphSchema(schema).status());
  SchemaMaker maker;
  const std::vector<std::string> node_sets = NamesIn(schema.node_sets());
  const std::vector<std::string> edge_sets = NamesIn(schema.edge_sets());
  for (const std::string& name : node_sets) maker.AddComponent(name);
  for (const std::string& name : edge_sets) {
    if (schema.node_sets().contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("graph schema: there are a node set and an edge set ", Quoted(name),
                       ", which would be one component"));
    }
    maker.AddComponent(name);
  }
  PH_RETURN_IF_ERROR(
      AddFeatures("context", "", std::string(kGraphs), schema.context().features(), maker));
  for (const std::string& name : node_sets) {
    PH_RETURN_IF_ERROR(AddFeatures(absl::StrCat("node set ", Quoted(name)), name + ".", name,
                                   schema.node_sets().at(name).features(), maker));
  }
  for (const std::string& name : edge_sets) {
    const tensorflow_gnn::EdgeSet& edges = schema.edge_sets().at(name);
    const bool is_taken =
        edges.features().contains("source") || edges.features().contains("target");
    const std::string prefix = is_taken ? name + ".#" : name + ".";
    maker.Add(prefix + "source", DType::kInt32, name, {}, edges.source());
    maker.Add(prefix + "target", DType::kInt32, name, {}, edges.target());
    PH_RETURN_IF_ERROR(AddFeatures(absl::StrCat("edge set ", Quoted(name)), name + ".", name,
                                   edges.features(), maker));
  }
  PH_ASSIGN_OR_RETURN(GraphSchema ours, std::move(maker).Make());
  PH_ASSIGN_OR_RETURN(GraphSets sets, FromSchema(std::move(ours)));
  const std::vector<std::string> wanted = Meaning(schema);
  const std::vector<std::string> got = Meaning(sets.ToTfgnn());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i < got.size() && got[i] == wanted[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("graph schema: ", wanted[i], ": by its name it would be ",
                     i < got.size() ? got[i] : "nothing", " in a packhouse schema"));
  }
  return sets;
}

absl::StatusOr<GraphSets> GraphSets::FromTfgnnFile(absl::string_view bytes) {
  PH_ASSIGN_OR_RETURN(const tensorflow_gnn::GraphSchema schema, ParseGraphSchema(bytes));
  return FromTfgnn(schema);
}

tensorflow_gnn::GraphSchema GraphSets::ToTfgnn() const {
  tensorflow_gnn::GraphSchema schema;
  for (const Feature& feature : context_.features) {
    AddFeatureTo(feature, (*schema.mutable_context()->mutable_features())[feature.name]);
  }
  for (const RowSet& nodes : node_sets_) {
    tensorflow_gnn::NodeSet& proto = (*schema.mutable_node_sets())[nodes.name];
    for (const Feature& feature : nodes.features) {
      AddFeatureTo(feature, (*proto.mutable_features())[feature.name]);
    }
  }
  for (const EdgeSet& edges : edge_sets_) {
    tensorflow_gnn::EdgeSet& proto = (*schema.mutable_edge_sets())[edges.name];
    proto.set_source(node_sets_[edges.source_set].name);
    proto.set_target(node_sets_[edges.target_set].name);
    for (const Feature& feature : edges.features) {
      AddFeatureTo(feature, (*proto.mutable_features())[feature.name]);
    }
  }
  return schema;
}

std::string GraphSets::ToTfgnnText() const { return GraphSchemaText(ToTfgnn()); }

}  // namespace packhouse::tfgnn
