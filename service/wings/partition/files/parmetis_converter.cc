#include "service/wings/partition/files/parmetis_converter.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/in_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kUnassigned = UINT64_MAX;

uint64_t CountFields(absl::string_view text) {
  TextFields fields(text);
  uint64_t count = 0;
  for (; !fields.AtEnd(); ++count) fields.Word();
  return count;
}

absl::Status TakeColumns(absl::string_view attributes, std::optional<uint64_t>& columns) {
  const uint64_t count = CountFields(attributes);
  if (!columns) columns = count;
  if (*columns == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(count, " attributes, other rows of this type have ", *columns));
}

template <typename Element>
bool ParseAttribute(absl::string_view word, Element& value) {
  if constexpr (std::is_same_v<Element, float>) {
    return absl::SimpleAtof(word, &value);
  } else if constexpr (std::is_same_v<Element, double>) {
    return absl::SimpleAtod(word, &value);
  } else {
    return absl::SimpleAtoi(word, &value);
  }
}

// Rows of attributes, parsed while they are written: row i is text(i).
template <typename Element, typename Text>
ArraySource ParsedRows(ArrayHeader header, Text text) {
  const uint64_t rows = header.shape[0];
  const std::string name = header.name;
  return {std::move(header), [rows, name, text](ByteSink& sink) {
            std::vector<Element> block;
            for (uint64_t row = 0; row < rows; ++row) {
              TextFields fields(text(row));
              while (!fields.AtEnd()) {
                const absl::string_view word = fields.Word();
                if (!ParseAttribute(word, block.emplace_back())) {
                  return absl::InvalidArgumentError(
                      absl::StrCat("attribute ", Quoted(word), " of row ", row, " of ",
                                   Quoted(name), " is no number of its type"));
                }
              }
              if (block.size() < kConvertedElements && row + 1 < rows) continue;
              const absl::string_view bytes(reinterpret_cast<const char*>(block.data()),
                                            block.size() * sizeof(Element));
              PH_RETURN_IF_ERROR(sink.Write(bytes));
              block.clear();
            }
            return absl::OkStatus();
          }};
}

template <typename Text>
ArraySource AttributeRows(ArrayHeader header, Text text) {
  switch (header.dtype) {
    case DType::kInt32:
      return ParsedRows<int32_t>(std::move(header), text);
    case DType::kInt64:
      return ParsedRows<int64_t>(std::move(header), text);
    case DType::kFloat64:
      return ParsedRows<double>(std::move(header), text);
    default:
      return ParsedRows<float>(std::move(header), text);
  }
}

bool IsAttributeType(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

}  // namespace

ParmetisConverter::ParmetisConverter(ParmetisFiles files) : files_(std::move(files)) {}

absl::StatusOr<ParmetisConverter> ParmetisConverter::Create(ParmetisFiles files) {
  if (files.nodes.empty() || files.nodes.size() != files.edges.size() ||
      files.nodes.size() > kMaxPartsOfDirectory) {
    return absl::InvalidArgumentError(absl::StrCat(files.nodes.size(), " files of nodes and ",
                                                   files.edges.size(), " of edges: must be 1 to ",
                                                   kMaxPartsOfDirectory, " each"));
  }
  if (!IsAttributeType(files.node_attributes) || !IsAttributeType(files.edge_attributes)) {
    return absl::InvalidArgumentError(
        "attributes can be float32, float64, int32 or int64, no other type");
  }
  ParmetisConverter converter(std::move(files));
  PH_RETURN_IF_ERROR(converter.ScanNodes());
  PH_RETURN_IF_ERROR(converter.ScanEdges());
  PH_RETURN_IF_ERROR(converter.NameEdgeTypes());
  return converter;
}

