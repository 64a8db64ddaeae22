#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "service/wings/tfgnn/readout_structure.h"
#include "tensorflow/core/framework/types.pb.h"

namespace packhouse::tfgnn {
namespace {

using FeatureProto = tensorflow_gnn::Feature;

// One feature of a schema, and where it is.
struct Place {
  // `context`, `node set 'a'` or `edge set 'e'`.
  std::string set;
  const std::string* name;
  const FeatureProto* feature;

  template <typename... Parts>
  absl::Status Invalid(const Parts&... parts) const {
    return absl::InvalidArgumentError(
        absl::StrCat("graph schema: ", set, ": feature ", Quoted(*name), ": ", parts...));
  }
};

// The keys of a protobuf map in ascending order.
template <typename Map>
std::vector<const std::string*> SortedKeys(const Map& map) {
  std::vector<const std::string*> keys;
  for (const auto& [key, value] : map) keys.push_back(&key);
  std::sort(keys.begin(), keys.end(),
            [](const std::string* a, const std::string* b) { return *a < *b; });
  return keys;
}

template <typename Map>
void AddFeatures(const std::string& set, const Map& features, std::vector<Place>& places) {
  for (const std::string* const name : SortedKeys(features)) {
    places.push_back({set, name, &features.at(*name)});
  }
}

std::string NodeSetText(const std::string& name) { return absl::StrCat("node set ", Quoted(name)); }
std::string EdgeSetText(const std::string& name) { return absl::StrCat("edge set ", Quoted(name)); }

// Features of the context, then of node sets, then of edge sets.
std::vector<Place> AllFeatures(const tensorflow_gnn::GraphSchema& schema) {
  std::vector<Place> places;
  AddFeatures("context", schema.context().features(), places);
  for (const std::string* const name : SortedKeys(schema.node_sets())) {
    AddFeatures(NodeSetText(*name), schema.node_sets().at(*name).features(), places);
  }
  for (const std::string* const name : SortedKeys(schema.edge_sets())) {
    AddFeatures(EdgeSetText(*name), schema.edge_sets().at(*name).features(), places);
  }
  return places;
}

absl::Status CheckDtype(const Place& place) {
  switch (place.feature->dtype()) {
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_DOUBLE:
    case tensorflow::DT_INT32:
    case tensorflow::DT_UINT8:
    case tensorflow::DT_INT16:
    case tensorflow::DT_INT8:
    case tensorflow::DT_STRING:
    case tensorflow::DT_INT64:
    case tensorflow::DT_BOOL:
    case tensorflow::DT_BFLOAT16:
    case tensorflow::DT_UINT16:
    case tensorflow::DT_HALF:
    case tensorflow::DT_UINT32:
    case tensorflow::DT_UINT64:
    case tensorflow::DT_FLOAT8_E5M2:
    case tensorflow::DT_FLOAT8_E4M3FN:
    case tensorflow::DT_INT4:
    case tensorflow::DT_UINT4:
      return absl::OkStatus();
    case tensorflow::DT_INVALID:
      return place.Invalid("the dtype is missing");
    default:
      break;
  }
  const std::string& name = tensorflow::DataType_Name(place.feature->dtype());
  return place.Invalid("dtype ", name.empty() ? absl::StrCat(place.feature->dtype()) : name,
                       " is not bool, an integer, a float or a string");
}

absl::Status CheckDescription(const Place& place) {
  if (place.feature->has_description()) return absl::OkStatus();
  for (const auto& dim : place.feature->shape().dim()) {
    if (!dim.name().empty()) {
      return place.Invalid("a dimension has the name ", Quoted(dim.name()),
                           " and the feature has no description: a description belongs into "
                           "`description`");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReserved(const Place& place) {
  const bool is_edge_set = absl::StartsWith(place.set, "edge set");
  const std::string& name = *place.name;
  if (place.set != "context" &&
      (name == "#size" || (is_edge_set && (name == "#source" || name == "#target")))) {
    return place.Invalid("the name is reserved");
  }
  return absl::OkStatus();
}

template <typename Map>
absl::Status CheckContextReferences(const Map& sets, const tensorflow_gnn::GraphSchema& schema,
                                    const std::function<std::string(const std::string&)>& text) {
  for (const std::string* const name : SortedKeys(sets)) {
    for (const std::string& feature : sets.at(*name).context()) {
      if (!schema.context().features().contains(feature)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "graph schema: ", text(*name), ": there is no context feature ", Quoted(feature)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEdgeSets(const tensorflow_gnn::GraphSchema& schema) {
  for (const std::string* const name : SortedKeys(schema.edge_sets())) {
    const tensorflow_gnn::EdgeSet& edges = schema.edge_sets().at(*name);
    const auto invalid = [&](const auto&... parts) {
      return absl::InvalidArgumentError(
          absl::StrCat("graph schema: ", EdgeSetText(*name), ": ", parts...));
    };
    if (name->empty()) return invalid("the name is empty");
    if (edges.source().empty()) return invalid("there is no source");
    if (edges.target().empty()) return invalid("there is no target");
    for (const std::string& end : {edges.source(), edges.target()}) {
      if (!schema.node_sets().contains(end)) return invalid("there is no node set ", Quoted(end));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReadouts(const tensorflow_gnn::GraphSchema& schema, bool check_tagged) {
  SetNames names;
  for (const std::string* const name : SortedKeys(schema.node_sets())) {
    names.node_sets.push_back(*name);
  }
  for (const std::string* const name : SortedKeys(schema.edge_sets())) {
    const tensorflow_gnn::EdgeSet& edges = schema.edge_sets().at(*name);
    names.edge_sets.push_back({*name, edges.source(), edges.target()});
  }
  for (const std::string& name : names.node_sets) {
    if (name == kReadout || (check_tagged && IsReadoutSet(name))) {
      PH_RETURN_IF_ERROR(FindReadout(names, name).status());
    }
  }
  return absl::OkStatus();
}

std::string ShapeText(const FeatureProto& feature) {
  return absl::StrCat(
      "[",
      absl::StrJoin(feature.shape().dim(), ", ",
                    [](std::string* out, const auto& dim) { absl::StrAppend(out, dim.size()); }),
      "]");
}

absl::Status CheckRequired(const Place& required, const FeatureProto* actual) {
  if (actual == nullptr) return required.Invalid("is required and missing");
  const FeatureProto& feature = *required.feature;
  if (feature.has_dtype() && feature.dtype() != actual->dtype()) {
    return required.Invalid("dtype ", tensorflow::DataType_Name(actual->dtype()), ", required is ",
                            tensorflow::DataType_Name(feature.dtype()));
  }
  if (!feature.has_shape()) return absl::OkStatus();
  const auto& dims = feature.shape().dim();
  bool is_equal = dims.size() == actual->shape().dim_size();
  for (int i = 0; is_equal && i < dims.size(); ++i) {
    is_equal = dims[i].size() == 0 || dims[i].size() == actual->shape().dim(i).size();
  }
  if (is_equal) return absl::OkStatus();
  return required.Invalid("shape ", ShapeText(*actual), ", required is ", ShapeText(feature));
}

template <typename Sets>
const FeatureProto* FindIn(const Sets& sets, const std::string& set, const std::string& feature) {
  const auto found = sets.find(set);
  if (found == sets.end()) return nullptr;
  const auto& features = found->second.features();
  const auto at = features.find(feature);
  return at == features.end() ? nullptr : &at->second;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ValidateGraphSchema(
    const tensorflow_gnn::GraphSchema& schema, bool check_tagged_readouts) {
  const std::vector<Place> features = AllFeatures(schema);
  for (const Place& place : features) PH_RETURN_IF_ERROR(CheckDtype(place));
  for (const Place& place : features) {
    if (place.feature->shape().unknown_rank()) return place.Invalid("the shape has unknown_rank");
  }
  for (const Place& place : features) PH_RETURN_IF_ERROR(CheckDescription(place));
  for (const Place& place : features) PH_RETURN_IF_ERROR(CheckReserved(place));
  PH_RETURN_IF_ERROR(CheckContextReferences(schema.node_sets(), schema, NodeSetText));
  PH_RETURN_IF_ERROR(CheckContextReferences(schema.edge_sets(), schema, EdgeSetText));
  PH_RETURN_IF_ERROR(CheckEdgeSets(schema));
  PH_RETURN_IF_ERROR(CheckReadouts(schema, check_tagged_readouts));
  for (const std::string& root : schema.info().root_set()) {
    if (!schema.node_sets().contains(root)) {
      return absl::InvalidArgumentError(
          absl::StrCat("graph schema: info: root_set ", Quoted(root), " is no node set"));
    }
  }
  std::vector<std::string> warnings;
  for (const Place& place : features) {
    const auto& shape = place.feature->shape();
    if (shape.dim_size() != 1 || shape.dim(0).size() != 1) continue;
    warnings.push_back(absl::StrCat(place.set, ": feature ", Quoted(*place.name),
                                    " has the shape [1]; a scalar, without a shape, is meant "
                                    "more often"));
  }
  return warnings;
}

absl::Status CheckRequiredFeatures(const tensorflow_gnn::GraphSchema& required,
                                   const tensorflow_gnn::GraphSchema& actual) {
  const auto check = [](const Place& place, const FeatureProto* found) {
    return CheckRequired(place, found);
  };
  std::vector<Place> places;
  AddFeatures("context", required.context().features(), places);
  for (const Place& place : places) {
    const auto found = actual.context().features().find(*place.name);
    const bool is_there = found != actual.context().features().end();
    PH_RETURN_IF_ERROR(check(place, is_there ? &found->second : nullptr));
  }
  for (const std::string* const set : SortedKeys(required.node_sets())) {
    places.clear();
    AddFeatures(NodeSetText(*set), required.node_sets().at(*set).features(), places);
    for (const Place& place : places) {
      PH_RETURN_IF_ERROR(check(place, FindIn(actual.node_sets(), *set, *place.name)));
    }
  }
  for (const std::string* const set : SortedKeys(required.edge_sets())) {
    places.clear();
    AddFeatures(EdgeSetText(*set), required.edge_sets().at(*set).features(), places);
    for (const Place& place : places) {
      PH_RETURN_IF_ERROR(check(place, FindIn(actual.edge_sets(), *set, *place.name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse::tfgnn
