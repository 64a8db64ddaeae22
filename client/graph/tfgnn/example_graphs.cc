#include "client/graph/tfgnn/example_graphs.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/graph/files/input_file.h"
#include "client/graph/tfgnn/tfrecord_files.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/in_file.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/number_lists.h"
#include "service/wings/tfgnn/row_builder.h"

namespace packhouse::client {
namespace {

Json ElementJson(DType dtype, const char* element) {
  const auto load = [element](auto value) {
    std::memcpy(&value, element, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kBool:
      return *element != 0;
    case DType::kFloat16:
      return tfgnn::FloatOfFloat16(load(uint16_t{}));
    case DType::kBfloat16:
      return tfgnn::FloatOfBfloat16(load(uint16_t{}));
    case DType::kFloat32:
      return load(float{});
    case DType::kFloat64:
      return load(double{});
    default:
      return WithIndexType(dtype, [&](auto zero) { return Json(load(zero)); });
  }
}

// Lists of the items of `items`: the first length has so many of them, and so on.
Json GroupedBy(const std::vector<std::size_t>& lengths, Json items) {
  Json lists = Json::array();
  std::size_t at = 0;
  for (const std::size_t length : lengths) {
    Json list = Json::array();
    for (std::size_t j = 0; j < length && at < items.size(); ++j) {
      list.push_back(std::move(items[at++]));
    }
    lists.push_back(std::move(list));
  }
  return lists;
}

std::vector<std::size_t> LengthsOf(const GraphChunk& chunk, std::size_t i, std::size_t t) {
  const DType dtype = chunk.schema().tensors()[t].dtype;
  const absl::string_view rows = chunk.rows(i, t);
  std::vector<std::size_t> lengths(rows.size() / ElementBytes(dtype));
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    lengths[at] = static_cast<std::size_t>(IndexValueAt(dtype, rows, at));
  }
  return lengths;
}

Json IndicesJson(const GraphChunk& chunk, std::size_t i, std::size_t t) {
  Json list = Json::array();
  for (const std::size_t index : LengthsOf(chunk, i, t)) list.push_back(index);
  return list;
}

}  // namespace

absl::StatusOr<tfgnn::GraphSets> ReadGraphSets(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadInputFile(path));
  absl::StatusOr<tfgnn::GraphSets> sets = tfgnn::GraphSets::FromTfgnnFile(bytes);
  if (!sets.ok()) return InFile(path, sets.status());
  return sets;
}

absl::Status ForEachExample(
    const tfgnn::GraphSets& sets, const ExamplesToRead& examples,
    absl::FunctionRef<absl::Status(const GraphChunk& graph, absl::string_view record)> take) {
  std::vector<std::string> paths;
  for (const std::string& pattern : examples.patterns) {
    absl::StatusOr<std::vector<std::string>> files = FilesOf(pattern);
    if (!files.ok()) return files.status();
    paths.insert(paths.end(), files->begin(), files->end());
  }
  tfgnn::DecoderOptions options;
  options.prefix = examples.key_prefix;
  absl::StatusOr<tfgnn::ExampleDecoder> decoder = tfgnn::ExampleDecoder::Create(sets, options);
  if (!decoder.ok()) return decoder.status();
  tfgnn::RowBuilder rows(sets.shared_schema());
  TfrecordReader reader(std::move(paths));
  for (uint64_t number = 0; examples.most == 0 || number < examples.most; ++number) {
    const absl::StatusOr<std::optional<absl::string_view>> record = reader.Next();
    if (!record.ok()) return record.status();
    if (!*record) break;
    absl::Status status = decoder->Append(**record, reader.record_of_file(), rows);
    if (!status.ok()) return InFile(reader.file(), status);
    const absl::StatusOr<GraphChunk> graph = rows.Build(number);
    if (!graph.ok()) return graph.status();
    status = take(*graph, **record);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string TypeText(const tfgnn::Feature& feature) {
  return absl::StrCat(feature.is_text ? "string" : DTypeName(feature.dtype), "[",
                      absl::StrJoin(feature.shape, ","), "]");
}

Json FeatureRows(const tfgnn::Feature& feature, const GraphChunk& chunk, std::size_t i) {
  Json items = Json::array();
  const absl::string_view values = chunk.rows(i, feature.values);
  std::size_t next_ragged = feature.ragged.size();
  if (feature.is_text) {
    std::size_t at = 0;
    for (const std::size_t length : LengthsOf(chunk, i, feature.ragged[--next_ragged].lengths)) {
      items.push_back(std::string(values.substr(at, length)));
      at += length;
    }
  } else {
    const std::size_t bytes = ElementBytes(feature.dtype);
    for (std::size_t at = 0; at < values.size(); at += bytes) {
      items.push_back(ElementJson(feature.dtype, values.data() + at));
    }
  }
  for (std::size_t d = feature.shape.size(); d > 0; --d) {
    if (feature.shape[d - 1] == -1) {
      items =
          GroupedBy(LengthsOf(chunk, i, feature.ragged[--next_ragged].lengths), std::move(items));
    } else {
      const auto extent = static_cast<std::size_t>(feature.shape[d - 1]);
      const std::size_t lists = items.size() / extent;
      items = GroupedBy(std::vector<std::size_t>(lists, extent), std::move(items));
    }
  }
  return items;
}

Json GraphJson(const tfgnn::GraphSets& sets, const GraphChunk& chunk, std::size_t i) {
  const auto features = [&](const tfgnn::RowSet& set) {
    Json json = Json::object();
    for (const tfgnn::Feature& feature : set.features) {
      json[feature.name] = FeatureRows(feature, chunk, i);
    }
    return json;
  };
  Json json = Json::object();
  Json& context = json["context"] = Json::object();
  for (const tfgnn::Feature& feature : sets.context().features) {
    context[feature.name] = FeatureRows(feature, chunk, i)[0];
  }
  Json& node_sets = json["node_sets"] = Json::object();
  for (const tfgnn::RowSet& set : sets.node_sets()) {
    Json& nodes = node_sets[set.name];
    nodes["size"] = chunk.count(i, set.component);
    nodes["features"] = features(set);
  }
  Json& edge_sets = json["edge_sets"] = Json::object();
  for (const tfgnn::EdgeSet& set : sets.edge_sets()) {
    Json& edges = edge_sets[set.name];
    edges["size"] = chunk.count(i, set.component);
    edges["source"] = IndicesJson(chunk, i, set.source);
    edges["target"] = IndicesJson(chunk, i, set.target);
    edges["features"] = features(set);
  }
  return json;
}

}  // namespace packhouse::client
