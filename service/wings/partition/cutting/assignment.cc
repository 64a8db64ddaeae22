#include "service/wings/partition/cutting/assignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/balance.h"
#include "service/wings/partition/cutting/metis_assignment.h"
#include "service/wings/partition/cutting/simple_parts.h"

namespace packhouse {
namespace {

absl::Status CheckClasses(const HomogeneousGraph& graph, const PartitionOptions& options) {
  const SourceGraph& source = graph.source();
  std::vector<bool> seen(source.schema().node_sets().size());
  uint64_t classes = graph.node_types().size();
  for (const NodeClasses& given : options.classes) {
    if (given.node_set >= seen.size()) {
      return absl::InvalidArgumentError(absl::StrCat("classes of node set ", given.node_set,
                                                     ", beyond ", seen.size(), " node sets"));
    }
    const std::string& name = source.schema().node_sets()[given.node_set].name;
    if (seen[given.node_set]) {
      return absl::InvalidArgumentError(absl::StrCat("node set \"", name, "\" has classes twice"));
    }
    seen[given.node_set] = true;
    if (given.class_of.size() != source.num_nodes(given.node_set)) {
      return absl::InvalidArgumentError(absl::StrCat("classes of ", given.class_of.size(),
                                                     " nodes for node set \"", name, "\" of ",
                                                     source.num_nodes(given.node_set)));
    }
    for (size_t node = 0; node < given.class_of.size(); ++node) {
      if (given.class_of[node] >= given.num_classes) {
        return absl::InvalidArgumentError(absl::StrCat("node ", node, " of \"", name,
                                                       "\" has class ", given.class_of[node],
                                                       ", beyond ", given.num_classes, " classes"));
      }
    }
    classes += std::max<uint64_t>(given.num_classes, 1) - 1;
  }
  if (classes > PartitionOptions::kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat(classes, " classes of nodes (each node set without is one), beyond ",
                     PartitionOptions::kMaxClasses));
  }
  return absl::OkStatus();
}

// Counts what the parts, as they are, hold and cut.
absl::Status Measure(const HomogeneousGraph& graph, const PartitionWatch& watch,
                     Assignment& assignment) {
  constexpr uint32_t kNodesBetweenLooks = 1 << 14;
  const std::vector<uint32_t>& part = assignment.part;
  assignment.nodes_of_part.assign(assignment.num_parts, 0);
  assignment.edges_of_part.assign(assignment.num_parts, 0);
  std::vector<uint32_t> seen_by(assignment.num_parts, UINT32_MAX);
  uint64_t cut_ends = 0;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    if (node % kNodesBetweenLooks == 0 && watch.IsCancelled()) {
      return absl::CancelledError("partitioning was cancelled");
    }
    const uint32_t own = part[node];
    ++assignment.nodes_of_part[own];
    assignment.edges_of_part[own] += graph.InDegree(node);
    graph.ForEachNeighbour(node, [&](uint32_t other) {
      const uint32_t p = part[other];
      if (p == own) return;
      ++cut_ends;
      assignment.volume += std::exchange(seen_by[p], node) != node ? 1 : 0;
    });
  }
  assignment.cut_edges = cut_ends / 2;
  const auto empty =
      std::count(assignment.nodes_of_part.begin(), assignment.nodes_of_part.end(), 0);
  if (empty > 0) assignment.notes.push_back(absl::StrCat(empty, " parts have no nodes"));
  return absl::OkStatus();
}

// Which of the graph's own weights were heeded, and what was reached by them.
void TellOfWeights(const HomogeneousGraph& graph, const GraphWeights& weights,
                   Assignment& assignment) {
  const std::vector<uint32_t>& part = assignment.part;
  if (!weights.nodes.empty()) {
    assignment.notes.push_back(absl::StrCat(
        "the graph's own weights of nodes are balanced (", weights.nodes.size(),
        weights.nodes.size() == 1 ? " constraint" : " constraints", "), not the number of nodes"));
  }
  if (!weights.edges.empty()) {
    uint64_t cut = 0;
    uint64_t all = 0;
    for (size_t t = 0; t < graph.edge_types().size(); ++t) {
      for (const uint64_t weight : weights.edges[t]) all += weight;
    }
    for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
      graph.ForEachWeighted(node, weights.edges, [&](uint32_t other, uint64_t weight) {
        cut += part[other] != part[node] ? weight : 0;
      });
    }
    // Each edge is there in both directions, and was met at both ends.
    assignment.notes.push_back(absl::StrCat("edges have weights: those that are cut weigh ",
                                            cut / 4, " of ", all / 2, ", each counted once"));
  }
  if (!weights.sizes.empty()) {
    assignment.notes.push_back(
        "nodes have sizes: they are heeded where the objective is the volume (--objtype vol)");
  }
}

