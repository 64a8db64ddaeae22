// What TF-GNN's validate_schema refuses, said by the same words wherever it stands.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "tests/support/status_matchers.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

tensorflow_gnn::GraphSchema Parsed(const std::string& text) {
  return ParseGraphSchema(text).value();
}

// The text of a feature, or of two, within the context, a node set and an edge set.
struct Within {
  std::string where;
  std::string text;  // With $ for the features.
};
std::vector<Within> Everywhere() {
  constexpr char kSets[] =
      "node_sets { key: 'a' value { } } edge_sets { key: 'f' value { source: 'a' target: 'a' } } ";
  return {{"context", absl::StrCat(kSets, "context { $ }")},
          {"node set 'b'", absl::StrCat(kSets, "node_sets { key: 'b' value { $ } }")},
          {"edge set 'e'", absl::StrCat(kSets,
                                        "edge_sets { key: 'e' value { source: 'a' target: "
                                        "'a' $ } }")}};
}
std::string With(const Within& within, const std::string& feature, const std::string& name = "h") {
  return absl::StrReplaceAll(
      within.text,
      {{"$", absl::StrCat("features { key: 'good' value { dtype: DT_FLOAT } } features { key: '",
                          name, "' value { ", feature, " } }")}});
}

TEST(ValidateGraphSchemaTest, FeaturesAreRefusedByNameWhereverTheyStand) {
  for (const Within& within : Everywhere()) {
    for (const auto& [feature, why] : std::vector<std::pair<std::string, std::string>>{
             {"", "the dtype is missing"},
             {"dtype: DT_COMPLEX64",
              "dtype DT_COMPLEX64 is not bool, an integer, a float or a "
              "string"},
             {"dtype: DT_FLOAT shape { unknown_rank: true }", "the shape has unknown_rank"},
             {"dtype: DT_FLOAT shape { dim { size: 2 name: 'n' } }",
              "a dimension has the name 'n' and the feature has no description: a description "
              "belongs into `description`"}}) {
      EXPECT_THAT(ValidateGraphSchema(Parsed(With(within, feature))),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           absl::StrCat("graph schema: ", within.where, ": feature 'h': ", why)));
    }
    const std::string described =
        "dtype: DT_FLOAT description: 'd' shape { dim { size: 2 name: 'n' } }";
    EXPECT_THAT(*ValidateGraphSchema(Parsed(With(within, described))), IsEmpty());
    for (const char* const dtype : {"FLOAT", "DOUBLE", "INT32", "UINT8", "INT16", "INT8", "STRING",
                                    "INT64", "BOOL", "BFLOAT16", "UINT16", "HALF", "UINT32",
                                    "UINT64", "FLOAT8_E5M2", "FLOAT8_E4M3FN", "INT4", "UINT4"}) {
      EXPECT_THAT(ValidateGraphSchema(Parsed(With(within, absl::StrCat("dtype: DT_", dtype)))),
                  IsOk());
    }
    for (const std::string name : {"#size", "#source", "#target"}) {
      const bool is_reserved =
          within.where != "context" && (name == "#size" || within.where == "edge set 'e'");
      const auto warnings = ValidateGraphSchema(Parsed(With(within, "dtype: DT_INT64", name)));
      EXPECT_EQ(warnings.ok(), !is_reserved) << within.where << name;
      if (is_reserved) {
        EXPECT_EQ(warnings.status().message(),
                  absl::StrCat("graph schema: ", within.where, ": feature '", name,
                               "': the name is reserved"));
      }
    }
    // A warning for each feature of one number that is no scalar.
    EXPECT_THAT(
        *ValidateGraphSchema(Parsed(With(within, "dtype: DT_INT64 shape { dim { size: 1 } }"))),
        ElementsAre(absl::StrCat(within.where,
                                 ": feature 'h' has the shape [1]; a scalar, without "
                                 "a shape, is meant more often")));
    for (const char* const shape : {"", "dim { size: 2 }", "dim { size: 1 } dim { size: 1 }"}) {
      EXPECT_THAT(*ValidateGraphSchema(
                      Parsed(With(within, absl::StrCat("dtype: DT_INT64 shape { ", shape, " }")))),
                  IsEmpty());
    }
  }
}

