#include "service/wings/partition/cutting/part_cutter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

struct PlainEdge {
  uint32_t source;
  uint32_t target;
  size_t type;
};

// All edges by their homogeneous id, read from the rows by source (the code reads mostly those by
// target).
std::vector<PlainEdge> PlainEdges(const HomogeneousGraph& graph) {
  std::vector<PlainEdge> edges(graph.num_edges());
  for (size_t t = 0; t < graph.edge_types().size(); ++t) {
    const HomogeneousEdgeType& type = graph.edge_types()[t];
    for (uint32_t row = 0; row < type.by_source.num_rows(); ++row) {
      for (uint64_t at = type.by_source.offsets[row]; at < type.by_source.offsets[row + 1]; ++at) {
        edges[type.start + type.by_source.edge(at)] = {
            graph.node_types()[type.source].start + row,
            graph.node_types()[type.target].start + type.by_source.neighbours[at], t};
      }
    }
  }
  return edges;
}

std::vector<uint32_t> RandomPartNumbers(uint32_t nodes, uint32_t num_parts, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint32_t> part(nodes);
  for (uint32_t& p : part) p = static_cast<uint32_t>(random.Below(num_parts));
  return part;
}

// New ids as their definition says, by sorting everything.
class SlowIds {
 public:
  SlowIds(const HomogeneousGraph& graph, const std::vector<uint32_t>& part, uint32_t num_parts)
      : edges_(PlainEdges(graph)), node_new(part.size()) {
    for (uint32_t v = 0; v < part.size(); ++v) node_original.push_back(v);
    std::sort(node_original.begin(), node_original.end(), [&](uint32_t a, uint32_t b) {
      return std::make_tuple(part[a], graph.NodeTypeOf(a), a) <
             std::make_tuple(part[b], graph.NodeTypeOf(b), b);
    });
    for (uint32_t id = 0; id < part.size(); ++id) node_new[node_original[id]] = id;
    for (uint64_t e = 0; e < edges_.size(); ++e) edge_original.push_back(e);
    if (num_parts == 1) return;
    std::sort(edge_original.begin(), edge_original.end(), [&](uint64_t a, uint64_t b) {
      const PlainEdge& x = edges_[a];
      const PlainEdge& y = edges_[b];
      return std::make_tuple(part[x.target], x.type, node_new[x.target], a) <
             std::make_tuple(part[y.target], y.type, node_new[y.target], b);
    });
  }
  // Of a new edge: new ids.
  uint32_t source(uint64_t edge) const { return node_new[edges_[edge_original[edge]].source]; }
  uint32_t target(uint64_t edge) const { return node_new[edges_[edge_original[edge]].target]; }
  const PlainEdge& original(uint64_t edge) const { return edges_[edge_original[edge]]; }

 private:
  const std::vector<PlainEdge> edges_;

 public:
  std::vector<uint32_t> node_original;
  std::vector<uint32_t> node_new;
  std::vector<uint64_t> edge_original;
};

void ExpectTiles(const std::vector<std::vector<IdRange>>& map, uint32_t num_parts, uint64_t total) {
  uint64_t at = 0;
  for (uint32_t p = 0; p < num_parts; ++p) {
    for (const std::vector<IdRange>& type : map) {
      ASSERT_EQ(type[p].begin, at);
      ASSERT_LE(at, type[p].end);
      at = type[p].end;
    }
  }
  EXPECT_EQ(at, total);
}

