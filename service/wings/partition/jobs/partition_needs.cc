#include "service/wings/partition/jobs/partition_needs.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"

namespace packhouse {
namespace {

constexpr uint64_t kBytesPerNode = 32;

absl::Status CheckColumns(const SourceGraph& graph, const PartitionPlan& plan) {
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    const PlannedClasses& given = plan.classes[i];
    const std::string field = absl::StrCat("balance_node_sets[", i, "]");
    const auto set = graph.schema().NodeSetIndex(given.node_set);
    if (!set) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".node_set: the graph has no node set ", Quoted(given.node_set)));
    }
    if (given.columns.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".columns: has none, must have at least 1"));
    }
    const auto& columns = graph.schema().node_sets()[*set].columns;
    for (const std::string& name : given.columns) {
      if (std::none_of(columns.begin(), columns.end(),
                       [&name](const auto& column) { return column.name == name; })) {
        return absl::InvalidArgumentError(absl::StrCat(
            field, ".columns: node set ", Quoted(given.node_set), " has no column ", Quoted(name)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PartitionNeeds> NeedsOf(const SourceGraph& graph, const PartitionPlan& plan,
                                       uint64_t most_bytes) {
  PH_ASSIGN_OR_RETURN(const HomogeneousGraph homogeneous, HomogeneousGraph::Create(&graph));
  const uint64_t entries = 2 * homogeneous.num_edges();
  const uint64_t of_nodes = kBytesPerNode * homogeneous.num_nodes();
  const uint64_t whole = kBytesPerEntry * entries + of_nodes;
  // What other methods keep: some bytes a node, and one part while it is written.
  const uint64_t least = whole / std::max(plan.options.num_parts, uint32_t{1}) + of_nodes;
  PartitionNeeds needs;
  const bool may_call_metis =
      plan.options.method == PartMethod::kMetis || plan.options.method == PartMethod::kAutomatic;
  needs.bytes = may_call_metis ? std::max(whole, least) : least;
  if (most_bytes == 0) return needs;
  if (plan.options.method == PartMethod::kAutomatic && needs.bytes > most_bytes / 2) {
    needs.bytes = std::max(most_bytes / 2, least);
    needs.assignment_bytes = needs.bytes;
  }
  if (needs.bytes > most_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("partition ", Quoted(plan.name), " needs ", needs.bytes, " bytes for ",
                     entries, " ends of edges, the bound of working memory is ", most_bytes,
                     may_call_metis ? " (the streaming method needs less)" : ""));
  }
  return needs;
}

absl::Status CheckPlanOf(const SourceGraph& graph, const PartitionPlan& plan) {
  PH_RETURN_IF_ERROR(CheckColumns(graph, plan));
  PH_ASSIGN_OR_RETURN(const HomogeneousGraph homogeneous, HomogeneousGraph::Create(&graph));
  return CheckPartitionOptions(homogeneous, plan.options);
}

}  // namespace packhouse
