// Source graphs for tests of partitions.
#ifndef PACKHOUSE_TESTS_PARTITIONING_RANDOM_SOURCE_GRAPHS_H_
#define PACKHOUSE_TESTS_PARTITIONING_RANDOM_SOURCE_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"

namespace packhouse {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

// One node set and one edge set.
inline std::unique_ptr<const SourceGraph> OneSetGraph(uint32_t nodes, const Pairs& edges) {
  MemoryEdgeSet set;
  for (const auto& [source, target] : edges) {
    set.sources.push_back(source);
    set.targets.push_back(target);
  }
  return *MakeMemorySourceGraph(
      *SourceGraphSchema::Create({{"_N", {}}}, {{"_E", 0, 0, {}, std::nullopt}}), 1,
      {{nodes, {}, {}, {}}}, {std::move(set)});
}

// A ring of `clusters`, each of `size` nodes that are all joined; one edge between neighbouring
// clusters.
inline Pairs RingOfCliques(uint32_t clusters, uint32_t size) {
  Pairs edges;
  for (uint32_t c = 0; c < clusters; ++c) {
    for (uint32_t a = 0; a < size; ++a) {
      for (uint32_t b = 0; b < a; ++b) edges.emplace_back(c * size + a, c * size + b);
    }
    edges.emplace_back(c * size, (c + 1) % clusters * size + 1);
  }
  return edges;
}

// Up to 3 node sets, some empty, named so that the order of names is not that of sets; up to 5 edge
// sets, some empty and some the reverse of others; self loops, duplicates and isolated nodes.
inline std::unique_ptr<const SourceGraph> RandomSourceGraph(uint64_t seed) {
  SeededRandom random(seed);
  const size_t num_node_sets = 1 + random.Below(3);
  std::vector<SourceNodeSetSpec> node_specs;
  std::vector<MemoryNodeSet> node_sets;
  for (size_t n = 0; n < num_node_sets; ++n) {
    node_specs.push_back({absl::StrCat("n", (n + seed) % num_node_sets), {}});
    node_sets.push_back({random.Below(5) == 0 ? 0 : 1 + random.Below(30), {}, {}, {}});
  }
  std::vector<SourceEdgeSetSpec> edge_specs;
  std::vector<MemoryEdgeSet> edge_sets;
  const size_t num_edge_sets = random.Below(6);
  for (size_t e = 0; e < num_edge_sets; ++e) {
    const std::string name = absl::StrCat("e", 9 - e);
    MemoryEdgeSet set;
    if (e > 0 && random.Below(4) == 0 && !edge_specs[e - 1].reverse_of.has_value()) {
      edge_specs.push_back({name, edge_specs[e - 1].target, edge_specs[e - 1].source, {}, e - 1});
    } else {
      const size_t source = random.Below(num_node_sets);
      const size_t target = random.Below(num_node_sets);
      edge_specs.push_back({name, source, target, {}, std::nullopt});
      if (node_sets[source].num_nodes > 0 && node_sets[target].num_nodes > 0) {
        for (uint64_t i = random.Below(120); i > 0; --i) {
          set.sources.push_back(static_cast<uint32_t>(random.Below(node_sets[source].num_nodes)));
          set.targets.push_back(static_cast<uint32_t>(random.Below(node_sets[target].num_nodes)));
        }
      }
    }
    edge_sets.push_back(std::move(set));
  }
  return *MakeMemorySourceGraph(*SourceGraphSchema::Create(std::move(node_specs), edge_specs), 1,
                                std::move(node_sets), std::move(edge_sets));
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITIONING_RANDOM_SOURCE_GRAPHS_H_
