#include "service/wings/partition/files/parmetis_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/file_name.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/json_fields.h"

namespace packhouse {
namespace {

constexpr uint32_t kNoPart = UINT32_MAX;

absl::StatusOr<std::vector<ParmetisType>> TypesOf(const ReadJson& json, const std::string& key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const object, ObjectField(json, key));
  std::vector<ParmetisType> types;
  for (const auto& [name, value] : object->items()) {
    PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> range, NumbersOf(value, name));
    if (range.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(key, " ", Quoted(name), " must be a range"));
    }
    types.push_back({name, range[0], range[1]});
  }
  std::stable_sort(types.begin(), types.end(), [](const ParmetisType& a, const ParmetisType& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const ParmetisType& type : types) {
    if (type.begin != at || type.end < at) {
      return absl::InvalidArgumentError(absl::StrCat(key, " ", Quoted(type.name), " is [",
                                                     type.begin, ", ", type.end,
                                                     "), must begin at ", at));
    }
    at = type.end;
  }
  return types;
}

OrderedJson JsonOfTypes(const std::vector<ParmetisType>& types) {
  OrderedJson object = OrderedJson::object();
  for (const ParmetisType& type : types) AppendMember(type.name, {type.begin, type.end}, object);
  return object;
}

void WriteAttributes(absl::string_view attributes, TextWriter& text) {
  if (!attributes.empty()) text.Word(attributes);
}

}  // namespace

absl::Status ParseParmetisNode(absl::string_view line, ParmetisSide side, uint64_t num_weights,
                               ParmetisNode* node) {
  TextFields fields(line);
  if (side == ParmetisSide::kOutput) {
    PH_ASSIGN_OR_RETURN(node->new_id, fields.Number("the new node id"));
  }
  PH_ASSIGN_OR_RETURN(node->type, fields.Number("the node type"));
  node->weights.clear();
  for (uint64_t i = 0; i < num_weights; ++i) {
    PH_ASSIGN_OR_RETURN(const uint64_t weight, fields.Number("a weight"));
    node->weights.push_back(weight);
  }
  PH_ASSIGN_OR_RETURN(node->original, fields.Number("the node's id in its type"));
  node->attributes = fields.rest();
  return absl::OkStatus();
}

absl::Status ParseParmetisEdge(absl::string_view line, ParmetisSide side, ParmetisEdge* edge) {
  TextFields fields(line);
  if (side == ParmetisSide::kOutput) {
    PH_ASSIGN_OR_RETURN(edge->new_source, fields.Number("the source's new id"));
    PH_ASSIGN_OR_RETURN(edge->new_target, fields.Number("the target's new id"));
  }
  PH_ASSIGN_OR_RETURN(edge->source, fields.Number("the source"));
  PH_ASSIGN_OR_RETURN(edge->target, fields.Number("the target"));
  PH_ASSIGN_OR_RETURN(edge->original, fields.Number("the edge's id in its type"));
  PH_ASSIGN_OR_RETURN(edge->type, fields.Number("the edge type"));
  edge->attributes = fields.rest();
  return absl::OkStatus();
}

absl::StatusOr<ParmetisStats> ReadParmetisStats(absl::string_view text) {
  TextLines lines(text);
  const std::optional<absl::string_view> line = lines.Next();
  TextFields fields(line.value_or(""));
  ParmetisStats stats;
  PH_ASSIGN_OR_RETURN(stats.num_nodes, fields.Number("the number of nodes"));
  PH_ASSIGN_OR_RETURN(stats.num_edges, fields.Number("the number of edges"));
  PH_ASSIGN_OR_RETURN(stats.num_weights,
                      fields.Number("the number of weights", kMaxParmetisWeights));
  if (fields.AtEnd() && !lines.Next()) return stats;
  return absl::InvalidArgumentError("there must be one line of three numbers");
}

absl::Status WriteParmetisNode(const ParmetisNode& node, ParmetisSide side, TextWriter& text) {
  if (side == ParmetisSide::kOutput) text.Number(node.new_id);
  text.Number(node.type);
  for (const uint64_t weight : node.weights) text.Number(weight);
  text.Number(node.original);
  WriteAttributes(node.attributes, text);
  return text.EndLine();
}