// False if the sum exceeds 2^62: four of them, each edge in both directions at both ends, still
// fit.
bool AddWeights(absl::Span<const uint64_t> weights, uint64_t* sum) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  for (const uint64_t weight : weights) {
    if (weight > kMost || *sum + weight > kMost) return false;
    *sum += weight;
  }
  return true;
}

absl::Status CheckWeights(const HomogeneousGraph& graph, const GraphWeights& weights) {
  const auto is_for_nodes = [&graph](const std::vector<uint64_t>& values) {
    return values.size() == graph.num_nodes();
  };
  bool fits = weights.nodes.size() <= GraphWeights::kMaxConstraints &&
              (weights.sizes.empty() || is_for_nodes(weights.sizes)) &&
              (weights.edges.empty() || weights.edges.size() == graph.edge_types().size());
  for (const NodeWeights& of : weights.nodes) fits = fits && is_for_nodes(of.of_node);
  for (size_t t = 0; fits && t < weights.edges.size(); ++t) {
    fits = weights.edges[t].size() == graph.edge_types()[t].size;
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights must be as many as the graph's nodes or edges, and at most ",
                     GraphWeights::kMaxConstraints, " a node"));
  }
  const auto too_heavy = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": they add up to more than 2^62"));
  };
  for (const NodeWeights& of : weights.nodes) {
    uint64_t sum = 0;
    if (!AddWeights(of.of_node, &sum)) return too_heavy(of.name);
  }
  uint64_t sum = 0;
  for (const std::vector<uint64_t>& of_type : weights.edges) {
    if (!AddWeights(of_type, &sum)) return too_heavy("weights of edges, in both directions");
  }
  return absl::OkStatus();
}

// Turns parts for trainers into parts, and describes them. `dropped` as BalanceTerms::Report.
absl::StatusOr<Assignment> Describe(const HomogeneousGraph& graph, const BalanceTerms& terms,
                                    const PartitionOptions& options, std::vector<uint32_t> part,
                                    absl::Span<const std::string> dropped,
                                    const PartitionWatch& watch, Assignment assignment) {
  assignment.num_parts = options.num_parts;
  assignment.part = std::move(part);
  if (options.trainers_per_machine > 1) {
    assignment.trainer = assignment.part;
    for (uint32_t& p : assignment.part) p /= options.trainers_per_machine;
  }
  PH_RETURN_IF_ERROR(Measure(graph, watch, assignment));
  TellOfWeights(graph, options.weights, assignment);
  assignment.balance = terms.Report(assignment.part, options.num_parts, options.imbalance, dropped);
  return assignment;
}

// Reasons against constraints that no partition can meet.
std::vector<std::string> HopelessConstraints(const BalanceTerms& terms, uint32_t num_parts) {
  std::vector<std::string> reasons;
  for (const BalanceConstraint& constraint : terms.constraints()) {
    reasons.push_back(WhyHopeless(constraint, num_parts));
  }
  return reasons;
}

}  // namespace