// The nodes and edges of one part, by what a halo is, looking at all edges for each level.
void ExpectMembers(const Part& part, const NewIds& ids, const SlowIds& slow, uint32_t hops,
                   HaloKind halo) {
  const IdRange own = ids.NodesOfPart(part.number);
  const auto is_own = [&own](uint32_t node) { return node >= own.begin && node < own.end; };
  std::set<uint32_t> nodes;
  for (uint64_t id = own.begin; id < own.end; ++id) nodes.insert(static_cast<uint32_t>(id));
  std::set<uint32_t> level = nodes;
  std::set<uint64_t> edges;
  const uint64_t num_edges = slow.edge_original.size();
  for (uint32_t hop = 0; hop < hops && ids.num_parts() > 1; ++hop) {
    std::set<uint32_t> next;
    for (uint64_t e = 0; e < num_edges; ++e) {
      if (!level.contains(slow.target(e))) continue;
      edges.insert(e);
      if (!nodes.contains(slow.source(e))) next.insert(slow.source(e));
    }
    nodes.insert(next.begin(), next.end());
    level = std::move(next);
  }
  for (uint64_t e = 0; e < num_edges; ++e) {
    if (ids.num_parts() == 1) edges.insert(e);
    if (halo == HaloKind::kPartitionGraph && is_own(slow.source(e))) {
      edges.insert(e);
      nodes.insert(slow.target(e));
    }
  }
  ASSERT_EQ(std::set<uint32_t>(part.nodes.begin(), part.nodes.end()), nodes);
  ASSERT_EQ(std::set<uint64_t>(part.edges.begin(), part.edges.end()), edges);
  // Inner ones first, then the halo; each in the order of new ids, none twice.
  const auto inner_end = static_cast<ptrdiff_t>(part.num_inner_nodes);
  const auto inner_edges_end = static_cast<ptrdiff_t>(part.num_inner_edges);
  EXPECT_EQ(part.num_inner_nodes, own.size());
  EXPECT_TRUE(std::all_of(part.nodes.begin(), part.nodes.begin() + inner_end, is_own));
  EXPECT_TRUE(std::is_sorted(part.nodes.begin(), part.nodes.begin() + inner_end));
  EXPECT_TRUE(std::is_sorted(part.nodes.begin() + inner_end, part.nodes.end()));
  EXPECT_EQ(part.nodes.size(), nodes.size());
  EXPECT_TRUE(std::is_sorted(part.edges.begin(), part.edges.begin() + inner_edges_end));
  EXPECT_TRUE(std::is_sorted(part.edges.begin() + inner_edges_end, part.edges.end()));
  EXPECT_EQ(part.edges.size(), edges.size());
}

void ExpectLaws(const HomogeneousGraph& graph, uint32_t num_parts, uint32_t hops, HaloKind halo,
                uint64_t seed) {
  const std::vector<uint32_t> part_of = RandomPartNumbers(graph.num_nodes(), num_parts, seed);
  PH_ASSERT_OK_AND_ASSIGN(const NewIds ids, NewIds::Create(&graph, part_of, num_parts));
  const SlowIds slow(graph, part_of, num_parts);
  ExpectTiles(ids.node_map(), num_parts, graph.num_nodes());
  ExpectTiles(ids.edge_map(), num_parts, graph.num_edges());
  ASSERT_EQ(std::vector<uint32_t>(ids.original_of_node().begin(), ids.original_of_node().end()),
            slow.node_original);
  for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
    ASSERT_EQ(ids.OwnerOfNode(id), part_of[slow.node_original[id]]);
    ASSERT_EQ(ids.new_of_node()[slow.node_original[id]], id);
  }
  PartCutter cutter(&ids, hops, halo);
  uint64_t inner_nodes = 0;
  uint64_t inner_edges = 0;
  // Backwards: the order of calls does not matter.
  for (uint32_t p = num_parts; p-- > 0;) {
    SCOPED_TRACE(testing::Message() << "part " << p);
    PH_ASSERT_OK_AND_ASSIGN(const Part part, cutter.Cut(p));
    inner_nodes += part.num_inner_nodes;
    inner_edges += part.num_inner_edges;
    ExpectMembers(part, ids, slow, hops, halo);
    for (size_t n = 0; n < part.nodes.size(); ++n) {
      ASSERT_EQ(part.original_nodes[n], slow.node_original[part.nodes[n]]);
    }
    for (size_t e = 0; e < part.edges.size(); ++e) {
      const uint64_t id = part.edges[e];
      ASSERT_EQ(part.original_edges[e], slow.edge_original[id]);
      ASSERT_EQ(part.nodes[part.sources[e]], slow.source(id));
      ASSERT_EQ(part.nodes[part.targets[e]], slow.target(id));
      ASSERT_EQ(ids.OwnerOfEdge(id), part_of[slow.original(id).target]);
      ASSERT_EQ(e < part.num_inner_edges, ids.OwnerOfEdge(id) == p);
    }
  }
  EXPECT_EQ(inner_nodes, graph.num_nodes());
  EXPECT_EQ(inner_edges, graph.num_edges());
  for (size_t t = 0; t < graph.node_types().size(); ++t) {
    std::vector<uint32_t> originals = ids.OriginalWithinType(t);
    std::sort(originals.begin(), originals.end());
    for (uint32_t i = 0; i < originals.size(); ++i) ASSERT_EQ(originals[i], i);
  }
}