absl::Status WriteParmetisEdge(const ParmetisEdge& edge, ParmetisSide side, TextWriter& text) {
  if (side == ParmetisSide::kOutput) {
    text.Number(edge.new_source);
    text.Number(edge.new_target);
  }
  for (const uint64_t value : {edge.source, edge.target, edge.original, edge.type}) {
    text.Number(value);
  }
  WriteAttributes(edge.attributes, text);
  return text.EndLine();
}

absl::Status WriteParmetisStats(const ParmetisStats& stats, TextWriter& text) {
  text.Number(stats.num_nodes);
  text.Number(stats.num_edges);
  text.Number(stats.num_weights);
  return text.EndLine();
}

absl::Status CheckParmetisName(absl::string_view name) {
  if (IsPathBelow(name) && name.find('/') == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph's name ", Quoted(name), " must be one with which names of files can begin"));
}

std::string ParmetisPartFile(uint64_t part, absl::string_view name, absl::string_view what) {
  return absl::StrFormat("p%03d-%s_%s.txt", part, name, what);
}

absl::StatusOr<std::vector<uint32_t>> ReadParmetisParts(absl::string_view text, uint64_t num_nodes,
                                                        uint32_t num_parts) {
  // A line has at least four bytes: the text bounds what is allocated. The last may lack its end.
  if (num_parts == 0 || num_nodes > text.size() / 4 + 1) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", text.size(),
                                                   " bytes, there are ", num_nodes, " nodes and ",
                                                   num_parts, " parts"));
  }
  TextLines lines(text);
  std::vector<uint32_t> parts(num_nodes, kNoPart);
  uint64_t given = 0;
  while (const std::optional<absl::string_view> line = lines.Next()) {
    TextFields fields(*line);
    if (num_nodes == 0) return lines.Wrong("there are no nodes");
    const absl::StatusOr<uint64_t> node = fields.Number("a node", num_nodes - 1);
    if (!node.ok()) return lines.Wrong(node.status().message());
    const absl::StatusOr<uint64_t> part = fields.Number("a part", num_parts - 1);
    if (!part.ok()) return lines.Wrong(part.status().message());
    if (!fields.AtEnd() || parts[*node] != kNoPart) {
      return lines.Wrong(absl::StrCat("more than two numbers, or node ", *node, " is there twice"));
    }
    parts[*node] = static_cast<uint32_t>(*part);
    ++given;
  }
  if (given == num_nodes) return parts;
  const auto missing = std::find(parts.begin(), parts.end(), kNoPart) - parts.begin();
  return absl::InvalidArgumentError(absl::StrCat("node ", missing, " has no part"));
}

absl::Status WriteParmetisParts(absl::Span<const uint32_t> parts, ByteSink& sink) {
  TextWriter text(sink);
  for (size_t node = 0; node < parts.size(); ++node) {
    text.Number(node);
    text.Number(parts[node]);
    PH_RETURN_IF_ERROR(text.EndLine());
  }
  return text.Finish();
}

std::vector<bool> MarkRemovedEdges(absl::Span<const uint64_t> sources,
                                   absl::Span<const uint64_t> targets) {
  std::vector<uint64_t> order(sources.size());
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return std::tuple(sources[a], targets[a], a) < std::tuple(sources[b], targets[b], b);
  });
  std::vector<bool> removed(sources.size(), false);
  for (size_t i = 0; i < order.size(); ++i) {
    const uint64_t edge = order[i];
    const bool again =
        i > 0 && sources[edge] == sources[order[i - 1]] && targets[edge] == targets[order[i - 1]];
    removed[edge] = again || sources[edge] == targets[edge];
  }
  return removed;
}

absl::StatusOr<ParmetisSchema> ReadParmetisSchema(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const ReadJson json, ParseJsonObject(text));
  ParmetisSchema schema;
  PH_ASSIGN_OR_RETURN(schema.node_types, TypesOf(json, "nid"));
  PH_ASSIGN_OR_RETURN(schema.edge_types, TypesOf(json, "eid"));
  if (schema.node_types.empty()) return absl::InvalidArgumentError("'nid' has no type");
  return schema;
}

absl::StatusOr<std::string> WriteParmetisSchema(const ParmetisSchema& schema) {
  OrderedJson object = OrderedJson::object();
  AppendMember("nid", JsonOfTypes(schema.node_types), object);
  AppendMember("eid", JsonOfTypes(schema.edge_types), object);
  return JsonIndented(object);
}

}  // namespace packhouse
