#include "client/cli/source_graphs/source_graph_report.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/device_arguments.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

using SourceColumns = google::protobuf::RepeatedPtrField<v1::SourceColumn>;

std::string SourceStateText(v1::SourceGraphState state) {
  const std::string name = v1::SourceGraphState_Name(state);
  if (name.empty()) return absl::StrCat("state ", static_cast<int>(state));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "SOURCE_GRAPH_STATE_"));
}

std::string SourceVersionText(const v1::SourceGraph& graph) {
  return graph.version() == 0 ? "" : absl::StrFormat("%016x", graph.version());
}

std::string ColumnTypeText(const v1::SourceColumn& column) {
  if (column.text()) return "text";
  const std::string name = v1::DataType_Name(column.dtype());
  if (name.empty()) return absl::StrCat("dtype ", static_cast<int>(column.dtype()));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "DATA_TYPE_"));
}

const char* IdKindText(v1::NodeIdKind kind) {
  return kind == v1::NODE_ID_KIND_TEXT ? "text" : "integer";
}

const char* LookupText(v1::EdgeLookup lookup) {
  return lookup == v1::EDGE_LOOKUP_BY_SOURCE   ? "source"
         : lookup == v1::EDGE_LOOKUP_BY_TARGET ? "target"
                                               : "both";
}

// That of set `i`; 0 if the server has not filled it in.
uint64_t CountOf(const google::protobuf::RepeatedField<uint64_t>& counts, int i) {
  return i < counts.size() ? counts.Get(i) : 0;
}

uint64_t NodesOf(const v1::SourceGraph& graph) {
  uint64_t total = 0;
  for (const uint64_t count : graph.num_nodes()) total += count;
  return total;
}

uint64_t EdgesOf(const v1::SourceGraph& graph) {
  uint64_t total = 0;
  for (int i = 0; i < graph.schema().edge_sets_size(); ++i) {
    if (graph.schema().edge_sets(i).reverse_of().empty()) total += CountOf(graph.num_edges(), i);
  }
  return total;
}

// A line each, below their set.
std::string ColumnLines(const SourceColumns& columns) {
  std::string text;
  for (const v1::SourceColumn& column : columns) {
    absl::StrAppend(&text, "  ", column.name(), ": ", ColumnTypeText(column));
    if (column.row_shape_size() > 0) {
      absl::StrAppend(&text, " [", absl::StrJoin(column.row_shape(), ", "), "]");
    }
    absl::StrAppend(&text, column.ragged() && !column.text() ? ", ragged\n" : "\n");
  }
  return text;
}

Json ColumnsJson(const SourceColumns& columns) {
  Json objects = Json::array();
  for (const v1::SourceColumn& column : columns) {
    Json row_shape = Json::array();
    for (const uint32_t extent : column.row_shape()) row_shape.push_back(extent);
    objects.push_back({{"name", column.name()},
                       {"dtype", ColumnTypeText(column)},
                       {"row_shape", std::move(row_shape)},
                       {"ragged", column.ragged()}});
  }
  return objects;
}

}  // namespace

std::string SourceGraphSizeText(const v1::SourceGraph& graph) {
  return absl::StrCat(Grouped(NodesOf(graph)), " nodes, ", Grouped(EdgesOf(graph)), " edges, ",
                      BytesText(graph.num_bytes()));
}

std::string SourceGraphLine(const v1::SourceGraph& graph) {
  return absl::StrCat(graph.name(), ": ", SourceStateText(graph.state()), ", ",
                      SourceGraphSizeText(graph), "\n");
}

