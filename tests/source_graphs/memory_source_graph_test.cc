#include "service/wings/graphs/source_graphs/memory_source_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Authors write papers; "written" is the reverse of "writes".
absl::StatusOr<SourceGraphSchema> Library() {
  return SourceGraphSchema::Create(
      {{"author", {}}, {"paper", {{"year", DType::kInt64, {}, false, false}}}},
      {{"writes", 0, 1, {{"order", DType::kInt32, {}, false, false}}, std::nullopt},
       {"written", 1, 0, {}, 0}});
}

std::string Bytes(const std::vector<int32_t>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

TEST(MemorySourceGraphTest, ReversedEdgesAreTheOthersWithEndsExchanged) {
  PH_ASSERT_OK_AND_ASSIGN(SourceGraphSchema schema, Library());
  MemoryEdgeSet writes{{1, 0, 1, 1}, {2, 0, 0, 2}, {{Bytes({7, 8, 9, 10}), {}}}};
  PH_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<const SourceGraph> graph,
      MakeMemorySourceGraph(std::move(schema), 5,
                            {{2, {}, {"ann", "bo"}, {}}, {3, {}, {}, {{std::string(24, 0), {}}}}},
                            {std::move(writes), {}}));
  PH_ASSERT_OK_AND_ASSIGN(const Adjacency writes_rows, graph->BySource(0));
  EXPECT_THAT(writes_rows.offsets, ElementsAre(0, 1, 4));
  EXPECT_THAT(writes_rows.neighbours, ElementsAre(0, 2, 0, 2));
  EXPECT_THAT(writes_rows.edges, ElementsAre(1, 0, 2, 3));
  PH_ASSERT_OK_AND_ASSIGN(const Adjacency written_rows, graph->BySource(1));
  EXPECT_THAT(written_rows.offsets, ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(written_rows.neighbours, ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(graph->num_edges(1), 4U);
  EXPECT_EQ(graph->EdgeColumn(1, 0).data, graph->EdgeColumn(0, 0).data);
  EXPECT_FALSE(graph->integer_ids(0));
  EXPECT_TRUE(graph->integer_ids(1));
  EXPECT_THAT(graph->NodeIds(0).offsets, ElementsAre(0, 3, 5));
}

// Every edge is in both directions once, at the rows of its ends, in table order.
TEST(MemorySourceGraphTest, BothDirectionsHaveEveryEdgeOnce) {
  constexpr uint64_t kNodes = 50;
  constexpr uint64_t kEdges = 400;
  SeededRandom random(3);
  PH_ASSERT_OK_AND_ASSIGN(SourceGraphSchema schema,
                          SourceGraphSchema::Create({{"n", {}}}, {{"e", 0, 0, {}, std::nullopt}}));
  MemoryEdgeSet set;
  for (uint64_t e = 0; e < kEdges; ++e) {
    set.sources.push_back(static_cast<uint32_t>(random.Below(kNodes)));
    set.targets.push_back(static_cast<uint32_t>(random.Below(kNodes)));
  }
  const MemoryEdgeSet told = set;
  PH_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<const SourceGraph> graph,
      MakeMemorySourceGraph(std::move(schema), 1, {{kNodes, {}, {}, {}}}, {std::move(set)}));
  for (const bool by_source : {true, false}) {
    PH_ASSERT_OK_AND_ASSIGN(const Adjacency rows,
                            by_source ? graph->BySource(0) : graph->ByTarget(0));
    ASSERT_EQ(rows.num_rows(), kNodes);
    ASSERT_EQ(rows.offsets.back(), kEdges);
    const std::vector<uint32_t>& own = by_source ? told.sources : told.targets;
    const std::vector<uint32_t>& other = by_source ? told.targets : told.sources;
    for (uint32_t row = 0; row < kNodes; ++row) {
      for (uint64_t place = rows.offsets[row]; place < rows.offsets[row + 1]; ++place) {
        EXPECT_EQ(own[rows.edge(place)], row);
        EXPECT_EQ(other[rows.edge(place)], rows.neighbours[place]);
        if (place > rows.offsets[row]) {
          EXPECT_LT(rows.edge(place - 1), rows.edge(place));
        }
      }
    }
  }
}

TEST(MemorySourceGraphTest, RefusesWhatIsNoGraph) {
  const auto make = [](std::vector<MemoryNodeSet> nodes, std::vector<MemoryEdgeSet> edges) {
    return MakeMemorySourceGraph(*Library(), 1, std::move(nodes), std::move(edges)).status();
  };
  const MemoryNodeSet authors{2, {}, {}, {}};
  const MemoryNodeSet papers{1, {}, {}, {{std::string(8, 0), {}}}};
  const auto edges = [](std::vector<uint32_t> targets, size_t orders) {
    return std::vector<MemoryEdgeSet>{
        {{1}, std::move(targets), {{Bytes(std::vector<int32_t>(orders)), {}}}}, {}};
  };
  EXPECT_THAT(make({authors, papers}, edges({0}, 1)), IsOk());
  EXPECT_THAT(make({authors, papers}, edges({1}, 1)).message(),
              HasSubstr("edge 0 of \"writes\" ends at node 1, but \"paper\" has 1"));
  EXPECT_THAT(make({authors, papers}, edges({}, 1)).message(),
              HasSubstr("1 sources and 0 targets"));
  EXPECT_THAT(make({authors, papers}, edges({0}, 2)).message(), HasSubstr("column \"order\""));
  EXPECT_THAT(make({authors, {2, {}, {}, papers.columns}}, edges({0}, 1)).message(),
              HasSubstr("column \"year\" of \"paper\" has 8 bytes for 2 rows of 8"));
  EXPECT_THAT(make({{2, {}, {"one"}, {}}, papers}, edges({0}, 1)).message(),
              HasSubstr("\"author\" has 1 ids for 2 nodes"));
}

TEST(SourceGraphSchemaTest, RefusesWrongSets) {
  const auto create = [](std::vector<SourceNodeSetSpec> nodes,
                         std::vector<SourceEdgeSetSpec> edges) {
    return SourceGraphSchema::Create(std::move(nodes), std::move(edges)).status();
  };
  EXPECT_THAT(create({}, {}).message(), HasSubstr("no node set"));
  EXPECT_THAT(create({{"n", {}}, {"n", {}}}, {}).message(), HasSubstr("\"n\" is there twice"));
  EXPECT_THAT(create({{"n", {}}}, {{"e", 0, 1, {}, std::nullopt}}).message(),
              HasSubstr("node set number 1"));
  EXPECT_THAT(create({{"n", {}}}, {{"e", 0, 0, {}, 0}}).message(), HasSubstr("no other"));
  EXPECT_THAT(create({{"n", {{"x", DType::kFloat32, {}, false, true}}}}, {}).message(),
              HasSubstr("text is ragged"));
  EXPECT_THAT(create({{"n", {{"x", DType::kFloat32, {0}, false, false}}}}, {}).message(),
              HasSubstr("an extent is 0"));
  EXPECT_EQ(create({{"n", {{"x", DType::kFloat32, {1U << 31}, false, false}}}}, {}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse
