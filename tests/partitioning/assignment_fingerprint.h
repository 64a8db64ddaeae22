// Laws of parts that are made again of the same arguments, by any machine and release: work that
// was begun goes on, and a partition that is lost can be made once more. Who changes what parts are
// changes the numbers of these laws.
#ifndef PACKHOUSE_TESTS_PARTITIONING_ASSIGNMENT_FINGERPRINT_H_
#define PACKHOUSE_TESTS_PARTITIONING_ASSIGNMENT_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/assignment.h"
#include "tests/support/fingerprint.h"

namespace packhouse {

// Everything that is told of parts.
inline void AddAssignment(const Assignment& assignment, Fingerprint& fingerprint) {
  fingerprint.Add(assignment.num_parts);
  fingerprint.AddAll(assignment.part);
  fingerprint.AddAll(assignment.trainer);
  fingerprint.Add(static_cast<uint64_t>(assignment.method));
  fingerprint.AddAll(assignment.reason);
  for (const std::string& note : assignment.notes) fingerprint.AddAll(note);
  fingerprint.Add(assignment.cut_edges);
  fingerprint.Add(assignment.volume);
  fingerprint.AddAll(assignment.nodes_of_part);
  fingerprint.AddAll(assignment.edges_of_part);
  for (const BalanceReport& balance : assignment.balance) {
    fingerprint.AddAll(balance.name);
    fingerprint.Add(balance.total);
    fingerprint.Add(balance.largest);
    fingerprint.AddDouble(balance.asked);
    fingerprint.AddDouble(balance.achieved);
    fingerprint.Add(balance.met ? 1 : 0);
    fingerprint.AddAll(balance.dropped);
  }
}

inline std::vector<uint64_t> RandomWeights(uint64_t count, uint64_t below, SeededRandom& random) {
  std::vector<uint64_t> weights(count);
  for (uint64_t& weight : weights) weight = random.Below(below);
  return weights;
}

// Some of each: parts, trainers, balance of edges, weights of nodes and edges, sizes, and classes
// of the first node set.
inline PartitionOptions RandomOptions(const HomogeneousGraph& graph, uint64_t seed) {
  SeededRandom random(seed);
  PartitionOptions options;
  options.num_parts = static_cast<uint32_t>(2 + seed % 4);
  options.trainers_per_machine = static_cast<uint32_t>(1 + seed / 4 % 2);
  options.balance_edges = seed % 3 == 0;
  options.imbalance = 1 + 0.05 * static_cast<double>(seed % 5);
  options.seed = seed;
  if (seed % 4 == 1) {
    for (const HomogeneousEdgeType& type : graph.edge_types()) {
      options.weights.edges.push_back(RandomWeights(type.size, 5, random));
    }
  }
  if (seed % 5 == 2) {
    options.weights.nodes = {{"heavy", RandomWeights(graph.num_nodes(), 9, random)}};
    options.weights.sizes = RandomWeights(graph.num_nodes(), 7, random);
  }
  if (seed % 6 > 3) {
    NodeClasses classes{0, {}, 3};
    for (uint64_t i = 0; i < graph.source().num_nodes(0); ++i) {
      classes.class_of.push_back(static_cast<uint16_t>(random.Below(3)));
    }
    options.classes = {classes};
  }
  return options;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITIONING_ASSIGNMENT_FINGERPRINT_H_
