#include "service/wings/partition/cutting/homogeneous_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// The middle of source:relation:target if the set is named after its own ends, otherwise its name.
absl::string_view RelationOf(const SourceGraphSchema& schema, const SourceEdgeSetSpec& set) {
  const std::string& source = schema.node_sets()[set.source].name;
  const std::string& target = schema.node_sets()[set.target].name;
  absl::string_view relation = set.name;
  if (absl::ConsumePrefix(&relation, absl::StrCat(source, ":")) &&
      absl::ConsumeSuffix(&relation, absl::StrCat(":", target)) && !relation.empty()) {
    return relation;
  }
  return set.name;
}

absl::Status CheckNoColon(absl::string_view kind, absl::string_view name) {
  if (!absl::StrContains(name, ':')) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      kind, " \"", name, "\" has a colon in its name, which separates the names of an edge type"));
}

}  // namespace

absl::StatusOr<HomogeneousGraph> HomogeneousGraph::Create(const SourceGraph* graph) {
  const SourceGraphSchema& schema = graph->schema();
  HomogeneousGraph result(graph);
  for (size_t set = 0; set < schema.node_sets().size(); ++set) {
    const std::string& name = schema.node_sets()[set].name;
    PH_RETURN_IF_ERROR(CheckNoColon("node set", name));
    HomogeneousNodeType type{name, set, 0, static_cast<uint32_t>(graph->num_nodes(set)), {}};
    // Where a node was there twice, rows have gaps and are no ids: numbers are.
    if (graph->NodesOfRows(set).num_rows() == graph->num_nodes(set)) {
      type.imported = graph->NodeRows(set);
      PH_RETURN_IF_ERROR(type.imported.numbers().CheckAll());
    }
    result.node_types_.push_back(std::move(type));
  }
  std::sort(result.node_types_.begin(), result.node_types_.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  uint64_t nodes = 0;
  std::vector<size_t> type_of_set(result.node_types_.size());
  for (size_t t = 0; t < result.node_types_.size(); ++t) {
    HomogeneousNodeType& type = result.node_types_[t];
    type_of_set[type.node_set] = t;
    type.start = static_cast<uint32_t>(nodes);
    nodes += type.size;
    if (nodes > SourceGraph::kMaxNodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a graph to partition has at most ", SourceGraph::kMaxNodes,
                       " nodes of all types; with node set \"", type.name, "\" it has ", nodes));
    }
  }
  result.num_nodes_ = static_cast<uint32_t>(nodes);

  for (size_t set = 0; set < schema.edge_sets().size(); ++set) {
    const SourceEdgeSetSpec& spec = schema.edge_sets()[set];
    HomogeneousEdgeType type;
    type.relation = std::string(RelationOf(schema, spec));
    PH_RETURN_IF_ERROR(CheckNoColon("edge set", type.relation));
    type.edge_set = set;
    type.source = type_of_set[spec.source];
    type.target = type_of_set[spec.target];
    type.name = absl::StrCat(schema.node_sets()[spec.source].name, ":", type.relation, ":",
                             schema.node_sets()[spec.target].name);
    type.size = graph->num_edges(set);
    type.imported = graph->EdgeRows(set);
    PH_RETURN_IF_ERROR(type.imported.numbers().CheckAll());
    PH_ASSIGN_OR_RETURN(type.by_source, graph->BySource(set));
    PH_ASSIGN_OR_RETURN(type.by_target, graph->ByTarget(set));
    result.edge_types_.push_back(std::move(type));
  }
  // Node types are in the order of their names, so that their numbers stand for them.
  const auto key = [](const HomogeneousEdgeType& t) {
    return std::tie(t.source, t.relation, t.target);
  };
  std::sort(result.edge_types_.begin(), result.edge_types_.end(),
            [&key](const auto& a, const auto& b) { return key(a) < key(b); });
  result.into_.resize(result.node_types_.size());
  result.out_of_.resize(result.node_types_.size());
  for (size_t e = 0; e < result.edge_types_.size(); ++e) {
    HomogeneousEdgeType& type = result.edge_types_[e];
    if (e > 0 && key(type) == key(result.edge_types_[e - 1])) {
      return absl::InvalidArgumentError(
          absl::StrCat("two edge sets are the edge type \"", type.name, "\""));
    }
    type.start = result.num_edges_;
    result.num_edges_ += type.size;
    result.into_[type.target].push_back(e);
    result.out_of_[type.source].push_back(e);
  }
  return result;
}

}  // namespace packhouse
