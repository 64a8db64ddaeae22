#include "service/wings/partition/cutting/homogeneous_graph.h"

#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

TEST(HomogeneousGraphTest, NamesAWrongNodeSet) {
  const auto graph = *MakeMemorySourceGraph(*SourceGraphSchema::Create({{"a:b", {}}}, {}), 1,
                                            {{1, {}, {}, {}}}, {});
  EXPECT_EQ(HomogeneousGraph::Create(graph.get()).status(),
            absl::InvalidArgumentError("node set \"a:b\" has a colon in its name, which separates "
                                       "the names of an edge type"));
  // No name is left between the ends, or one end is another.
  for (const char* const name : {"user::item", "user:buys", "user:buys:user"}) {
    const auto shop = Shop({name, "follows"});
    EXPECT_EQ(HomogeneousGraph::Create(shop.get()).status(),
              absl::InvalidArgumentError(absl::StrCat(
                  "edge set \"", name,
                  "\" has a colon in its name, which separates the names of an edge type")));
  }
}

// A node set `n` with one column for each entry.
std::unique_ptr<const SourceGraph> WithColumns(uint64_t num_nodes,
                                               std::vector<SourceColumnSpec> specs,
                                               std::vector<MemoryColumn> columns) {
  MemoryNodeSet nodes;
  nodes.num_nodes = num_nodes;
  nodes.columns = std::move(columns);
  return *MakeMemorySourceGraph(*SourceGraphSchema::Create({{"n", std::move(specs)}}, {}), 1,
                                {std::move(nodes)}, {});
}

template <typename T>
std::string BytesOfAll(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
void ExpectClasses(DType dtype) {
  SCOPED_TRACE(static_cast<int>(dtype));
  const std::vector<T> values = {1, std::numeric_limits<T>::max(), 0, std::numeric_limits<T>::min(),
                                 1};
  // One number in a row of one is a number, too.
  for (const std::vector<uint32_t>& shape : std::vector<std::vector<uint32_t>>{{}, {1, 1}}) {
    const auto graph =
        WithColumns(values.size(), {{"c", dtype, shape, false, false}}, {{BytesOfAll(values), {}}});
    std::set<int64_t> numbers;
    for (const T value : values) numbers.insert(static_cast<int64_t>(value));
    PH_ASSERT_OK_AND_ASSIGN(const NodeClasses classes, ClassesFromColumn(*graph, 0, "c"));
    EXPECT_EQ(classes.node_set, 0U);
    EXPECT_EQ(classes.num_classes, numbers.size());
    for (size_t node = 0; node < values.size(); ++node) {
      EXPECT_EQ(classes.class_of[node],
                std::distance(numbers.begin(), numbers.find(static_cast<int64_t>(values[node]))));
    }
  }
}

TEST(NodeClassesTest, NumbersOfAllTypesAreClasses) {
  ExpectClasses<uint8_t>(DType::kUint8);
  ExpectClasses<int8_t>(DType::kInt8);
  ExpectClasses<uint16_t>(DType::kUint16);
  ExpectClasses<int16_t>(DType::kInt16);
  ExpectClasses<uint32_t>(DType::kUint32);
  ExpectClasses<int32_t>(DType::kInt32);
  ExpectClasses<uint64_t>(DType::kUint64);
  ExpectClasses<int64_t>(DType::kInt64);
}

TEST(NodeClassesTest, WhatIsNoClassIsNamed) {
  const auto graph = WithColumns(2,
                                 {{"float", DType::kFloat32, {}, false, false},
                                  {"pair", DType::kInt8, {2}, false, false},
                                  {"ragged", DType::kInt8, {}, true, false},
                                  {"one", DType::kInt8, {}, false, false}},
                                 {{std::string(8, '\0'), {}},
                                  {std::string(4, '\0'), {}},
                                  {std::string(2, '\0'), {0, 1, 2}},
                                  {std::string(2, '\0'), {}}});
  const auto expect = [&](const std::string& column, const absl::Status& status) {
    EXPECT_EQ(ClassesFromColumn(*graph, 0, column).status(), status);
    EXPECT_EQ(ClassesFromMasks(*graph, 0, {"one", column}).status(), status);
  };
  const std::string cannot = "\" of \"n\" cannot be the class of a node: it has ";
  expect("float", absl::InvalidArgumentError("column \"float" + cannot + "no integers"));
  for (const char* const column : {"pair", "ragged"}) {
    expect(column, absl::InvalidArgumentError(
                       absl::StrCat("column \"", column, cannot, "not one number a node")));
  }
  expect("none", absl::NotFoundError("node set \"n\" has no column \"none\""));
}

TEST(NodeClassesTest, AreAtMostTheirBound) {
  for (const uint16_t count : {256, 257}) {
    std::vector<uint16_t> values;
    for (uint16_t node = 0; node < 600; ++node) values.push_back(node % count);
    const auto graph =
        WithColumns(600, {{"v", DType::kUint16, {}, false, false}}, {{BytesOfAll(values), {}}});
    const auto classes = ClassesFromColumn(*graph, 0, "v");
    if (count == 256) {
      ASSERT_THAT(classes, IsOk());
      EXPECT_EQ(classes->num_classes, 256U);
    } else {
      EXPECT_EQ(classes.status(), absl::InvalidArgumentError(
                                      "column \"v\" of \"n\" has more than 256 different values"));
    }
    const std::vector<absl::string_view> masks(count, "v");
    const absl::Status many = ClassesFromMasks(*graph, 0, masks).status();
    EXPECT_EQ(many, absl::InvalidArgumentError(absl::StrCat(count, " masks, beyond 255")));
  }
  // Bits of numbers; of so many that they are given up while they are taken, too.
  for (const uint32_t num_nodes : {600U, 20000U}) {
    std::vector<SourceColumnSpec> specs;
    std::vector<MemoryColumn> columns;
    std::vector<std::string> names;
    for (int bit = 0; num_nodes >> bit != 0; ++bit) {
      names.push_back(absl::StrCat("b", bit));
      specs.push_back({names.back(), DType::kBool, {}, false, false});
      std::string bits;
      for (uint32_t node = 0; node < num_nodes; ++node) {
        bits.push_back(static_cast<char>(node >> bit & 1));
      }
      columns.push_back({std::move(bits), {}});
    }
    const auto graph = WithColumns(num_nodes, std::move(specs), std::move(columns));
    const std::vector<absl::string_view> masks(names.begin(), names.end());
    EXPECT_EQ(ClassesFromMasks(*graph, 0, masks).status(), TooManyCombinations("n", masks));
    EXPECT_THAT(ClassesFromMasks(*graph, 0, {"b0", "b1", "b2", "b3", "b4", "b5", "b6"}), IsOk());
  }
  EXPECT_EQ(TooManyCombinations("n", {"a", "b"}),
            absl::InvalidArgumentError("the masks \"a\", \"b\" of \"n\" overlap in so many ways "
                                       "that there are more than 256 classes; give fewer masks"));
}

}  // namespace
}  // namespace packhouse
