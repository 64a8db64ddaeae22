#include "service/wings/tfgnn/sampling_spec.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "tests/support/status_matchers.h"
#include "tests/tfgnn/golden_files.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::HasSubstr;

SamplingSpec SmallSpec() {
  return {"seed",
          "paper",
          false,
          {{"a", {"seed"}, "cites", 8, SamplingStrategy::kRandomUniform},
           {"b", {"seed", "a"}, "written", 300, SamplingStrategy::kRandomWeighted}}};
}

TEST(SamplingSpecTest, TextAndBytesGiveTheSpecBack) {
  SamplingSpec link = SmallSpec();
  link.link_seeds = true;
  link.seed_node_set = "";
  for (const SamplingSpec& spec : {SmallSpec(), link}) {
    PH_ASSERT_OK_AND_ASSIGN(const SamplingSpec of_text, ParseSamplingSpec(SamplingSpecText(spec)));
    EXPECT_EQ(of_text, spec);
    PH_ASSERT_OK_AND_ASSIGN(const SamplingSpec of_bytes,
                            ParseSamplingSpec(SamplingSpecBytes(spec)));
    EXPECT_EQ(of_bytes, spec);
  }
}

// The wire form, byte for byte: field numbers are TF-GNN's.
TEST(SamplingSpecTest, BytesAreThoseOfTfgnn) {
  const std::string seed = std::string("\x0a\x06") + "\x0a\x01s\x12\x01p";
  const std::string op = std::string("\x12\x0f") + "\x0a\x01h" + "\x12\x01s" + "\x1a\x01" + "c" +
                         std::string("\x20\x85\x01", 3) + "\x28\x01";
  std::string wire = seed + op;
  wire[seed.size() + 1] = static_cast<char>(op.size() - 2);
  const SamplingSpec spec = {
      "s", "p", false, {{"h", {"s"}, "c", 133, SamplingStrategy::kRandomUniform}}};
  EXPECT_EQ(SamplingSpecBytes(spec), wire);
  PH_ASSERT_OK_AND_ASSIGN(const SamplingSpec link, ParseSamplingSpec("\x2a\x03\x0a\x01s"));
  EXPECT_TRUE(link.link_seeds);
  EXPECT_EQ(link.seed_op, "s");
}

TEST(SamplingSpecTest, AnUnsetStrategyIsTopK) {
  PH_ASSERT_OK_AND_ASSIGN(
      const SamplingSpec spec,
      ParseSamplingSpec("seed_op { op_name: 's' node_set_name: 'p' } # seeds\n"
                        "sampling_ops < op_name: 'h' input_op_names: ['s', 't'] >"));
  ASSERT_EQ(spec.ops.size(), 1U);
  EXPECT_EQ(spec.ops[0].strategy, SamplingStrategy::kTopK);
  EXPECT_EQ(spec.ops[0].inputs, (std::vector<std::string>{"s", "t"}));
  EXPECT_EQ(spec.ops[0].sample_size, 0);
  EXPECT_EQ(SamplingStrategyName(SamplingStrategy::kTopK), "TOP_K");
  EXPECT_EQ(SamplingStrategyName(SamplingStrategy::kRandomUniform), "RANDOM_UNIFORM");
  EXPECT_EQ(SamplingStrategyName(SamplingStrategy::kRandomWeighted), "RANDOM_WEIGHTED");
  EXPECT_EQ(SamplingStrategyName(SamplingStrategy::kLatestK), "LATEST_K");
}

TEST(SamplingSpecTest, WhatIsNoSpecIsRefused) {
  const auto refusal = [](absl::string_view bytes) {
    const auto spec = ParseSamplingSpec(bytes);
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(spec.status().message());
  };
  EXPECT_THAT(refusal(""), HasSubstr("neither seed_op nor symmetric_link_seed_op"));
  EXPECT_THAT(refusal("seed_op { op_name: 's'\n nodes: 'p' }"), HasSubstr("line 2, column 7"));
  EXPECT_THAT(refusal("sampling_ops { strategy: BEST }"), HasSubstr("BEST"));
  EXPECT_THAT(refusal(std::string(kMaxSamplingSpecBytes + 1, ' ')), HasSubstr("1048577 bytes"));
  // A message of another kind.
  for (const std::string& why :
       {refusal("\x98\x06\x05"),
        std::string(ParseGraphSchema("\x98\x06\x05").status().message())}) {
    EXPECT_THAT(why, HasSubstr("neither its binary form nor its text: "));
  }
  const std::string lead = "sampling spec: neither its binary form nor its text: ";
  const std::string long_word = refusal(std::string(400, 'a') + ": 1");
  EXPECT_EQ(long_word.size(), lead.size() + 303);
  EXPECT_TRUE(long_word.starts_with(lead) && long_word.ends_with("...")) << long_word;
  EXPECT_FALSE(refusal("nodes: 1").ends_with("..."));
  // Strategy 9 of an op "h".
  EXPECT_THAT(refusal(std::string("\x0a\x03\x0a\x01s\x12\x05\x0a\x01h\x28\x09")),
              HasSubstr("op 'h': strategy"));
}

// As much as is allowed, most of it a comment; one byte more is refused.
std::string PaddedTo(size_t bytes, std::string text) {
  text += "\n#";
  text.resize(bytes, '.');
  return text;
}

TEST(SamplingSpecTest, AsManyBytesAsAllowedAreRead) {
  const std::string spec = "seed_op { op_name: 's' node_set_name: 'n' }";
  EXPECT_THAT(ParseSamplingSpec(PaddedTo(kMaxSamplingSpecBytes, spec)), IsOk());
  EXPECT_THAT(ParseSamplingSpec(PaddedTo(kMaxSamplingSpecBytes + 1, spec)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1048576")));
  const std::string schema = "node_sets { key: 'n' value { } }";
  EXPECT_THAT(ParseGraphSchema(PaddedTo(kMaxGraphSchemaBytes, schema)), IsOk());
  EXPECT_THAT(ParseGraphSchema(PaddedTo(kMaxGraphSchemaBytes + 1, schema)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 16777216")));
}

TEST(SamplingSpecTest, RealSpecsParse) {
  PH_SKIP_WITHOUT_GOLDENS();
  PH_ASSERT_OK_AND_ASSIGN(const SamplingSpec guide,
                          ParseSamplingSpec(GoldenBytes("sampling/guide.pbtxt")));
  EXPECT_EQ(guide.seed_node_set, "paper");
  ASSERT_EQ(guide.ops.size(), 5U);
  EXPECT_EQ(guide.ops[4].sample_size, 16);
  EXPECT_EQ(guide.ops[4].inputs,
            (std::vector<std::string>{"seed", "seed->paper", "author->paper"}));
  EXPECT_EQ(guide.ops[4].strategy, SamplingStrategy::kRandomUniform);
}

}  // namespace
}  // namespace packhouse::tfgnn
