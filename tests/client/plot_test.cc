#include "client/cli/plot.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const GraphSizes& Pairs() {
  static const auto* const pairs = new GraphSizes{.components = {"nodes", "edges"},
                                                  .values = {0, 0, 10, 20, 12, 24},
                                                  .counts = {1, 5, 7},
                                                  .num_rows = 3};
  return *pairs;
}

std::string Script(const PlotRequest& request, const GraphSizes& histogram) {
  const absl::StatusOr<std::string> script = PlotScript(request, histogram);
  return script.ok() ? *script : std::string(script.status().message());
}

TEST(PlotScriptTest, TwoComponentsMakeAHeatMapOneMakesBars) {
  EXPECT_THAT(Script({"a.svg", "t", {"nodes", "edges"}, {0, 0}}, Pairs()), HasSubstr("$cells"));
  EXPECT_THAT(Script({"a.png", "t", {"edges"}, {0}}, Pairs()), HasSubstr("$bars"));
}

TEST(PlotScriptTest, LimitsAreDrawnWithinThePicture) {
  const std::string near = Script({"a.svg", "t", {"nodes", "edges"}, {15, 0}}, Pairs());
  EXPECT_THAT(near, HasSubstr("limit 15'"));
  EXPECT_THAT(near, Not(HasSubstr("set logscale x")));
  // Far limits bend both axes, or the data would be a speck in the corner.
  const std::string far = Script({"a.svg", "t", {"nodes", "edges"}, {1000, 0}}, Pairs());
  EXPECT_THAT(far, HasSubstr("set xrange [0.306:1300]"));
  EXPECT_THAT(far, HasSubstr("set logscale x"));
  EXPECT_THAT(far, HasSubstr("set logscale y"));
}

TEST(PlotScriptTest, TitlesCannotLeaveTheirQuotes) {
  EXPECT_THAT(Script({"a.svg", "it's\n`date`", {"nodes"}, {0}}, Pairs()),
              HasSubstr("set title 'it''s `date`'"));
}

TEST(PlotScriptTest, WhatCannotBeDrawnIsRefused) {
  const auto code = [](const PlotRequest& request, const GraphSizes& histogram) {
    return PlotScript(request, histogram).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code({"a.pdf", "t", {"nodes"}, {0}}, Pairs()), invalid);
  EXPECT_EQ(code({"a.svg", "t", {}, {}}, Pairs()), invalid);
  EXPECT_EQ(code({"a.svg", "t", {"faces"}, {0}}, Pairs()), invalid);
  EXPECT_EQ(code({"a.svg", "t", {"nodes", "edges", "nodes"}, {0, 0, 0}}, Pairs()), invalid);
  const GraphSizes empty{.components = {"nodes"}, .values = {1}, .counts = {0}, .num_rows = 1};
  EXPECT_EQ(code({"a.svg", "t", {"nodes"}, {0}}, empty), invalid);
}

// Extremes of the value range make scripts, not hangs or overflows.
TEST(PlotScriptTest, ExtremeSizesAreDrawn) {
  const GraphSizes extreme{.components = {"nodes"},
                           .values = {0, 1, 4294967295},
                           .counts = {1, 1, ~uint64_t{0} - 2},
                           .num_rows = 3};
  EXPECT_THAT(Script({"a.svg", "t", {"nodes"}, {~uint64_t{0}}}, extreme), HasSubstr("$bars"));
  const GraphSizes one{
      .components = {"nodes"}, .values = {4294967295}, .counts = {1}, .num_rows = 1};
  EXPECT_THAT(Script({"a.svg", "t", {"nodes"}, {0}}, one), HasSubstr("$bars"));
  EXPECT_THAT(Script({"a.svg", "t", {"nodes"}, {1}}, one), HasSubstr("$bars"));
}

}  // namespace
}  // namespace packhouse::client
