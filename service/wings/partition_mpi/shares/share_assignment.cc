#include "service/wings/partition_mpi/shares/share_assignment.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/partition_mpi/shares/share_refiner.h"

namespace packhouse {
namespace {

// What was reached of each constraint. `finest` is of own nodes.
std::vector<BalanceReport> ReportBalance(Ranks& ranks, const NodeNeeds& needs,
                                         absl::Span<const uint32_t> finest,
                                         const PartitionOptions& options,
                                         absl::Span<const std::string> dropped) {
  const absl::Span<const BalanceConstraint> constraints = needs.constraints();
  const size_t num_parts = options.num_parts;
  std::vector<uint64_t> loads(constraints.size() * num_parts);
  for (uint64_t own = 0; own < finest.size(); ++own) {
    const NodeNeeds::Pair& pair = needs.ConstraintsOf(own);
    for (size_t i = 0; i < pair.count; ++i) {
      loads[pair.constraint[i] * num_parts + finest[own] / options.trainers_per_machine] +=
          needs.Weight(own, pair.constraint[i]);
    }
  }
  ranks.Sum(absl::MakeSpan(loads));
  std::vector<BalanceReport> reports;
  for (size_t c = 0; c < constraints.size(); ++c) {
    const absl::Span<const uint64_t> of_parts =
        absl::MakeConstSpan(loads).subspan(c * num_parts, num_parts);
    BalanceReport report;
    report.name = constraints[c].name;
    report.total = constraints[c].total;
    report.largest = *std::max_element(of_parts.begin(), of_parts.end());
    report.asked = options.imbalance;
    report.achieved = report.total == 0 ? 1
                                        : static_cast<double>(report.largest) * options.num_parts /
                                              static_cast<double>(report.total);
    report.met = report.largest <= constraints[c].Limit(options.imbalance, options.num_parts);
    report.dropped = dropped[c];
    reports.push_back(std::move(report));
  }
  return reports;
}

ShareAssignment Describe(Ranks& ranks, const GraphShare& graph, const NodeNeeds& needs,
                         const PartitionOptions& options, const ShareRefiner& refiner,
                         absl::Span<const std::string> dropped, std::string reason) {
  ShareAssignment assignment;
  assignment.finest = refiner.Parts();
  Assignment& description = assignment.description;
  description.num_parts = options.num_parts;
  description.reason = std::move(reason);
  PartFigures figures = refiner.Measure(graph.InDegrees(), options.trainers_per_machine);
  description.cut_edges = figures.cut_edges;
  description.volume = figures.volume;
  description.nodes_of_part = std::move(figures.nodes_of_part);
  description.edges_of_part = std::move(figures.edges_of_part);
  description.balance = ReportBalance(ranks, needs, assignment.finest, options, dropped);
  const auto empty =
      std::count(description.nodes_of_part.begin(), description.nodes_of_part.end(), uint64_t{0});
  if (empty > 0) description.notes.push_back(absl::StrCat(empty, " parts have no nodes"));
  return assignment;
}

// Runs of ids: what is left to do where an engine has nothing to go by.
std::vector<uint32_t> RunsOfIds(const GraphShare& graph, uint32_t num_parts) {
  const Blocks runs(graph.blocks().total(), num_parts);
  std::vector<uint32_t> part(graph.num_own());
  for (uint64_t own = 0; own < part.size(); ++own) {
    part[own] = runs.owner(graph.first_node() + own);
  }
  return part;
}

}  // namespace

absl::StatusOr<ShareAssignment> AssignShare(Ranks& ranks, const GraphShare& graph,
                                            absl::Span<const OwnClasses> classes,
                                            const PartitionOptions& options, ShareEngine& engine) {
  const uint32_t num_parts = options.num_parts * options.trainers_per_machine;
  const uint64_t num_nodes = graph.blocks().total();
  const NodeNeeds needs(ranks, graph, classes, options.balance_edges);
  std::vector<std::string> dropped;
  for (const BalanceConstraint& constraint : needs.constraints()) {
    dropped.push_back(num_parts == 1 ? "" : WhyHopeless(constraint, num_parts));
  }
  SymmetricShare symmetric = Symmetrize(ranks, graph);
  std::vector<uint32_t> part;
  std::string reason;
  bool refined = false;
  if (num_parts == 1 || num_parts >= num_nodes) {
    reason = num_parts == 1
                 ? "one part needs no partitioner"
                 : absl::StrCat("there are ", num_nodes, " nodes: each has a part of its own");
    for (uint64_t own = 0; own < graph.num_own(); ++own) {
      part.push_back(num_parts == 1 ? 0 : static_cast<uint32_t>(graph.first_node() + own));
    }
  } else if (symmetric.total_entries == 0) {
    reason = "no edge joins two nodes: parts are runs of nodes";
    part = RunsOfIds(graph, num_parts);
    refined = true;
  } else {
    reason = "asked for";
    std::vector<int64_t> weights = needs.JoinedWeights(num_nodes, dropped);
    PH_ASSIGN_OR_RETURN(
        part, engine.Assign(symmetric, weights, num_parts, options.imbalance, options.seed));
    refined = true;
  }
  ShareRefiner refiner(&ranks, graph.blocks(), std::move(symmetric), &needs, dropped, num_parts,
                       options.imbalance, std::move(part));
  if (!refined) return Describe(ranks, graph, needs, options, refiner, dropped, reason);
  const uint64_t before = refiner.Cut();
  refiner.FillEmptyParts();
  const bool met = refiner.RepairBalance();
  const uint64_t repaired = refiner.Cut();
  refiner.LowerCut();
  // The last node of a small part may have moved.
  refiner.FillEmptyParts();
  ShareAssignment assignment =
      Describe(ranks, graph, needs, options, refiner, dropped, std::move(reason));
  std::vector<std::string>& notes = assignment.description.notes;
  notes.push_back(absl::StrCat("the engine took one weight a node and cut ", before,
                               " edges; moves of our own for balance made it ", repaired,
                               ", those for the cut ", refiner.Cut()));
  size_t kept = 0;
  for (const BalanceReport& balance : assignment.description.balance) kept += balance.met ? 1 : 0;
  notes.push_back(absl::StrCat(kept, " of ", assignment.description.balance.size(),
                               " constraints on balance are met"));
  if (!met) notes.push_back("moves of our own could not meet every constraint");
  return assignment;
}

ShareAssignment DescribeShare(Ranks& ranks, const GraphShare& graph,
                              absl::Span<const OwnClasses> classes, const PartitionOptions& options,
                              std::vector<uint32_t> finest) {
  const NodeNeeds needs(ranks, graph, classes, options.balance_edges);
  const std::vector<std::string> dropped(needs.constraints().size());
  const ShareRefiner refiner(&ranks, graph.blocks(), Symmetrize(ranks, graph), &needs, dropped,
                             options.num_parts * options.trainers_per_machine, options.imbalance,
                             std::move(finest));
  return Describe(ranks, graph, needs, options, refiner, dropped, "");
}

}  // namespace packhouse
