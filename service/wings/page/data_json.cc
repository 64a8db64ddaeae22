#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/server/calls/wire_graphs.h"
#include "service/wings/page/page_json.h"

namespace packhouse::page {
namespace {

// "float32".
std::string NameOf(v1::DataType type) {
  const std::optional<DType> dtype = DTypeFromWire(type);
  return std::string(dtype ? DTypeName(*dtype) : "");
}

std::string WithoutPrefix(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

Json ColumnsJson(const google::protobuf::RepeatedPtrField<v1::SourceColumn>& columns) {
  Json all = Json::array();
  for (const v1::SourceColumn& column : columns) {
    all.push_back(
        {{"name", column.name()},
         {"dtype", column.text() ? "text" : NameOf(column.dtype())},
         {"row_shape", std::vector<uint32_t>(column.row_shape().begin(), column.row_shape().end())},
         {"ragged", column.ragged()}});
  }
  return all;
}

}  // namespace

Json BytesPerRowJson(const v1::GraphSchema& schema) {
  std::map<std::string, uint64_t> bytes;
  for (const v1::TensorSpec& tensor : schema.tensors()) {
    const std::optional<DType> dtype = DTypeFromWire(tensor.dtype());
    uint64_t row = dtype ? ElementBytes(*dtype) : 0;
    for (const uint32_t extent : tensor.row_shape()) row *= extent;
    bytes[tensor.component()] += row;
  }
  Json all = Json::object();
  for (const std::string& component : schema.components()) all[component] = bytes[component];
  all["graphs"] = bytes["graphs"];
  return all;
}

Json DatasetJson(const v1::Dataset& dataset) {
  Json tensors = Json::array();
  for (const v1::TensorSpec& tensor : dataset.schema().tensors()) {
    tensors.push_back(
        {{"name", tensor.name()},
         {"dtype", NameOf(tensor.dtype())},
         {"row_shape", std::vector<uint32_t>(tensor.row_shape().begin(), tensor.row_shape().end())},
         {"component", tensor.component()},
         {"index_into", tensor.index_into()}});
  }
  const auto& components = dataset.schema().components();
  return {{"name", dataset.name()},
          {"state", WithoutPrefix(v1::DatasetState_Name(dataset.state()), "DATASET_STATE_")},
          {"version", std::to_string(dataset.version())},
          {"graphs", dataset.num_graphs()},
          {"bytes", dataset.num_bytes()},
          {"max_bytes", dataset.max_bytes() == 0 ? Json() : Json(dataset.max_bytes())},
          {"grouped", dataset.grouped()},
          {"components", std::vector<std::string>(components.begin(), components.end())},
          {"tensors", std::move(tensors)},
          {"bytes_per_row", BytesPerRowJson(dataset.schema())}};
}

Json DriftJson(const v1::DatasetDrift& drift) {
  Json components = Json::array();
  for (const v1::DatasetDrift::Component& each : drift.components()) {
    components.push_back({{"component", each.component()},
                          {"before", each.reference_mean()},
                          {"after", each.mean()}});
  }
  return {{"first_graph", drift.first_graph()},
          {"found_graph", drift.found_graph()},
          {"changes", drift.num_changes()},
          {"components", std::move(components)}};
}

Json MeasuredModelJson(const v1::DeviceModel& model) {
  Json components = Json::array();
  for (const v1::DeviceModel::Component& each : model.components()) {
    components.push_back({{"component", each.component()},
                          {"seconds", each.seconds_per_row()},
                          {"bytes", each.bytes_per_row()}});
  }
  return {{"model", model.model()},
          {"device", model.device()},
          {"reports", model.num_reports()},
          {"out_of_memory", model.num_out_of_memory()},
          {"fixed_seconds", model.fixed_seconds()},
          {"least_seconds", model.least_seconds()},
          {"spread", model.spread()},
          {"fixed_bytes", model.fixed_bytes()},
          {"most_bytes", model.most_bytes() == 0 ? Json() : Json(model.most_bytes())},
          {"components", std::move(components)}};
}

Json SourceGraphJson(const v1::SourceGraph& graph) {
  Json node_sets = Json::array();
  for (int i = 0; i < graph.schema().node_sets_size(); ++i) {
    const v1::SourceNodeSet& set = graph.schema().node_sets(i);
    node_sets.push_back({{"name", set.name()},
                         {"rows", i < graph.num_nodes_size() ? graph.num_nodes(i) : 0},
                         {"ids", set.id_kind() == v1::NODE_ID_KIND_TEXT ? "text" : "integer"},
                         {"columns", ColumnsJson(set.columns())}});
  }
  Json edge_sets = Json::array();
  for (int i = 0; i < graph.schema().edge_sets_size(); ++i) {
    const v1::SourceEdgeSet& set = graph.schema().edge_sets(i);
    edge_sets.push_back({{"name", set.name()},
                         {"rows", i < graph.num_edges_size() ? graph.num_edges(i) : 0},
                         {"source", set.source()},
                         {"target", set.target()},
                         {"reverse_of", set.reverse_of()},
                         {"columns", ColumnsJson(set.columns())}});
  }
  return {{"name", graph.name()},
          {"state", WithoutPrefix(v1::SourceGraphState_Name(graph.state()), "SOURCE_GRAPH_STATE_")},
          {"version", std::to_string(graph.version())},
          {"bytes", graph.num_bytes()},
          {"max_bytes", graph.max_bytes() == 0 ? Json() : Json(graph.max_bytes())},
          {"node_sets", std::move(node_sets)},
          {"edge_sets", std::move(edge_sets)}};
}

Json QuotasJson(const std::vector<QuotaReading>& readings,
                const std::function<bool(const std::string& where)>& may_see) {
  std::map<std::string, Json> by_namespace;
  for (const QuotaReading& reading : readings) {
    if (!may_see(reading.where)) continue;
    by_namespace[reading.where].push_back(
        {{"quota", reading.quota}, {"used", reading.used}, {"most", reading.limit}});
  }
  Json all = Json::array();
  for (auto& [where, quotas] : by_namespace) {
    all.push_back({{"namespace", where}, {"quotas", std::move(quotas)}});
  }
  return all;
}

}  // namespace packhouse::page
