#include "service/wings/partition_mpi/shares/node_needs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace packhouse {

NodeNeeds::NodeNeeds(Ranks& ranks, const GraphShare& graph, absl::Span<const OwnClasses> classes,
                     bool balance_edges)
    : num_own_(graph.num_own()) {
  const std::vector<SharedNodeType>& types = graph.types().node_types;
  std::vector<std::string> names;
  std::vector<uint16_t> first_class;
  std::vector<const OwnClasses*> given(types.size(), nullptr);
  for (const OwnClasses& of : classes) given[of.node_type] = &of;
  for (size_t t = 0; t < types.size(); ++t) {
    first_class.push_back(static_cast<uint16_t>(names.size()));
    if (given[t] == nullptr || given[t]->num_classes == 1) {
      names.push_back(types.size() == 1 ? "" : absl::StrCat(" of \"", types[t].name, "\""));
      continue;
    }
    for (uint32_t c = 0; c < given[t]->num_classes; ++c) {
      names.push_back(WordsOfClass(given[t]->names, c, types[t].name));
    }
  }
  if (names.size() > 1) {
    class_of_.resize(num_own_);
    for (size_t t = 0; t < types.size(); ++t) {
      const uint64_t begin = std::clamp(graph.first_node(), types[t].start, types[t].end());
      const uint64_t end =
          std::clamp(graph.first_node() + num_own_, types[t].start, types[t].end());
      for (uint64_t node = begin; node < end; ++node) {
        const uint16_t within = given[t] == nullptr ? 0 : given[t]->class_of[node - begin];
        class_of_[node - graph.first_node()] = static_cast<uint16_t>(first_class[t] + within);
      }
    }
  }
  if (balance_edges) degree_ = graph.InDegrees();
  // As DGL: with balanced edges and without classes, numbers of nodes are free.
  const bool counts = !balance_edges || names.size() > 1;
  of_class_.assign(names.size(), {});
  for (const bool degree : {false, true}) {
    if (!(degree ? balance_edges : counts)) continue;
    for (uint32_t c = 0; c < names.size(); ++c) {
      of_class_[c].constraint[of_class_[c].count++] = constraints_.size();
      BalanceConstraint constraint;
      constraint.name = absl::StrCat(degree ? "in-edges of nodes" : "nodes", names[c]);
      constraint.node_class = c;
      constraint.degree = degree;
      constraints_.push_back(std::move(constraint));
    }
  }
  std::vector<uint64_t> sums(2 * constraints_.size());
  std::vector<uint64_t> heaviest(constraints_.size());
  for (uint64_t own = 0; own < num_own_; ++own) {
    const Pair& pair = ConstraintsOf(own);
    for (size_t i = 0; i < pair.count; ++i) {
      const size_t c = pair.constraint[i];
      const uint64_t weight = Weight(own, c);
      sums[2 * c] += weight;
      sums[2 * c + 1] += weight > 0 ? 1 : 0;
      heaviest[c] = std::max(heaviest[c], weight);
    }
  }
  ranks.Sum(absl::MakeSpan(sums));
  ranks.Max(absl::MakeSpan(heaviest));
  for (size_t c = 0; c < constraints_.size(); ++c) {
    constraints_[c].total = sums[2 * c];
    constraints_[c].bearers = sums[2 * c + 1];
    constraints_[c].heaviest = heaviest[c];
  }
}

std::vector<int64_t> NodeNeeds::JoinedWeights(uint64_t num_nodes,
                                              absl::Span<const std::string> dropped) const {
  // A mean node has this much of each constraint.
  constexpr double kMean = 64;
  std::vector<double> scale(constraints_.size());
  size_t kept = 0;
  for (size_t c = 0; c < constraints_.size(); ++c) {
    if (!dropped[c].empty() || constraints_[c].total == 0) continue;
    scale[c] = kMean * static_cast<double>(num_nodes) / static_cast<double>(constraints_[c].total);
    ++kept;
  }
  std::vector<int64_t> weights(num_own_, 1);
  // One constraint of numbers: all nodes weigh the same.
  if (kept == 0 || (constraints_.size() == 1 && !constraints_[0].degree)) return weights;
  for (uint64_t own = 0; own < num_own_; ++own) {
    double weight = 0;
    const Pair& pair = ConstraintsOf(own);
    for (size_t i = 0; i < pair.count; ++i) {
      weight += scale[pair.constraint[i]] * static_cast<double>(Weight(own, pair.constraint[i]));
    }
    weights[own] = std::max<int64_t>(std::llround(weight), 1);
  }
  return weights;
}

}  // namespace packhouse
