#include "service/wings/partition/cutting/cluster_joiner.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// Of any parts, the joined graph is the induced one; of all parts it is the whole graph. What is
// not restored is inside the parts.
TEST(ClusterJoinerTest, JoinedPartsAreTheInducedGraph) {
  constexpr uint32_t kParts = 6;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    SeededRandom random(seed);
    std::vector<uint32_t> part(graph.num_nodes());
    for (uint32_t& p : part) p = static_cast<uint32_t>(random.Below(kParts));
    PH_ASSERT_OK_AND_ASSIGN(const NewIds ids, NewIds::Create(&graph, part, kParts));
    ClusterJoiner joiner(&ids);
    const ClusterJoiner::Sizes sizes = joiner.SizesOfParts();
    for (const std::vector<uint32_t>& parts :
         std::vector<std::vector<uint32_t>>{{}, {3}, {5, 0, 2}, {0, 1, 2, 3, 4, 5}}) {
      PH_ASSERT_OK_AND_ASSIGN(const InducedParts joined, joiner.Join(parts));
      const auto inside = [&](uint32_t node) {
        return std::find(parts.begin(), parts.end(), part[node]) != parts.end();
      };
      std::set<uint32_t> nodes;
      for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
        if (inside(node)) nodes.insert(node);
      }
      EXPECT_EQ(std::set<uint32_t>(joined.original_nodes.begin(), joined.original_nodes.end()),
                nodes);
      EXPECT_EQ(joined.nodes.size(), nodes.size());
      EXPECT_TRUE(std::is_sorted(joined.nodes.begin(), joined.nodes.end()));
      uint64_t edges = 0;
      std::set<uint64_t> seen(joined.original_edges.begin(), joined.original_edges.end());
      ASSERT_EQ(seen.size(), joined.original_edges.size());
      for (const HomogeneousEdgeType& type : graph.edge_types()) {
        for (uint32_t row = 0; row < type.by_source.num_rows(); ++row) {
          for (uint64_t at = type.by_source.offsets[row]; at < type.by_source.offsets[row + 1];
               ++at) {
            const uint32_t a = graph.node_types()[type.source].start + row;
            const uint32_t b =
                graph.node_types()[type.target].start + type.by_source.neighbours[at];
            const bool in = inside(a) && inside(b);
            ASSERT_EQ(seen.contains(type.start + type.by_source.edge(at)), in);
            edges += in ? 1 : 0;
          }
        }
      }
      EXPECT_EQ(joined.original_edges.size(), edges);
      uint64_t inner = 0;
      for (const uint32_t p : parts) {
        inner += std::accumulate(sizes.edges[p].begin(), sizes.edges[p].end(), uint64_t{0});
      }
      EXPECT_EQ(edges, inner + joined.restored_edges);
      for (size_t e = 0; e < joined.original_edges.size(); ++e) {
        const size_t t = graph.EdgeTypeOf(joined.original_edges[e]);
        ASSERT_EQ(graph.NodeTypeOf(joined.original_nodes[joined.sources[e]]),
                  graph.edge_types()[t].source);
        ASSERT_EQ(graph.NodeTypeOf(joined.original_nodes[joined.targets[e]]),
                  graph.edge_types()[t].target);
      }
    }
  }
}

TEST(ClusterJoinerTest, KeepsTheEndsOfEdgesAndRefusesWrongParts) {
  const auto source = OneSetGraph(4, {{0, 1}, {1, 2}, {2, 3}});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const NewIds ids, NewIds::Create(&graph, {2, 0, 0, 1}, 3));
  ClusterJoiner joiner(&ids);
  PH_ASSERT_OK_AND_ASSIGN(const InducedParts joined, joiner.Join({2, 0}));
  EXPECT_THAT(joined.original_nodes, testing::ElementsAre(1, 2, 0));
  EXPECT_THAT(joined.original_edges, testing::ElementsAre(0, 1));
  EXPECT_THAT(joined.sources, testing::ElementsAre(2, 0));
  EXPECT_THAT(joined.targets, testing::ElementsAre(0, 1));
  EXPECT_EQ(joined.restored_edges, 1U);
  EXPECT_THAT(joiner.Join({3}).status().message(), HasSubstr("no part 3 of 3"));
  EXPECT_THAT(joiner.Join({1, 1}).status().message(), HasSubstr("part 1 is to be joined twice"));
}

}  // namespace
}  // namespace packhouse