// What laws.py checks of DGL's parts, on many small graphs with everything odd in them.
TEST(PartCutterTest, PartsKeepTheLaws) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::unique_ptr<const SourceGraph> source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    const auto num_parts = static_cast<uint32_t>(1 + seed % 5);
    const bool in_edges = seed % 7 == 0;
    const auto hops = static_cast<uint32_t>(in_edges ? 1 : 1 + seed % 3);
    ExpectLaws(graph, num_parts, hops, in_edges ? HaloKind::kInEdges : HaloKind::kPartitionGraph,
               seed);
    if (HasFatalFailure()) return;
  }
}

// 0 -> 1 -> 2 -> 3, in the parts 0 1 0 1.
TEST(PartCutterTest, OneCutEdgeIsInTwoParts) {
  const auto source = OneSetGraph(4, {{0, 1}, {1, 2}, {2, 3}});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const NewIds ids, NewIds::Create(&graph, {0, 1, 0, 1}, 2));
  PartCutter both(&ids, 1, HaloKind::kPartitionGraph);
  PH_ASSERT_OK_AND_ASSIGN(const Part first, both.Cut(0));
  EXPECT_THAT(first.original_nodes, ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(first.num_inner_nodes, 2U);
  EXPECT_THAT(first.original_edges, ElementsAre(1, 0, 2));
  EXPECT_EQ(first.num_inner_edges, 1U);
  EXPECT_THAT(first.sources, ElementsAre(2, 0, 1));
  EXPECT_THAT(first.targets, ElementsAre(1, 2, 3));
  PartCutter in_only(&ids, 1, HaloKind::kInEdges);
  PH_ASSERT_OK_AND_ASSIGN(const Part fewer, in_only.Cut(0));
  EXPECT_THAT(fewer.original_nodes, ElementsAre(0, 2, 1));
  EXPECT_THAT(fewer.original_edges, ElementsAre(1));
}

TEST(PartCutterTest, CancelledCutsLeaveTheCutterClean) {
  const auto source = OneSetGraph(40, RingOfCliques(8, 5));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const NewIds ids, NewIds::Create(&graph, RandomPartNumbers(40, 3, 1), 3));
  PartCutter cutter(&ids, 2, HaloKind::kPartitionGraph);
  PH_ASSERT_OK_AND_ASSIGN(const Part before, cutter.Cut(1));
  for (int looks = 0; looks < 2; ++looks) {
    int left = looks;
    const PartitionWatch watch{[&left] { return left-- == 0; }, nullptr};
    EXPECT_EQ(cutter.Cut(1, watch).status().code(), absl::StatusCode::kCancelled);
  }
  PH_ASSERT_OK_AND_ASSIGN(const Part after, cutter.Cut(1));
  EXPECT_EQ(before.edges, after.edges);
  EXPECT_EQ(before.nodes, after.nodes);
}

TEST(NewIdsTest, RefusesPartsThatAreNone) {
  const auto source = OneSetGraph(3, {{0, 1}});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  EXPECT_THAT(NewIds::Create(&graph, {0, 1}, 2).status().message(),
              testing::HasSubstr("parts of 2 nodes for a graph of 3"));
  EXPECT_THAT(NewIds::Create(&graph, {0, 1, 2}, 2).status().message(),
              testing::HasSubstr("node 2 of \"_N\" has part 2, beyond 2 parts"));
}

}  // namespace
}  // namespace packhouse