absl::Status ParmetisConverter::ScanNodes() {
  const std::vector<ParmetisType>& types = files_.schema.node_types;
  const uint64_t num_nodes = types.back().end;
  uint64_t bytes = 0;
  for (const absl::string_view text : files_.nodes) bytes += text.size();
  // Each node has a line: the texts bound what is allocated for the schema's word.
  if (num_nodes > bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the schema has ", num_nodes,
                                                   " nodes, the files of nodes ", bytes,
                                                   " bytes: nodes are missing"));
  }
  new_of_node_.assign(num_nodes, kUnassigned);
  node_columns_.resize(types.size());
  ParmetisNode node;
  for (size_t part = 0; part < files_.nodes.size(); ++part) {
    node_counts_.emplace_back(types.size(), 0);
    uint64_t last_type = 0;
    TextLines lines(files_.nodes[part]);
    const auto take = [&](absl::string_view line) -> absl::Status {
      PH_RETURN_IF_ERROR(ParseParmetisNode(line, ParmetisSide::kOutput, files_.num_weights, &node));
      if (node.new_id != input_of_node_.size() || node.type >= types.size() ||
          node.type < last_type) {
        return absl::InvalidArgumentError(absl::StrCat(
            "new id ", node.new_id, " of type ", node.type, ", must be id ", input_of_node_.size(),
            " and a type from ", last_type, " to ", types.size() - 1));
      }
      last_type = node.type;
      const ParmetisType& type = types[node.type];
      if (node.original >= type.end - type.begin ||
          new_of_node_[type.begin + node.original] != kUnassigned) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node.original, " of ", Quoted(type.name),
                         " is there twice, or not among its ", type.end - type.begin));
      }
      PH_RETURN_IF_ERROR(TakeColumns(node.attributes, node_columns_[node.type]));
      new_of_node_[type.begin + node.original] = node.new_id;
      input_of_node_.push_back(type.begin + node.original);
      ++node_counts_[part][node.type];
      return absl::OkStatus();
    };
    while (const std::optional<absl::string_view> line = lines.Next()) {
      const absl::Status status = take(*line);
      if (!status.ok()) {
        return InFile(absl::StrCat("nodes of part ", part), lines.Wrong(status.message()));
      }
    }
    part_ends_.push_back(input_of_node_.size());
  }
  if (input_of_node_.size() == num_nodes) return absl::OkStatus();
  const auto missing = std::find(new_of_node_.begin(), new_of_node_.end(), kUnassigned);
  return absl::InvalidArgumentError(
      absl::StrCat("node ", missing - new_of_node_.begin(), " of the schema is in no part"));
}

uint64_t ParmetisConverter::NodeTypeOf(uint64_t input_node) const {
  const std::vector<ParmetisType>& types = files_.schema.node_types;
  const auto after =
      std::upper_bound(types.begin(), types.end(), input_node,
                       [](uint64_t node, const ParmetisType& type) { return node < type.end; });
  return static_cast<uint64_t>(after - types.begin());
}

uint64_t ParmetisConverter::OwnerOf(uint64_t new_node) const {
  return static_cast<uint64_t>(std::upper_bound(part_ends_.begin(), part_ends_.end(), new_node) -
                               part_ends_.begin());
}

absl::Status ParmetisConverter::TakeEdge(const ParmetisEdge& edge,
                                         std::vector<std::vector<bool>>& seen) {
  if (edge.source >= new_of_node_.size() || edge.target >= new_of_node_.size() ||
      edge.type >= seen.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("an edge of type ", edge.type, " from ", edge.source, " to ", edge.target,
                     ": there are ", new_of_node_.size(), " nodes and ", seen.size(), " types"));
  }
  std::vector<bool>& of_type = seen[edge.type];
  if (edge.original >= of_type.size() || of_type[edge.original]) {
    return absl::InvalidArgumentError(absl::StrCat("edge ", edge.original, " of type ", edge.type,
                                                   " is there twice, or not among its ",
                                                   of_type.size()));
  }
  of_type[edge.original] = true;
  const std::pair<uint64_t, uint64_t> ends(NodeTypeOf(edge.source), NodeTypeOf(edge.target));
  if (!ends_[edge.type]) ends_[edge.type] = ends;
  if (*ends_[edge.type] != ends) {
    return absl::InvalidArgumentError(absl::StrCat("edge type ",
                                                   Quoted(files_.schema.edge_types[edge.type].name),
                                                   " joins other types of nodes here than before"));
  }
  PH_RETURN_IF_ERROR(TakeColumns(edge.attributes, edge_columns_[edge.type]));
  ++edge_counts_[OwnerOf(new_of_node_[edge.target])][edge.type];
  return absl::OkStatus();
}

