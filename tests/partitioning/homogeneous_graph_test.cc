#include "service/wings/partition/cutting/homogeneous_graph.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/node_classes.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<const SourceGraph> Shop(std::vector<std::string> edge_names) {
  return *MakeMemorySourceGraph(
      *SourceGraphSchema::Create(
          {{"user",
            {{"mask", DType::kBool, {}, false, false}, {"age", DType::kInt64, {}, false, false}}},
           {"item", {}}},
          {{edge_names[0], 0, 1, {}, std::nullopt}, {edge_names[1], 0, 0, {}, std::nullopt}}),
      1,
      {{3,
        {},
        {},
        {{std::string("\1\0\0", 3), {}}, {std::string(24, '\7').replace(8, 8, 8, '\0'), {}}}},
       {2, {}, {}, {}}},
      {{{0, 2}, {1, 0}, {}}, {{1}, {1}, {}}});
}

TEST(HomogeneousGraphTest, TypesAreInAlphabeticalOrder) {
  const auto source = Shop({"user:buys:item", "follows"});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  ASSERT_EQ(graph.node_types().size(), 2U);
  EXPECT_EQ(graph.node_types()[0].name, "item");
  EXPECT_EQ(graph.node_types()[1].start, 2U);
  EXPECT_EQ(graph.edge_types()[0].name, "user:buys:item");
  EXPECT_EQ(graph.edge_types()[1].name, "user:follows:user");
  EXPECT_EQ(graph.NodeTypeOf(1), 0U);
  EXPECT_EQ(graph.NodeTypeOf(2), 1U);
  EXPECT_EQ(graph.EdgeTypeOf(2), 1U);
  EXPECT_EQ(graph.InDegree(3), 1U);
  std::vector<uint32_t> neighbours;
  graph.ForEachNeighbour(3, [&neighbours](uint32_t other) { neighbours.push_back(other); });
  EXPECT_THAT(neighbours, ElementsAre(3, 3));
}

TEST(HomogeneousGraphTest, RefusesNamesThatCannotBeEdgeTypes) {
  const auto colon = Shop({"buys:much", "follows"});
  EXPECT_THAT(HomogeneousGraph::Create(colon.get()).status().message(),
              HasSubstr("\"buys:much\" has a colon"));
  const auto twice = *MakeMemorySourceGraph(
      *SourceGraphSchema::Create(
          {{"n", {}}}, {{"e", 0, 0, {}, std::nullopt}, {"n:e:n", 0, 0, {}, std::nullopt}}),
      1, {{1, {}, {}, {}}}, {{}, {}});
  EXPECT_THAT(HomogeneousGraph::Create(twice.get()).status().message(),
              HasSubstr("two edge sets are the edge type \"n:e:n\""));
}

TEST(NodeClassesTest, ReadsColumnsAndMasks) {
  const auto source = Shop({"buys", "follows"});
  PH_ASSERT_OK_AND_ASSIGN(const NodeClasses ages, ClassesFromColumn(*source, 0, "age"));
  EXPECT_EQ(ages.num_classes, 2U);
  EXPECT_THAT(ages.class_of, ElementsAre(1, 0, 1));
  PH_ASSERT_OK_AND_ASSIGN(const NodeClasses masks, ClassesFromMasks(*source, 0, {"mask", "age"}));
  // Both hold the first node.
  EXPECT_EQ(masks.num_classes, 4U);
  EXPECT_THAT(masks.class_of, ElementsAre(3, 2, 1));
  EXPECT_EQ(masks.names[3], "\"mask\" and \"age\"");
  // Masks that overlap, or lie in each other: every combination is a class, and has a name.
  PH_ASSERT_OK_AND_ASSIGN(const NodeClasses overlapping,
                          ClassesFromMasks(*source, 0, {"mask", "mask"}));
  EXPECT_EQ(overlapping.num_classes, 4U);
  EXPECT_THAT(overlapping.class_of, ElementsAre(3, 2, 2));
  EXPECT_EQ(overlapping.names[3], "\"mask\" and \"mask\"");
  EXPECT_EQ(ClassesFromColumn(*source, 1, "age").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace packhouse