absl::Status CheckPartitionNumbers(const PartitionOptions& options) {
  const uint64_t parts = uint64_t{options.num_parts} * options.trainers_per_machine;
  if (parts == 0 || parts > PartitionOptions::kMaxParts) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.num_parts, " parts of ", options.trainers_per_machine,
        " trainers: together they must be at least 1 and at most ", PartitionOptions::kMaxParts));
  }
  if (options.num_hops == 0 || options.num_hops > PartitionOptions::kMaxHops) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_hops is ", options.num_hops,
                     ", but must be at least 1 (with 0, cut edges would belong ",
                     "to no part) and at most ", PartitionOptions::kMaxHops));
  }
  if (options.halo == HaloKind::kInEdges && options.num_hops != 1) {
    return absl::InvalidArgumentError(absl::StrCat("num_hops is ", options.num_hops,
                                                   ", but must be 1 for a halo of in-edges only"));
  }
  if (!std::isfinite(options.imbalance) || options.imbalance < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("imbalance is ", options.imbalance, ", but must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckPartitionOptions(const HomogeneousGraph& graph, const PartitionOptions& options) {
  PH_RETURN_IF_ERROR(CheckPartitionNumbers(options));
  PH_RETURN_IF_ERROR(CheckClasses(graph, options));
  return CheckWeights(graph, options.weights);
}

absl::StatusOr<Assignment> AssignParts(const HomogeneousGraph& graph,
                                       const PartitionOptions& options, AssignmentEngine* engine,
                                       const PartitionWatch& watch) {
  PH_RETURN_IF_ERROR(CheckPartitionOptions(graph, options));
  const BalanceTerms terms = BalanceTerms::Create(&graph, options);
  const uint32_t num_parts = options.num_parts * options.trainers_per_machine;
  const auto describe = [&](std::vector<uint32_t> part, absl::Span<const std::string> dropped,
                            Assignment assignment) {
    return Describe(graph, terms, options, std::move(part), dropped, watch, std::move(assignment));
  };
  Assignment assignment;
  assignment.method =
      options.method == PartMethod::kAutomatic ? PartMethod::kMetis : options.method;
  if (num_parts == 1 || num_parts >= graph.num_nodes()) {
    assignment.reason = num_parts == 1 ? "one part needs no partitioner"
                                       : absl::StrCat("there are ", graph.num_nodes(),
                                                      " nodes: each has a part of its own");
    std::vector<uint32_t> part(graph.num_nodes());
    if (num_parts > 1) std::iota(part.begin(), part.end(), 0);
    return describe(std::move(part), {}, std::move(assignment));
  }
  if (options.method == PartMethod::kRandom) {
    assignment.reason = "asked for";
    return describe(RandomParts(graph.num_nodes(), num_parts, options.seed), {},
                    std::move(assignment));
  }

  absl::Status refusal = absl::OkStatus();
  if (options.method != PartMethod::kStreaming) {
    refusal = engine == nullptr
                  ? absl::FailedPreconditionError("METIS cannot be called here")
                  : CheckMetisTakes(graph, terms.constraints().size(), options.memory_bytes);
    if (refusal.ok()) {
      absl::StatusOr<MetisParts> found =
          AssignByMetis(graph, terms, options, num_parts, *engine, watch);
      if (found.ok()) {
        assignment.method = PartMethod::kMetis;
        assignment.reason = options.method == PartMethod::kMetis
                                ? "asked for"
                                : "the graph fits METIS and its memory";
        assignment.notes = std::move(found->notes);
        return describe(std::move(found->part), found->dropped, std::move(assignment));
      }
      refusal = found.status();
    }
    if (options.method == PartMethod::kMetis || absl::IsCancelled(refusal)) return refusal;
  }
  assignment.method = PartMethod::kStreaming;
  assignment.reason =
      refusal.ok() ? "asked for" : absl::StrCat("METIS cannot be used: ", refusal.message());
  const std::vector<std::string> hopeless = HopelessConstraints(terms, num_parts);
  PH_ASSIGN_OR_RETURN(std::vector<uint32_t> part,
                      StreamParts(graph, terms, options.weights.edges, hopeless, options.imbalance,
                                  num_parts, options.seed, watch));
  return describe(std::move(part), hopeless, std::move(assignment));
}

absl::StatusOr<Assignment> DescribeParts(const HomogeneousGraph& graph,
                                         const PartitionOptions& options,
                                         std::vector<uint32_t> part, const PartitionWatch& watch) {
  PH_RETURN_IF_ERROR(CheckPartitionOptions(graph, options));
  if (part.size() != graph.num_nodes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parts of ", part.size(), " nodes for a graph of ", graph.num_nodes(), " nodes"));
  }
  const uint32_t num_parts = options.num_parts * options.trainers_per_machine;
  for (uint32_t node = 0; node < part.size(); ++node) {
    if (part[node] >= num_parts) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", node, " has part ", part[node], ", beyond ", num_parts, " parts"));
    }
  }
  const BalanceTerms terms = BalanceTerms::Create(&graph, options);
  return Describe(graph, terms, options, std::move(part), {}, watch, {});
}

}  // namespace packhouse