absl::Status ParmetisConverter::ScanEdges() {
  const std::vector<ParmetisType>& types = files_.schema.edge_types;
  uint64_t bytes = files_.removed_edges.size();
  for (const absl::string_view text : files_.edges) bytes += text.size();
  if (!types.empty() && types.back().end > bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the schema has ", types.back().end,
                                                   " edges, the files of edges ", bytes,
                                                   " bytes: edges are missing"));
  }
  std::vector<std::vector<bool>> seen;
  for (const ParmetisType& type : types) seen.emplace_back(type.end - type.begin, false);
  ends_.resize(types.size());
  edge_columns_.resize(types.size());
  edge_counts_.assign(num_parts(), std::vector<uint64_t>(types.size(), 0));
  removed_of_part_.resize(num_parts());
  ParmetisEdge edge;
  for (size_t part = 0; part < files_.edges.size(); ++part) {
    TextLines lines(files_.edges[part]);
    while (const std::optional<absl::string_view> line = lines.Next()) {
      absl::Status status = ParseParmetisEdge(*line, ParmetisSide::kOutput, &edge);
      if (status.ok()) status = TakeEdge(edge, seen);
      if (status.ok() &&
          (edge.new_source != new_of_node_[edge.source] ||
           edge.new_target != new_of_node_[edge.target] || OwnerOf(edge.new_target) != part)) {
        status = absl::InvalidArgumentError(absl::StrCat(
            "the edge from ", edge.source, " to ", edge.target, " has new ids ", edge.new_source,
            " and ", edge.new_target, ", the nodes have ", new_of_node_[edge.source], " and ",
            new_of_node_[edge.target], ", and the target must be in this part"));
      }
      if (!status.ok()) {
        return InFile(absl::StrCat("edges of part ", part), lines.Wrong(status.message()));
      }
    }
  }
  TextLines lines(files_.removed_edges);
  while (const std::optional<absl::string_view> line = lines.Next()) {
    absl::Status status = ParseParmetisEdge(*line, ParmetisSide::kInput, &edge);
    if (status.ok()) status = TakeEdge(edge, seen);
    if (!status.ok()) return InFile("removed edges", lines.Wrong(status.message()));
    removed_of_part_[OwnerOf(new_of_node_[edge.target])].push_back(*line);
  }
  return CheckAllSeen(seen);
}

absl::Status ParmetisConverter::CheckAllSeen(const std::vector<std::vector<bool>>& seen) const {
  for (size_t type = 0; type < seen.size(); ++type) {
    const auto missing = std::find(seen[type].begin(), seen[type].end(), false);
    if (missing == seen[type].end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "edge ", missing - seen[type].begin(), " of ", Quoted(files_.schema.edge_types[type].name),
        " is neither in a part nor among the removed edges"));
  }
  return absl::OkStatus();
}

absl::Status ParmetisConverter::NameEdgeTypes() {
  const std::vector<ParmetisType>& nodes = files_.schema.node_types;
  for (size_t type = 0; type < ends_.size(); ++type) {
    const std::string& name = files_.schema.edge_types[type].name;
    const std::vector<std::string> words = absl::StrSplit(name, ':');
    if (words.size() == 1 && ends_[type]) {
      edge_type_names_.push_back(absl::StrCat(nodes[ends_[type]->first].name, ":", name, ":",
                                              nodes[ends_[type]->second].name));
      continue;
    }
    const bool fits =
        words.size() == 3 && (!ends_[type] || (words[0] == nodes[ends_[type]->first].name &&
                                               words[2] == nodes[ends_[type]->second].name));
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge type ", Quoted(name),
                       ends_[type] ? " does not name the types that its edges join"
                                   : " has no edges: name it source:relation:target"));
    }
    edge_type_names_.push_back(name);
  }
  return absl::OkStatus();
}