std::string SourceGraphTable(const std::vector<v1::SourceGraph>& graphs) {
  TextTable table(
      {{"name", ""}, {"state", ""}, {"nodes", ""}, {"edges", ""}, {"size", ""}, {"version", ""}});
  for (const v1::SourceGraph& graph : graphs) {
    std::vector<std::string> cells = {graph.name(), SourceStateText(graph.state())};
    if (graph.state() != v1::SOURCE_GRAPH_STATE_DAMAGED) {
      cells.insert(cells.end(), {Grouped(NodesOf(graph)), Grouped(EdgesOf(graph)),
                                 BytesText(graph.num_bytes()), SourceVersionText(graph)});
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

std::string SourceGraphText(const v1::SourceGraph& graph) {
  std::string text = SourceGraphLine(graph);
  if (graph.state() == v1::SOURCE_GRAPH_STATE_OPEN) {
    absl::StrAppend(&text,
                    "These are rows: a node may be there twice until the graph is sealed, "
                    "and one that only edges name is not counted yet.\n");
  }
  absl::StrAppend(
      &text, "\nversion  ",
      graph.version() == 0 ? "none until the graph is sealed" : SourceVersionText(graph),
      "\nbounds   ",
      graph.max_bytes() == 0 ? "none of its own"
                             : absl::StrCat("at most ", BytesText(graph.max_bytes())),
      "\n");
  const v1::SourceGraphSchema& schema = graph.schema();
  text += "\nnode sets\n";
  for (int i = 0; i < schema.node_sets_size(); ++i) {
    const v1::SourceNodeSet& set = schema.node_sets(i);
    absl::StrAppend(&text, set.name(), ": ", Grouped(CountOf(graph.num_nodes(), i)), ", ",
                    IdKindText(set.id_kind()), " ids",
                    set.appended_only() ? ", each must be appended\n" : "\n",
                    ColumnLines(set.columns()));
  }
  if (schema.edge_sets_size() > 0) text += "\nedge sets\n";
  for (int i = 0; i < schema.edge_sets_size(); ++i) {
    const v1::SourceEdgeSet& set = schema.edge_sets(i);
    absl::StrAppend(&text, set.name(), ": ", Grouped(CountOf(graph.num_edges(), i)), " from ",
                    set.source(), " to ", set.target());
    if (set.reverse_of().empty()) {
      const absl::string_view lookup = LookupText(set.lookup());
      absl::StrAppend(&text, ", looked up by ", lookup == "both" ? "both ends" : lookup);
    } else {
      absl::StrAppend(&text, ", the reverse of ", set.reverse_of());
    }
    absl::StrAppend(&text, "\n", ColumnLines(set.columns()));
  }
  return text;
}

Json SourceGraphJson(const v1::SourceGraph& graph) {
  Json json = {{"name", graph.name()}, {"state", SourceStateText(graph.state())}};
  if (graph.state() == v1::SOURCE_GRAPH_STATE_DAMAGED) return json;
  const v1::SourceGraphSchema& schema = graph.schema();
  Json node_sets = Json::array();
  for (int i = 0; i < schema.node_sets_size(); ++i) {
    const v1::SourceNodeSet& set = schema.node_sets(i);
    node_sets.push_back({{"name", set.name()},
                         {"nodes", CountOf(graph.num_nodes(), i)},
                         {"ids", IdKindText(set.id_kind())},
                         {"appended_only", set.appended_only()},
                         {"columns", ColumnsJson(set.columns())}});
  }
  Json edge_sets = Json::array();
  for (int i = 0; i < schema.edge_sets_size(); ++i) {
    const v1::SourceEdgeSet& set = schema.edge_sets(i);
    Json object = {{"name", set.name()},
                   {"edges", CountOf(graph.num_edges(), i)},
                   {"source", set.source()},
                   {"target", set.target()}};
    if (set.reverse_of().empty()) {
      object["lookup"] = LookupText(set.lookup());
      object["columns"] = ColumnsJson(set.columns());
    } else {
      object["reverse_of"] = set.reverse_of();
    }
    edge_sets.push_back(std::move(object));
  }
  json["version"] = SourceVersionText(graph);
  json["nodes"] = NodesOf(graph);
  json["edges"] = EdgesOf(graph);
  json["bytes"] = graph.num_bytes();
  json["max_bytes"] = graph.max_bytes();
  json["node_sets"] = std::move(node_sets);
  json["edge_sets"] = std::move(edge_sets);
  return json;
}

std::string SourceGraphVerifyText(const std::string& name,
                                  const v1::VerifySourceGraphResponse& response) {
  std::string text;
  for (const std::string& damaged : response.damaged()) absl::StrAppend(&text, damaged, "\n");
  const auto listed = static_cast<uint64_t>(response.damaged_size());
  if (response.num_damaged() > listed) {
    absl::StrAppend(&text, "and ", Grouped(response.num_damaged() - listed),
                    " more damaged pieces\n");
  }
  absl::StrAppend(&text, name, ": ", BytesText(response.num_bytes()), " read: ");
  if (response.num_damaged() == 0) {
    text += "no damage\n";
  } else {
    absl::StrAppend(&text, Grouped(response.num_damaged()), " damaged pieces\n");
  }
  return text;
}

Json SourceGraphVerifyJson(const std::string& name, const v1::VerifySourceGraphResponse& response) {
  Json damaged = Json::array();
  for (const std::string& text : response.damaged()) damaged.push_back(text);
  return {{"name", name},
          {"undamaged", response.num_damaged() == 0},
          {"bytes", response.num_bytes()},
          {"damaged_pieces", response.num_damaged()},
          {"damaged", std::move(damaged)}};
}

}  // namespace packhouse::client
