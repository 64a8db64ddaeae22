// What is to be spread evenly over parts: numbers of nodes, and in-degrees, of classes; and weights
// that the graph brings along.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_BALANCE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_BALANCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// One weight of each node, whose sums over parts should be about equal.
struct BalanceConstraint {
  std::string name;
  uint32_t node_class = 0;  // Nodes of other classes weigh 0.
  bool degree = false;      // A node of the class weighs its in-degree, otherwise 1.
  // Which of the graph's own weights it is: then a node of any class weighs that.
  std::optional<size_t> weight;
  uint64_t total = 0;
  uint64_t bearers = 0;   // Nodes that weigh more than 0.
  uint64_t heaviest = 0;  // Weight of one node.

  // The most that one of `num_parts` parts should weigh. Not below what one node weighs, nor below
  // the mean, rounded up.
  uint64_t Limit(double imbalance, uint32_t num_parts) const;
};

// Why no partition into `num_parts` can meet the constraint; empty if one may.
std::string WhyHopeless(const BalanceConstraint& constraint, uint32_t num_parts);

// What follows "nodes" in the name of a constraint: ` of class 1 of "paper"`. `names` as
// NodeClasses::names.
std::string WordsOfClass(absl::Span<const std::string> names, uint32_t number,
                         absl::string_view node_set);

// The constraints that the options ask for (reference: DGL's partition_graph). Thread-safe.
class BalanceTerms {
 public:
  // Options must be checked. `graph` and `options` must outlive it. O(nodes); 2 bytes a node if
  // there are several classes, and 4 more with balance_edges.
  static BalanceTerms Create(const HomogeneousGraph* graph, const PartitionOptions& options);

  absl::Span<const BalanceConstraint> constraints() const { return constraints_; }
  uint32_t class_of(uint32_t node) const { return class_of_.empty() ? 0 : class_of_[node]; }
  uint64_t Weight(uint32_t node, size_t constraint) const {
    const BalanceConstraint& c = constraints_[constraint];
    if (c.weight) return weights_[*c.weight].of_node[node];
    if (class_of(node) != c.node_class) return 0;
    return c.degree ? degree_[node] : 1;
  }
  // visit(constraint) for each in which a node may weigh anything: its class's number, its class's
  // in-degree, and the graph's own weights.
  template <typename Visit>
  void ForEachConstraint(uint32_t node, Visit&& visit) const {
    const uint32_t c = class_of(node);
    if (count_of_class_[c] != kNone) visit(count_of_class_[c]);
    if (degree_of_class_[c] != kNone) visit(degree_of_class_[c]);
    for (size_t w = 0; w < weights_.size(); ++w) visit(first_weight_ + w);
  }

  // By constraint, the sums of the parts.
  std::vector<std::vector<uint64_t>> Loads(absl::Span<const uint32_t> part,
                                           uint32_t num_parts) const;
  // What was reached. `dropped` is empty, or has a reason for each constraint that was given up and
  // an empty string for the others.
  std::vector<BalanceReport> Report(absl::Span<const uint32_t> part, uint32_t num_parts,
                                    double imbalance, absl::Span<const std::string> dropped) const;

 private:
  void AddConstraints(const HomogeneousGraph& graph, const std::vector<std::string>& class_names,
                      bool counts, bool degrees);

  static constexpr size_t kNone = SIZE_MAX;

  std::vector<uint16_t> class_of_;  // Empty if there is one class.
  std::vector<uint32_t> degree_;    // Empty without degrees. Saturates.
  std::vector<BalanceConstraint> constraints_;
  std::vector<size_t> count_of_class_;
  std::vector<size_t> degree_of_class_;
  absl::Span<const NodeWeights> weights_;
  size_t first_weight_ = 0;  // The constraint of the first of them.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_BALANCE_H_
