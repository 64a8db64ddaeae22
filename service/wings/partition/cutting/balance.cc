#include "service/wings/partition/cutting/balance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace packhouse {

uint64_t BalanceConstraint::Limit(double imbalance, uint32_t num_parts) const {
  const double mean = static_cast<double>(total) / num_parts;
  const auto even = static_cast<uint64_t>(std::ceil(mean));
  return std::max({static_cast<uint64_t>(imbalance * mean), even, heaviest});
}

std::string WhyHopeless(const BalanceConstraint& constraint, uint32_t num_parts) {
  if (constraint.total == 0) return "there are none";
  if (constraint.bearers < num_parts) {
    return absl::StrCat("only ", constraint.bearers, " nodes have any, for ", num_parts, " parts");
  }
  return "";
}

std::string WordsOfClass(absl::Span<const std::string> names, uint32_t number,
                         absl::string_view node_set) {
  if (number < names.size() && !names[number].empty()) {
    return absl::StrCat(" in ", names[number], " of \"", node_set, "\"");
  }
  return absl::StrCat(" of class ", number, " of \"", node_set, "\"");
}

BalanceTerms BalanceTerms::Create(const HomogeneousGraph* graph, const PartitionOptions& options) {
  BalanceTerms terms;
  std::vector<std::string> names;
  // Types in order, each with its classes.
  std::vector<const NodeClasses*> classes(graph->node_types().size(), nullptr);
  std::vector<uint16_t> first_class(graph->node_types().size());
  for (size_t t = 0; t < graph->node_types().size(); ++t) {
    const HomogeneousNodeType& type = graph->node_types()[t];
    for (const NodeClasses& given : options.classes) {
      if (given.node_set == type.node_set) classes[t] = &given;
    }
    first_class[t] = static_cast<uint16_t>(names.size());
    if (classes[t] == nullptr || classes[t]->num_classes == 1) {
      names.push_back(graph->node_types().size() == 1 ? ""
                                                      : absl::StrCat(" of \"", type.name, "\""));
    } else {
      for (uint32_t c = 0; c < classes[t]->num_classes; ++c) {
        names.push_back(WordsOfClass(classes[t]->names, c, type.name));
      }
    }
  }
  if (names.size() > 1) {
    terms.class_of_.resize(graph->num_nodes());
    for (size_t t = 0; t < graph->node_types().size(); ++t) {
      const HomogeneousNodeType& type = graph->node_types()[t];
      for (uint32_t row = 0; row < type.size; ++row) {
        const uint16_t within = classes[t] == nullptr ? 0 : classes[t]->class_of[row];
        terms.class_of_[type.start + row] = static_cast<uint16_t>(first_class[t] + within);
      }
    }
  }
  terms.weights_ = options.weights.nodes;
  // As DGL: with balanced edges and without classes, numbers of nodes are free. As METIS: with
  // weights they are, too.
  const bool counts = (!options.balance_edges && terms.weights_.empty()) || names.size() > 1;
  terms.AddConstraints(*graph, names, counts, options.balance_edges);
  return terms;
}

void BalanceTerms::AddConstraints(const HomogeneousGraph& graph,
                                  const std::vector<std::string>& class_names, bool counts,
                                  bool degrees) {
  const size_t num_classes = class_names.size();
  count_of_class_.assign(num_classes, kNone);
  degree_of_class_.assign(num_classes, kNone);
  if (degrees) {
    degree_.resize(graph.num_nodes());
    for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
      degree_[node] = static_cast<uint32_t>(std::min<uint64_t>(graph.InDegree(node), UINT32_MAX));
    }
  }
  for (const bool degree : {false, true}) {
    if (!(degree ? degrees : counts)) continue;
    for (uint32_t c = 0; c < num_classes; ++c) {
      (degree ? degree_of_class_ : count_of_class_)[c] = constraints_.size();
      BalanceConstraint constraint;
      constraint.name = absl::StrCat(degree ? "in-edges of nodes" : "nodes", class_names[c]);
      constraint.node_class = c;
      constraint.degree = degree;
      constraints_.push_back(std::move(constraint));
    }
  }
  first_weight_ = constraints_.size();
  for (size_t w = 0; w < weights_.size(); ++w) {
    BalanceConstraint constraint;
    constraint.name = weights_[w].name;
    constraint.weight = w;
    constraints_.push_back(std::move(constraint));
  }
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    ForEachConstraint(node, [this, node](size_t c) {
      const uint64_t weight = Weight(node, c);
      constraints_[c].total += weight;
      constraints_[c].bearers += weight > 0 ? 1 : 0;
      constraints_[c].heaviest = std::max(constraints_[c].heaviest, weight);
    });
  }
}

std::vector<std::vector<uint64_t>> BalanceTerms::Loads(absl::Span<const uint32_t> part,
                                                       uint32_t num_parts) const {
  std::vector<std::vector<uint64_t>> loads(constraints_.size(), std::vector<uint64_t>(num_parts));
  for (uint32_t node = 0; node < part.size(); ++node) {
    ForEachConstraint(node, [&](size_t c) { loads[c][part[node]] += Weight(node, c); });
  }
  return loads;
}

std::vector<BalanceReport> BalanceTerms::Report(absl::Span<const uint32_t> part, uint32_t num_parts,
                                                double imbalance,
                                                absl::Span<const std::string> dropped) const {
  const std::vector<std::vector<uint64_t>> loads = Loads(part, num_parts);
  std::vector<BalanceReport> reports;
  for (size_t c = 0; c < constraints_.size(); ++c) {
    const BalanceConstraint& constraint = constraints_[c];
    BalanceReport report;
    report.name = constraint.name;
    report.total = constraint.total;
    report.largest = *std::max_element(loads[c].begin(), loads[c].end());
    report.asked = imbalance;
    report.achieved = constraint.total == 0 ? 1
                                            : static_cast<double>(report.largest) * num_parts /
                                                  static_cast<double>(constraint.total);
    report.met = report.largest <= constraint.Limit(imbalance, num_parts);
    if (!dropped.empty()) report.dropped = dropped[c];
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace packhouse