PartitionJson ParmetisConverter::Json(std::string graph_name, std::string method) const {
  PartitionJson json;
  json.graph_name = std::move(graph_name);
  json.part_method = std::move(method);
  for (const ParmetisType& type : files_.schema.node_types)
    json.node_map.push_back({type.name, {}});
  for (const std::string& name : edge_type_names_) json.edge_map.push_back({name, {}});
  const auto tile = [](const std::vector<uint64_t>& counts, std::vector<TypeRanges>& map,
                       uint64_t& at) {
    for (size_t type = 0; type < counts.size(); ++type) {
      map[type].parts.push_back({at, at + counts[type]});
      at += counts[type];
    }
  };
  for (uint64_t part = 0; part < num_parts(); ++part) {
    tile(node_counts_[part], json.node_map, json.num_nodes);
    tile(edge_counts_[part], json.edge_map, json.num_edges);
    json.parts.push_back(DglPartFileNames(part));
  }
  return json;
}

absl::StatusOr<ConvertedPart> ParmetisConverter::PartOf(uint64_t number) const {
  ConvertedPart part;
  part.first_node = number == 0 ? 0 : part_ends_[number - 1];
  part.num_inner = part_ends_[number] - part.first_node;
  for (uint64_t before = 0; before < number; ++before) {
    for (const uint64_t count : edge_counts_[before]) part.first_edge += count;
  }
  ParmetisNode node;
  TextLines node_lines(files_.nodes[number]);
  while (const std::optional<absl::string_view> line = node_lines.Next()) {
    PH_RETURN_IF_ERROR(ParseParmetisNode(*line, ParmetisSide::kOutput, files_.num_weights, &node));
    part.nodes.push_back(node.new_id);
    part.node_attributes.push_back(node.attributes);
  }
  ParmetisEdge edge;
  const auto take = [&](absl::string_view line, ParmetisSide side) {
    PH_RETURN_IF_ERROR(ParseParmetisEdge(line, side, &edge));
    part.edges.push_back({new_of_node_[edge.source], new_of_node_[edge.target], edge.original,
                          edge.type, edge.attributes});
    return absl::OkStatus();
  };
  TextLines edge_lines(files_.edges[number]);
  while (const std::optional<absl::string_view> line = edge_lines.Next()) {
    PH_RETURN_IF_ERROR(take(*line, ParmetisSide::kOutput));
  }
  for (const absl::string_view line : removed_of_part_[number]) {
    PH_RETURN_IF_ERROR(take(line, ParmetisSide::kInput));
  }
  std::sort(part.edges.begin(), part.edges.end(),
            [](const ConvertedPart::Edge& a, const ConvertedPart::Edge& b) {
              return std::tuple(a.type, a.target, a.original) <
                     std::tuple(b.type, b.target, b.original);
            });
  const uint64_t inner_end = part_ends_[number];
  std::vector<uint64_t> halo;
  for (const ConvertedPart::Edge& of_part : part.edges) {
    if (of_part.source < part.first_node || of_part.source >= inner_end) {
      halo.push_back(of_part.source);
    }
  }
  std::sort(halo.begin(), halo.end());
  halo.erase(std::unique(halo.begin(), halo.end()), halo.end());
  part.nodes.insert(part.nodes.end(), halo.begin(), halo.end());
  for (const uint64_t new_id : part.nodes) {
    const uint64_t type = NodeTypeOf(input_of_node_[new_id]);
    part.owners.push_back(OwnerOf(new_id));
    part.node_types.push_back(type);
    part.original_nodes.push_back(input_of_node_[new_id] - files_.schema.node_types[type].begin);
  }
  return part;
}

DglGraphSource ParmetisConverter::Graph(const ConvertedPart& part) const {
  const ConvertedPart* const p = &part;
  const uint64_t num_edges = part.edges.size();
  // Inner nodes by their place, others by search in the halo, which ascends.
  const auto local = [p](uint64_t node) {
    if (node >= p->first_node && node - p->first_node < p->num_inner) return node - p->first_node;
    const auto halo = p->nodes.begin() + static_cast<std::ptrdiff_t>(p->num_inner);
    return static_cast<uint64_t>(std::lower_bound(halo, p->nodes.end(), node) - p->nodes.begin());
  };
  DglGraphSource graph;
  graph.num_nodes = part.nodes.size();
  graph.coo = DglCooSource{
      MadeArray<int64_t>("sources", DType::kInt64, num_edges,
                         [p, local](uint64_t i) { return local(p->edges[i].source); }),
      MadeArray<int64_t>("targets", DType::kInt64, num_edges,
                         [p, local](uint64_t i) { return local(p->edges[i].target); })};
  const absl::Span<const uint64_t> nodes = part.nodes;
  graph.node_data.push_back(Int64Array("_ID", nodes));
  graph.node_data.push_back(MadeArray<uint8_t>("inner_node", DType::kUint8, nodes.size(),
                                               [p](uint64_t i) { return i < p->num_inner; }));
  if (num_parts() > 1) {
    graph.node_data.push_back(Int64Array("part_id", absl::MakeConstSpan(part.owners)));
  }
  graph.node_data.push_back(Int64Array("_TYPE", absl::MakeConstSpan(part.node_types)));
  graph.node_data.push_back(Int64Array("orig_id", absl::MakeConstSpan(part.original_nodes)));
  graph.edge_data.push_back(MadeArray<int64_t>("_ID", DType::kInt64, num_edges,
                                               [p](uint64_t i) { return p->first_edge + i; }));
  graph.edge_data.push_back(
      MadeArray<uint8_t>("inner_edge", DType::kUint8, num_edges, [](uint64_t) { return 1; }));
  graph.edge_data.push_back(MadeArray<int64_t>("_TYPE", DType::kInt64, num_edges,
                                               [p](uint64_t i) { return p->edges[i].type; }));
  graph.edge_data.push_back(MadeArray<int64_t>("orig_id", DType::kInt64, num_edges,
                                               [p](uint64_t i) { return p->edges[i].original; }));
  return graph;
}

std::vector<ArraySource> ParmetisConverter::NodeFeatures(const ConvertedPart& part) const {
  std::vector<ArraySource> arrays;
  const uint64_t owner = OwnerOf(part.first_node);
  uint64_t first = 0;
  const std::vector<ParmetisType>& types = files_.schema.node_types;
  // A part without nodes has no owner of its first one: its counts are all 0.
  for (size_t type = 0; type < types.size(); ++type) {
    const uint64_t rows = part.num_inner == 0 ? 0 : node_counts_[owner][type];
    if (node_columns_[type].value_or(0) > 0) {
      arrays.push_back(AttributeRows(
          {absl::StrCat(types[type].name, "/feat"),
           files_.node_attributes,
           {rows, *node_columns_[type]}},
          [p = &part, first](uint64_t row) { return p->node_attributes[first + row]; }));
    }
    first += rows;
  }
  return arrays;
}

std::vector<ArraySource> ParmetisConverter::EdgeFeatures(const ConvertedPart& part) const {
  std::vector<ArraySource> arrays;
  uint64_t first = 0;
  for (size_t type = 0; type < edge_type_names_.size(); ++type) {
    uint64_t rows = 0;
    while (first + rows < part.edges.size() && part.edges[first + rows].type == type) ++rows;
    if (edge_columns_[type].value_or(0) > 0) {
      arrays.push_back(AttributeRows(
          {absl::StrCat(edge_type_names_[type], "/feat"),
           files_.edge_attributes,
           {rows, *edge_columns_[type]}},
          [p = &part, first](uint64_t row) { return p->edges[first + row].attributes; }));
    }
    first += rows;
  }
  return arrays;
}

}  // namespace packhouse
