#include "service/wings/graphs/source_graphs/memory_source_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
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

TEST(MemorySourceGraphTest, RefusesWhatDoesNotFitItsSchema) {
  const auto made = [](std::vector<MemoryNodeSet> nodes, std::vector<MemoryEdgeSet> edges) {
    return std::string(MakeMemorySourceGraph(*Library(), 1, std::move(nodes), std::move(edges))
                           .status()
                           .message());
  };
  const MemoryNodeSet authors{2, {}, {}, {}};
  const MemoryNodeSet papers{1, {}, {}, {{std::string(8, 0), {}}}};
  const MemoryEdgeSet none{{}, {}, {{"", {}}}};
  EXPECT_EQ(made({authors}, {none, {}}), "1 node sets and 2 edge sets, but the schema has 2 and 2");
  EXPECT_EQ(made({authors, papers}, {none}),
            "2 node sets and 1 edge sets, but the schema has 2 and 2");
  EXPECT_EQ(made({authors, {1, {}, {}, {}}}, {none, {}}), "\"paper\" has 0 columns, its schema 1");
  EXPECT_EQ(made({{2, {7, 8}, {"ann", "bo"}, {}}, papers}, {none, {}}),
            "node set \"author\" has 4 ids for 2 nodes");
  EXPECT_EQ(made({authors, papers}, {{{2}, {0}, {{Bytes({5}), {}}}}, {}}),
            "edge 0 of \"writes\" ends at node 2, but \"author\" has 2");
  EXPECT_EQ(made({authors, papers}, {none, {{0}, {0}, {}}}),
            "edge set \"written\" is reversed, and has edges of its own");
  const auto ragged = [](std::string bytes, std::vector<uint64_t> offsets) {
    auto schema = SourceGraphSchema::Create({{"n", {{"t", DType::kUint8, {}, true, false}}}}, {});
    const MemoryNodeSet nodes{2, {}, {}, {{std::move(bytes), std::move(offsets)}}};
    return std::string(
        MakeMemorySourceGraph(*std::move(schema), 1, {nodes}, {}).status().message());
  };
  EXPECT_EQ(ragged("abc", {0, 0, 3}), "");
  EXPECT_EQ(ragged("abc", {0, 3}),
            "column \"t\" of \"n\" has 2 offsets for 2 rows, or does not begin with 0");
  EXPECT_EQ(ragged("abc", {1, 2, 3}),
            "column \"t\" of \"n\" has 3 offsets for 2 rows, or does not begin with 0");
  EXPECT_EQ(ragged("ab", {0, 3, 2}), "column \"t\" of \"n\": the offsets descend after row 1");
  EXPECT_EQ(ragged("abc", {0, 1, 2}), "column \"t\" of \"n\" has 3 bytes for 2 rows of 1");
}