TEST(ValidateGraphSchemaTest, SetsAreRefusedByName) {
  const auto edges = [](const std::string& fields, const std::string& name = "e") {
    return absl::StrCat("node_sets { key: 'a' value { } } edge_sets { key: '", name, "' value { ",
                        fields, " } }");
  };
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {edges("target: 'a'"), "edge set 'e': there is no source"},
           {edges("source: 'a'"), "edge set 'e': there is no target"},
           {edges("source: 'b' target: 'a'"), "edge set 'e': there is no node set 'b'"},
           {edges("source: 'a' target: 'b'"), "edge set 'e': there is no node set 'b'"},
           {edges("source: 'a' target: 'a'", ""), "edge set '': the name is empty"},
           {edges("source: 'a' target: 'a' context: 'c'"),
            "edge set 'e': there is no context feature 'c'"},
           {"node_sets { key: 'a' value { context: 'c' } }",
            "node set 'a': there is no context feature 'c'"},
           {"node_sets { key: 'a' value { } } info { root_set: 'a' root_set: 'b' }",
            "info: root_set 'b' is no node set"}}) {
    EXPECT_THAT(ValidateGraphSchema(Parsed(text)),
                StatusIs(absl::StatusCode::kInvalidArgument, "graph schema: " + why));
  }
  for (const std::string& text :
       {std::string(), edges("source: 'a' target: 'a'"),
        edges("source: 'a' target: 'a' context: 'c'") +
            "context { features { key: 'c' value { dtype: DT_INT64 } } } info { root_set: 'a' }"}) {
    EXPECT_THAT(*ValidateGraphSchema(Parsed(text)), IsEmpty());
  }
  // Read-outs with a tag are looked at if that is asked for, the others always.
  for (const std::string tag : {"", ":t"}) {
    const auto schema = Parsed(absl::StrCat("node_sets { key: '_readout", tag, "' value { } }"));
    EXPECT_EQ(ValidateGraphSchema(schema).ok(), tag == ":t");
    EXPECT_THAT(ValidateGraphSchema(schema, /*check_tagged_readouts=*/true),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there is no edge set")));
  }
}

TEST(CheckRequiredFeaturesTest, FeaturesAreRequiredWhereverTheyStand) {
  const std::string wanted = "dtype: DT_FLOAT shape { dim { size: 3 } dim { size: 0 } }";
  const std::vector<Within> everywhere = Everywhere();
  for (const Within& within : everywhere) {
    const auto required = Parsed(With(within, wanted));
    const auto check = [&](const std::string& text) {
      return CheckRequiredFeatures(required, Parsed(text));
    };
    const auto refused = [&](const std::string& why) {
      return StatusIs(absl::StatusCode::kInvalidArgument,
                      absl::StrCat("graph schema: ", within.where, ": feature 'h': ", why));
    };
    EXPECT_THAT(check(With(within, "dtype: DT_FLOAT shape { dim { size: 3 } dim { size: 9 } }")),
                IsOk());
    EXPECT_THAT(check(With(within, "dtype: DT_INT64 shape { dim { size: 3 } dim { size: 9 } }")),
                refused("dtype DT_INT64, required is DT_FLOAT"));
    EXPECT_THAT(check(With(within, "dtype: DT_FLOAT shape { dim { size: 4 } dim { size: 9 } }")),
                refused("shape [4, 9], required is [3, 0]"));
    EXPECT_THAT(check(With(within, "dtype: DT_FLOAT shape { dim { size: 3 } }")),
                refused("shape [3], required is [3, 0]"));
    EXPECT_THAT(check(With(within, "dtype: DT_FLOAT", "other")),
                refused("is required and missing"));
    // What is elsewhere is not there; nor is what is in no set.
    for (const Within& other : everywhere) {
      EXPECT_EQ(check(With(other, wanted)).ok(), other.where == within.where);
    }
  }
}

}  // namespace
}  // namespace packhouse::tfgnn
