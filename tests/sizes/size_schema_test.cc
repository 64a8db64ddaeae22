#include "service/algorithms/sizes/size_schema.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SizeSchemaTest, NamesAndNumbersAreInverse) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeSchema schema,
                          SizeSchema::Create({"atom", "bond", "sets/atom-to_bond.x"}));
  EXPECT_EQ(schema.num_components(), 3);
  for (size_t k = 0; k <= schema.num_components(); ++k) {
    EXPECT_EQ(schema.IndexOf(schema.name(k)), k);
  }
  EXPECT_EQ(schema.name(3), "graphs");
  EXPECT_EQ(schema.IndexOf("nodes"), std::nullopt);
  EXPECT_EQ(schema.IndexOf(""), std::nullopt);
}

TEST(SizeSchemaTest, TheDefaultIsNodesAndEdges) {
  EXPECT_THAT(SizeSchema::NodesAndEdges().components(), ElementsAre("nodes", "edges"));
}

TEST(SizeSchemaTest, NoComponentLeavesTheGraphs) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeSchema schema, SizeSchema::Create({}));
  EXPECT_EQ(schema.num_components(), 0);
  EXPECT_EQ(schema.name(0), "graphs");
  EXPECT_EQ(schema.IndexOf("graphs"), 0);
}

TEST(SizeSchemaTest, EqualByNamesInOrder) {
  const auto create = [](std::vector<std::string> names) {
    return SizeSchema::Create(std::move(names)).value();
  };
  EXPECT_EQ(create({"nodes", "edges"}), SizeSchema::NodesAndEdges());
  EXPECT_FALSE(create({"edges", "nodes"}) == SizeSchema::NodesAndEdges());
  EXPECT_FALSE(create({"nodes"}) == SizeSchema::NodesAndEdges());
}

TEST(SizeSchemaTest, GraphsIsReserved) {
  EXPECT_THAT(SizeSchema::Create({"nodes", "graphs"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'graphs' is implied")));
}

TEST(SizeSchemaTest, NamesAreDistinct) {
  EXPECT_THAT(
      SizeSchema::Create({"a", "b", "a"}),
      StatusIs(absl::StatusCode::kInvalidArgument, "schema: component 'a' is listed twice"));
}

TEST(SizeSchemaTest, NamesHaveAnAlphabetAndALength) {
  const std::string longest(kMaxComponentNameLength, 'x');
  EXPECT_THAT(SizeSchema::Create({longest}), IsOk());
  for (const std::string& name :
       {std::string(), longest + 'x', std::string("a b"), std::string("a&b"),
        std::string("a\0b", 3), std::string("caf\xc3\xa9"), std::string("a\n")}) {
    EXPECT_THAT(SizeSchema::Create({"good", name}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("component name '")));
  }
  // Control characters do not reach logs.
  EXPECT_THAT(SizeSchema::Create({"a\nb"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a\\nb'")));
}

TEST(SizeSchemaTest, ThereIsABoundOnComponents) {
  std::vector<std::string> names;
  names.reserve(kMaxComponents + 1);
  for (size_t k = 0; k < kMaxComponents; ++k) names.emplace_back(k + 1, 'c');
  EXPECT_THAT(SizeSchema::Create(names), IsOk());
  names.push_back("one_more");
  EXPECT_THAT(SizeSchema::Create(names),
              StatusIs(absl::StatusCode::kInvalidArgument, "schema: 65 components, at most 64"));
}

TEST(IsValidNameTest, PunctuationIsTheCallers) {
  EXPECT_TRUE(IsValidName("train/v1", 8, "/"));
  EXPECT_FALSE(IsValidName("train/v1", 7, "/"));
  EXPECT_FALSE(IsValidName("train/v1", 8, "_"));
  EXPECT_FALSE(IsValidName("", 8, "/"));
}

}  // namespace
}  // namespace packhouse