TEST(SourceGraphSchemaTest, RefusesWrongSets) {
  using Nodes = std::vector<SourceNodeSetSpec>;
  using Edges = std::vector<SourceEdgeSetSpec>;
  const auto created = [](const Nodes& nodes, const Edges& edges) {
    const absl::Status status = SourceGraphSchema::Create(nodes, edges).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  // What is said of the column `x` of the node set `n`.
  const auto of_column = [&](SourceColumnSpec column) {
    const std::string said = created({{"n", {std::move(column)}}}, {});
    const std::string where = "column \"x\" of node set \"n\": ";
    if (said.empty()) return said;
    EXPECT_EQ(said.substr(0, where.size()), where);
    return said.substr(where.size());
  };
  const Nodes one = {{"n", {}}};
  const Nodes two = {{"n", {}}, {"m", {}}};
  EXPECT_EQ(created({}, {}), "the schema has no node set");
  EXPECT_EQ(created({{"n", {}}, {"n", {}}}, {}), "node set \"n\" is there twice");
  EXPECT_EQ(created({{"", {}}}, {}), "a name of a node set is empty");
  EXPECT_EQ(created({{std::string(128, 'x'), {}}}, {}), "");
  EXPECT_EQ(created({{std::string(129, 'x'), {}}}, {}),
            "a node set \"" + std::string(40, 'x') + "...\": the name has 129 bytes, beyond 128");
  Nodes many(255);
  for (size_t n = 0; n < many.size(); ++n) many[n].name = std::to_string(n);
  Edges edges = {{"e", 0, 1, {}, std::nullopt}};
  EXPECT_EQ(created(many, edges), "");
  edges.push_back({"f", 0, 1, {}, std::nullopt});
  EXPECT_EQ(created(many, edges), "the schema has 257 sets, beyond 256");

  SourceColumnSpec x{"x", DType::kUint8, {}, false, false};
  EXPECT_EQ(created({{"n", {x, x}}}, {}), "column \"x\" of node set \"n\" is there twice");
  EXPECT_EQ(created(one, {{"e", 0, 0, {x, x}, std::nullopt}}),
            "column \"x\" of edge set \"e\" is there twice");
  EXPECT_EQ(created({{"n", {{"", DType::kUint8, {}, false, false}}}}, {}),
            "a name of a column of node set \"n\" is empty");
  std::vector<SourceColumnSpec> columns(256, x);
  for (size_t c = 0; c < columns.size(); ++c) columns[c].name = std::to_string(c);
  EXPECT_EQ(created({{"n", columns}}, {}), "");
  columns.push_back(x);
  EXPECT_EQ(created({{"n", columns}}, {}), "node set \"n\" has 257 columns, beyond 256");
  const std::string text = "text is ragged, of dtype uint8 and of shape []";
  EXPECT_EQ(of_column({"x", DType::kUint8, {}, true, true}), "");
  EXPECT_EQ(of_column({"x", DType::kUint8, {}, false, true}), text);
  EXPECT_EQ(of_column({"x", DType::kInt8, {}, true, true}), text);
  EXPECT_EQ(of_column({"x", DType::kUint8, {2}, true, true}), text);
  x.row_shape.assign(8, 1);
  EXPECT_EQ(of_column(x), "");
  x.row_shape.assign(9, 1);
  EXPECT_EQ(of_column(x), "a row has 9 axes, beyond 8");
  x.row_shape = {3, 0};
  EXPECT_EQ(of_column(x), "an extent is 0, at least 1");
  x.row_shape = {4, 4 << 20};
  EXPECT_EQ(of_column(x), "");
  for (const uint32_t extent : {(4U << 20) + 1, UINT32_MAX}) {
    x.row_shape = {4, extent};
    EXPECT_EQ(of_column(x), "a row has more than 16777216 bytes");
  }

  EXPECT_EQ(created(one, {{"", 0, 0, {}, std::nullopt}}), "a name of an edge set is empty");
  EXPECT_EQ(created(one, {{"e", 0, 0, {}, std::nullopt}, {"e", 0, 0, {}, std::nullopt}}),
            "edge set \"e\" is there twice");
  EXPECT_EQ(created(one, {{"e", 0, 1, {}, std::nullopt}}),
            "edge set \"e\" names node set number 1, but there are 1");
  EXPECT_EQ(created(one, {{"e", 2, 0, {}, std::nullopt}}),
            "edge set \"e\" names node set number 2, but there are 1");
  for (const size_t other : {0, 1}) {
    EXPECT_EQ(
        created(one, {{"e", 0, 0, {}, other}}),
        absl::StrCat("edge set \"e\" reverses edge set number ", other, ", which is no other"));
  }
  EXPECT_EQ(created(two, {{"e", 0, 1, {}, std::nullopt}, {"f", 1, 0, {}, 0}}), "");
  for (const auto& [source, target] : {std::pair(0, 1), std::pair(0, 0), std::pair(1, 1)}) {
    EXPECT_EQ(
        created(two, {{"e", 0, 1, {}, std::nullopt},
                      {"f", static_cast<size_t>(source), static_cast<size_t>(target), {}, 0}}),
        "edge set \"f\" reverses \"e\", but does not join the same node sets");
  }
  EXPECT_EQ(created(one, {{"e", 0, 0, {}, std::nullopt}, {"f", 0, 0, {}, 0}, {"g", 0, 0, {}, 1}}),
            "edge set \"g\" reverses \"f\", which is reversed itself");
  x.row_shape = {};
  EXPECT_EQ(created(one, {{"e", 0, 0, {}, std::nullopt}, {"f", 0, 0, {x}, 0}}),
            "edge set \"f\" reverses \"e\", and has columns of its own");
}

// Two nodes of each set, and an edge.
TEST(SourceGraphChunkTest, RefusesWhatIsNotAsLongAsItsRows) {
  const SourceGraphSchema schema = *SourceGraphSchema::Create(
      {{"n", {{"x", DType::kFloat32, {}, false, false}, {"tags", DType::kInt16, {}, true, false}}},
       {"m", {}}},
      {{"e", 0, 1, {}, std::nullopt}, {"r", 1, 0, {}, 0}});
  SourceGraphOptions options;
  options.node_sets = {{true, true}, {false, true}};
  const std::string zeros(5000, '\0');
  const auto of = [&zeros](size_t bytes) { return absl::string_view(zeros).substr(0, bytes); };
  const std::string lengths = Bytes({1, 2});
  SourceGraphChunk good;
  good.nodes = {{0, 2, {true, of(16), ""}, {{of(8), ""}, {of(6), lengths}}},
                {1, 2, {false, of(3), lengths}, {}}};
  good.edges = {
      {0, 1, {true, of(8), ""}, {false, of(1), absl::string_view(lengths).substr(0, 4)}, {}}};
  const auto said = [&](auto change) {
    SourceGraphChunk chunk = good;
    change(chunk);
    const absl::Status status = CheckSourceGraphChunk(schema, options, chunk);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  using Chunk = SourceGraphChunk;
  EXPECT_EQ(said([](Chunk&) {}), "");
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[0].ids.data = of(15); }),
            "node set 'n': ids have 15 bytes, 2 rows take 16");
  EXPECT_EQ(said([](Chunk& c) { c.nodes[0].ids.integers = false; }),
            "node set 'n': ids are text, the node set has integers");
  EXPECT_EQ(said([](Chunk& c) { c.nodes[1].ids.integers = true; }),
            "node set 'm': ids are integers, the node set has text");
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[1].ids.lengths = of(4); }),
            "node set 'm': lengths have 4 bytes, 2 rows take 8");
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[1].ids.data = of(2); }),
            "node set 'm': ids have 2 bytes, their lengths add up to 3");
  const std::string none = Bytes({0, 3});
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[1].ids.lengths = none; }),
            "node set 'm': the id of row 0 has 0 bytes, must have 1 to 4096");
  for (const int32_t most : {4096, 4097}) {
    const std::string longest = Bytes({1, most});
    EXPECT_EQ(
        said([&](Chunk& c) {
          c.nodes[1].ids = {false, of(most + 1), longest};
        }),
        most == 4096 ? "" : "node set 'm': the id of row 1 has 4097 bytes, must have 1 to 4096");
  }
  EXPECT_EQ(said([](Chunk& c) { c.nodes[0].columns.pop_back(); }),
            "node set 'n' has 1 columns, its set has 2");
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[0].columns[0].lengths = lengths; }),
            "column 'x' of node set 'n': has lengths, but is not ragged");
  for (const size_t bytes : {7, 9, 12}) {
    EXPECT_EQ(
        said([&](Chunk& c) { c.nodes[0].columns[0].data = of(bytes); }),
        absl::StrCat("column 'x' of node set 'n': has ", bytes, " bytes, 2 rows of 4 expected"));
  }
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[0].columns[1].data = of(4); }),
            "column 'tags' of node set 'n': has 4 bytes, 3 steps of 2 expected");
  EXPECT_EQ(said([&](Chunk& c) { c.nodes[0].columns[1].lengths = of(12); }),
            "column 'tags' of node set 'n': lengths have 12 bytes, 2 rows take 8");
  EXPECT_EQ(said([](Chunk& c) { c.nodes[1].node_set = 2; }),
            "a node set: there is no set number 2 of 2");
  EXPECT_EQ(said([](Chunk& c) { c.edges[0].edge_set = 2; }),
            "an edge set: there is no set number 2 of 2");
  EXPECT_EQ(said([](Chunk& c) { c.nodes.push_back(c.nodes[0]); }), "node set 'n' is there twice");
  EXPECT_EQ(said([](Chunk& c) { c.edges.push_back(c.edges[0]); }), "edge set 'e' is there twice");
  EXPECT_EQ(said([](Chunk& c) { c.nodes[0].num_rows = (1 << 24) + 1; }),
            "node set 'n' has 16777217 rows, beyond 16777216");
  EXPECT_EQ(said([](Chunk& c) { c.nodes[0].num_rows = 1 << 24; }),
            "node set 'n': ids have 16 bytes, 16777216 rows take 134217728");
  EXPECT_EQ(said([](Chunk& c) { c.edges[0].edge_set = 1; }),
            "edge set 'r' reverses 'e', and has no edges of its own");
  EXPECT_EQ(said([&](Chunk& c) { c.edges[0].sources.data = of(7); }),
            "sources of edge set 'e': ids have 7 bytes, 1 rows take 8");
  EXPECT_EQ(said([](Chunk& c) { c.edges[0].targets.integers = true; }),
            "targets of edge set 'e': ids are integers, the node set has text");
  EXPECT_EQ(said([](Chunk& c) { c.edges[0].columns.emplace_back(); }),
            "edge set 'e' has 1 columns, its set has 0");
  // All that is in it counts: 54 bytes beside the column, which nobody looks into.
  for (const uint64_t bytes : {(uint64_t{1} << 30) - 54, (uint64_t{1} << 30) - 53}) {
    EXPECT_EQ(said([&](Chunk& c) {
                c.nodes[0].columns[0].data = {zeros.data(), bytes};
              }),
              bytes % 2 == 0
                  ? "column 'x' of node set 'n': has 1073741770 bytes, 2 rows of 4 expected"
                  : "a chunk of 1073741825 bytes, beyond 1073741824");
  }
  // Without options, ids are integers.
  options.node_sets.clear();
  EXPECT_EQ(said([](Chunk&) {}), "node set 'm': ids are text, the node set has integers");
  EXPECT_THAT(CheckSourceGraphName(std::string(128, 'a')), IsOk());
  EXPECT_EQ(CheckSourceGraphName(std::string(129, 'a')).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse
