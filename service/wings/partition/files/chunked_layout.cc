#include "service/wings/partition/files/chunked_layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/json_fields.h"
#include "service/wings/partition/files/partition_json.h"

namespace packhouse {
namespace {

constexpr std::pair<ChunkFormat, absl::string_view> kFormats[] = {
    {ChunkFormat::kCsv, "csv"},
    {ChunkFormat::kNumpy, "numpy"},
    {ChunkFormat::kParquet, "parquet"},
};

absl::Status At(absl::string_view where, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", status.message()));
}

// `delimiter`: of csv that does not say it.
absl::StatusOr<ChunkedTable> TableOf(const ReadJson& json, char delimiter) {
  ChunkedTable table;
  PH_ASSIGN_OR_RETURN(const ReadJson* const format, ObjectField(json, "format"));
  PH_ASSIGN_OR_RETURN(const std::string word, StringField(*format, "name"));
  bool known = false;
  for (const auto& [value, name] : kFormats) {
    if (name != word) continue;
    table.format = value;
    known = true;
  }
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("format ", Quoted(word), " must be csv, numpy or parquet"));
  }
  if (table.format == ChunkFormat::kCsv) table.delimiter = delimiter;
  if (table.format == ChunkFormat::kCsv && format->contains("delimiter")) {
    PH_ASSIGN_OR_RETURN(const std::string said, StringField(*format, "delimiter"));
    if (said.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("delimiter ", Quoted(said), " must be one character"));
    }
    table.delimiter = said[0];
  }
  PH_ASSIGN_OR_RETURN(table.files, StringsField(json, "data"));
  return table;
}

absl::StatusOr<std::vector<ChunkedTable>> FeaturesOf(const ReadJson& json, const std::string& key,
                                                     const std::string& type) {
  std::vector<ChunkedTable> tables;
  if (!json.contains(key)) return tables;
  PH_ASSIGN_OR_RETURN(const ReadJson* const data, ObjectField(json, key));
  if (!data->contains(type)) return tables;
  PH_ASSIGN_OR_RETURN(const ReadJson* const features, ObjectField(*data, type));
  for (const auto& [name, value] : features->items()) {
    absl::StatusOr<ChunkedTable> table = TableOf(value, ',');
    if (!table.ok()) return At(absl::StrCat(key, " ", Quoted(name)), table.status());
    table->name = name;
    tables.push_back(*std::move(table));
  }
  return tables;
}

struct Counts {
  uint64_t total = 0;
  std::vector<uint64_t> chunks;
};

// By type, from either field or both.
absl::StatusOr<std::vector<Counts>> CountsOf(const ReadJson& json, const std::string& what,
                                             size_t num_types) {
  const std::string per_chunk = absl::StrCat("num_", what, "_per_chunk");
  const std::string per_type = absl::StrCat("num_", what, "_per_type");
  std::vector<Counts> counts(num_types);
  const bool has_chunks = json.contains(per_chunk);
  const bool has_totals = json.contains(per_type);
  if (!has_chunks && !has_totals) {
    return absl::InvalidArgumentError(
        absl::StrCat("neither ", per_chunk, " nor ", per_type, " is there"));
  }
  if (has_chunks) {
    const ReadJson& lists = json.find(per_chunk).value();
    if (!lists.is_array() || lists.size() != num_types) {
      return absl::InvalidArgumentError(
          absl::StrCat(per_chunk, " must be a list of ", num_types, " lists"));
    }
    for (size_t type = 0; type < num_types; ++type) {
      PH_ASSIGN_OR_RETURN(counts[type].chunks, NumbersOf(lists[type], per_chunk));
      for (const uint64_t chunk : counts[type].chunks) {
        const std::optional<uint64_t> sum = CheckedAdd(counts[type].total, chunk);
        if (!sum) return absl::InvalidArgumentError(absl::StrCat(per_chunk, " exceeds 2^64"));
        counts[type].total = *sum;
      }
    }
  }
  if (!has_totals) return counts;
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> totals, NumbersField(json, per_type));
  if (totals.size() != num_types) {
    return absl::InvalidArgumentError(
        absl::StrCat(per_type, " has ", totals.size(), " numbers, must have ", num_types));
  }
  for (size_t type = 0; type < num_types; ++type) {
    if (has_chunks && counts[type].total != totals[type]) {
      return absl::InvalidArgumentError(absl::StrCat(per_type, " of type ", type, " is ",
                                                     totals[type], ", the chunks have ",
                                                     counts[type].total));
    }
    counts[type].total = totals[type];
  }
  return counts;
}

OrderedJson JsonOfTable(const ChunkedTable& table) {
  OrderedJson format = OrderedJson::object();
  for (const auto& [value, name] : kFormats) {
    if (value == table.format) format["name"] = std::string(name);
  }
  if (table.format == ChunkFormat::kCsv) format["delimiter"] = std::string(1, table.delimiter);
  return {{"format", std::move(format)}, {"data", table.files}};
}

OrderedJson JsonOfFeatures(const std::vector<ChunkedTable>& tables) {
  OrderedJson object = OrderedJson::object();
  for (const ChunkedTable& table : tables) AppendMember(table.name, JsonOfTable(table), object);
  return object;
}

}  // namespace

absl::Status ParquetIsNotRead() {
  return absl::UnimplementedError(
      "Parquet is not read here: `packhouse convert-chunked FOLDER --output DIR` makes "
      "numpy files of it");
}

absl::StatusOr<ChunkedGraph> ReadChunkedMetadata(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const ReadJson json, ParseJsonObject(text));
  ChunkedGraph graph;
  if (json.contains("graph_name")) {
    PH_ASSIGN_OR_RETURN(graph.graph_name, StringField(json, "graph_name"));
  }
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, StringsField(json, "node_type"));
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> edges, StringsField(json, "edge_type"));
  PH_ASSIGN_OR_RETURN(std::vector<Counts> node_counts, CountsOf(json, "nodes", nodes.size()));
  PH_ASSIGN_OR_RETURN(std::vector<Counts> edge_counts, CountsOf(json, "edges", edges.size()));
  for (size_t type = 0; type < nodes.size(); ++type) {
    if (std::count(nodes.begin(), nodes.end(), nodes[type]) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("node type ", Quoted(nodes[type]), " is there twice"));
    }
    ChunkedNodeType node = {
        nodes[type], node_counts[type].total, std::move(node_counts[type].chunks), {}};
    PH_ASSIGN_OR_RETURN(node.features, FeaturesOf(json, "node_data", node.name));
    graph.node_types.push_back(std::move(node));
  }
  PH_ASSIGN_OR_RETURN(const ReadJson* const tables, ObjectField(json, "edges"));
  for (size_t type = 0; type < edges.size(); ++type) {
    const std::vector<std::string> words = absl::StrSplit(edges[type], ':');
    const auto is_node = [&nodes](const std::string& name) {
      return std::find(nodes.begin(), nodes.end(), name) != nodes.end();
    };
    if (words.size() != 3 || !is_node(words[0]) || !is_node(words[2]) ||
        std::count(edges.begin(), edges.end(), edges[type]) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge type ", Quoted(edges[type]),
                       " must be source:relation:target of node types, and there once"));
    }
    ChunkedEdgeType edge = {
        edges[type], edge_counts[type].total, std::move(edge_counts[type].chunks), {}, {}};
    PH_ASSIGN_OR_RETURN(const ReadJson* const table, ObjectField(*tables, edge.name));
    PH_ASSIGN_OR_RETURN(edge.edges, TableOf(*table, ' '));
    PH_ASSIGN_OR_RETURN(edge.features, FeaturesOf(json, "edge_data", edge.name));
    graph.edge_types.push_back(std::move(edge));
  }
  return graph;
}

absl::StatusOr<std::string> WriteChunkedMetadata(const ChunkedGraph& graph) {
  OrderedJson json = {{"graph_name", graph.graph_name}};
  OrderedJson names = OrderedJson::array(), chunks = names, totals = names;
  OrderedJson data = OrderedJson::object();
  for (const ChunkedNodeType& type : graph.node_types) {
    names.push_back(type.name);
    chunks.push_back(type.chunks.empty() ? std::vector<uint64_t>{type.num_nodes} : type.chunks);
    totals.push_back(type.num_nodes);
    AppendMember(type.name, JsonOfFeatures(type.features), data);
  }
  json["node_type"] = std::move(names);
  json["num_nodes_per_chunk"] = std::move(chunks);
  OrderedJson edge_names = OrderedJson::array(), edge_chunks = edge_names, edge_totals = edge_names;
  OrderedJson tables = OrderedJson::object(), edge_data = tables;
  for (const ChunkedEdgeType& type : graph.edge_types) {
    edge_names.push_back(type.name);
    edge_chunks.push_back(type.chunks.empty() ? std::vector<uint64_t>{type.num_edges}
                                              : type.chunks);
    edge_totals.push_back(type.num_edges);
    AppendMember(type.name, JsonOfTable(type.edges), tables);
    if (!type.features.empty()) AppendMember(type.name, JsonOfFeatures(type.features), edge_data);
  }
  json["edge_type"] = std::move(edge_names);
  json["num_edges_per_chunk"] = std::move(edge_chunks);
  json["edges"] = std::move(tables);
  json["node_data"] = std::move(data);
  json["edge_data"] = std::move(edge_data);
  json["num_nodes_per_type"] = std::move(totals);
  json["num_edges_per_type"] = std::move(edge_totals);
  return JsonIndented(json);
}

absl::StatusOr<AssignmentMeta> ReadAssignmentMeta(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const ReadJson json, ParseJsonObject(text));
  AssignmentMeta meta;
  PH_ASSIGN_OR_RETURN(meta.num_parts, NumberField(json, "num_parts"));
  PH_ASSIGN_OR_RETURN(meta.algorithm, StringField(json, "algo_name"));
  if (meta.num_parts == 0 || meta.num_parts > kMaxPartsOfDirectory) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_parts is ", meta.num_parts, ", must be 1 to ", kMaxPartsOfDirectory));
  }
  return meta;
}

absl::StatusOr<std::string> WriteAssignmentMeta(const AssignmentMeta& meta) {
  return JsonLine({{"version", "1.0.0"},
                   {"num_parts", meta.num_parts},
                   {"algo_name", meta.algorithm == "random" ? "random" : "metis"}});
}

}  // namespace packhouse
