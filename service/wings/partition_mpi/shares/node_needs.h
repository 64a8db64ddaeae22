// What is to be spread evenly over parts, as a rank knows it of its own nodes.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_NODE_NEEDS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_NODE_NEEDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/cutting/balance.h"
#include "service/wings/partition_mpi/shares/graph_share.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// Classes of the nodes of one type that are this rank's own.
struct OwnClasses {
  size_t node_type = 0;
  std::vector<uint16_t> class_of;  // In the order of ids, each below num_classes.
  uint32_t num_classes = 1;
  std::vector<std::string> names = {};  // As NodeClasses::names.
};

// The constraints of BalanceTerms, of the same names, with the weights of own nodes. Totals are of
// all ranks.
class NodeNeeds {
 public:
  // Classes must be checked; types without are one class each. 2 bytes an own node if there are
  // several classes, and 8 more with `balance_edges`.
  NodeNeeds(Ranks& ranks, const GraphShare& graph, absl::Span<const OwnClasses> classes,
            bool balance_edges);

  absl::Span<const BalanceConstraint> constraints() const { return constraints_; }
  uint64_t Weight(uint64_t own, size_t constraint) const {
    const BalanceConstraint& c = constraints_[constraint];
    if ((class_of_.empty() ? 0 : class_of_[own]) != c.node_class) return 0;
    return c.degree ? degree_[own] : 1;
  }
  // The constraints in which a node may weigh something: at most two.
  struct Pair {
    size_t constraint[2];
    size_t count;
  };
  const Pair& ConstraintsOf(uint64_t own) const {
    return of_class_[class_of_.empty() ? 0 : class_of_[own]];
  }

  // One weight for each own node, at least 1: the sum of its shares in all constraints that have no
  // reason in `dropped`. So each of them has about the same sum, and scarce nodes weigh more.
  std::vector<int64_t> JoinedWeights(uint64_t num_nodes,
                                     absl::Span<const std::string> dropped) const;

 private:
  std::vector<uint16_t> class_of_;  // Empty if there is one class.
  std::vector<uint64_t> degree_;    // Empty without degrees.
  uint64_t num_own_;
  std::vector<BalanceConstraint> constraints_;
  std::vector<Pair> of_class_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_NODE_NEEDS_H_
