#include "client/cli/plots/histogram_plot.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/plot_data.h"

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

uint64_t SumOfLastColumn(const std::string& script) {
  uint64_t sum = 0;
  for (const std::vector<double>& row :
       PlotRows(script, HasPlotRows(script, "bars") ? "bars" : "cells")) {
    sum += static_cast<uint64_t>(row.back());
  }
  return sum;
}

std::string Script(const std::string& path, const std::string& title, const HistogramView& view,
                   const GraphSizes& histogram) {
  const absl::StatusOr<std::string> script = HistogramPicture(path, title, view, histogram);
  return script.ok() ? *script : std::string(script.status().message());
}

TEST(HistogramPictureTest, TwoComponentsMakeAHeatMapOneMakesBars) {
  EXPECT_THAT(Script("a.svg", "t", {{"nodes", "edges"}, {}, {}}, Pairs()), HasSubstr("$cells"));
  EXPECT_THAT(Script("a.png", "t", {{"edges"}, {}, {}}, Pairs()), HasSubstr("$bars"));
}

TEST(HistogramPictureTest, LimitsAreDrawnWithinThePicture) {
  const std::string near = Script("a.svg", "t", {{"nodes", "edges"}, {{15, 0}}, {}}, Pairs());
  EXPECT_THAT(near, HasSubstr("limit 15'"));
  EXPECT_THAT(near, Not(HasSubstr("set logscale x")));
  // Far limits bend both axes, or the data would be a speck in the corner.
  const std::string far = Script("a.svg", "t", {{"nodes", "edges"}, {{1000, 0}}, {}}, Pairs());
  EXPECT_THAT(far, HasSubstr("set xrange [0.306:1300]"));
  EXPECT_THAT(far, HasSubstr("set logscale x"));
  EXPECT_THAT(far, HasSubstr("set logscale y"));
}

TEST(HistogramPictureTest, SeveralShapesAreCornersWithNumbersAndNames) {
  const HistogramView view{{"nodes", "edges"}, {{15, 30}, {12, 0}}, {"first", "second"}};
  const std::string script = Script("a.svg", "t", view, Pairs());
  EXPECT_THAT(script, HasSubstr("from first 15.0, graph 0 to first 15.0, first 30.0 "));
  EXPECT_THAT(script, HasSubstr("from graph 0, first 30.0 to first 15.0, first 30.0 "));
  EXPECT_THAT(script, HasSubstr("from first 12.0, graph 0 to first 12.0, graph 1 "));
  EXPECT_THAT(script, HasSubstr("set label '1: first'"));
  EXPECT_THAT(script, HasSubstr("set label '2: second'"));
  EXPECT_THAT(script, Not(HasSubstr("limit 15")));
}

TEST(HistogramPictureTest, TitlesCannotLeaveTheirQuotes) {
  EXPECT_THAT(Script("a.svg", "it's\n`date`", {{"nodes"}, {}, {}}, Pairs()),
              HasSubstr("title 'it''s `date`'"));
}

// Conservation: each graph is in one cell, whatever the binning.
TEST(HistogramPictureTest, CellsAndBarsAddUpToTheGraphs) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(testing::Message() << "round=" << round);
    GraphSizes sizes{.components = {"nodes", "edges"}, .values = {}, .counts = {}, .num_rows = 60};
    uint64_t graphs = 0;
    for (std::size_t row = 0; row < sizes.num_rows; ++row) {
      // From all small to over the whole range.
      const uint64_t range = uint64_t{1} << (4 + random() % 28);
      sizes.values.push_back(static_cast<uint32_t>(random() % range));
      sizes.values.push_back(static_cast<uint32_t>(random() % range));
      sizes.counts.push_back(random() % 1000);
      graphs += sizes.counts.back();
    }
    for (const HistogramView& view :
         {HistogramView{{"nodes", "edges"}, {}, {}},
          HistogramView{{"edges", "nodes"}, {{100, 100}}, {}}, HistogramView{{"edges"}, {}, {}}}) {
      const std::string script = Script("a.svg", "t", view, sizes);
      EXPECT_EQ(SumOfLastColumn(script), graphs);
    }
  }
}

TEST(HistogramPictureTest, WhatCannotBeDrawnIsRefused) {
  const auto refused = [](const std::string& path, const HistogramView& view,
                          const GraphSizes& histogram) {
    const absl::Status status = HistogramPicture(path, "t", view, histogram).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refused("a.pdf", {{"nodes"}, {}, {}}, Pairs()),
            "'a.pdf': a picture's name ends in .svg or .png");
  EXPECT_EQ(refused("a.svg", {{}, {}, {}}, Pairs()),
            "a picture shows one component or two, not 0 ()");
  EXPECT_EQ(refused("a.svg", {{"faces"}, {}, {}}, Pairs()),
            "the histogram has no component 'faces', it has nodes, edges");
  EXPECT_EQ(refused("a.svg", {{"nodes", "edges", "nodes"}, {}, {}}, Pairs()),
            "a picture shows one component or two, not 3 (nodes, edges, nodes)");
  const GraphSizes empty{.components = {"nodes"}, .values = {1}, .counts = {0}, .num_rows = 1};
  EXPECT_EQ(refused("a.svg", {{"nodes"}, {}, {}}, empty), "the histogram has no graphs to draw");
}

// Extremes of the value range make scripts, not hangs or overflows.
TEST(HistogramPictureTest, ExtremeSizesAreDrawn) {
  const GraphSizes extreme{.components = {"nodes"},
                           .values = {0, 1, 4294967295},
                           .counts = {1, 1, ~uint64_t{0} - 2},
                           .num_rows = 3};
  EXPECT_THAT(Script("a.svg", "t", {{"nodes"}, {{~uint64_t{0}}}, {}}, extreme), HasSubstr("$bars"));
  const GraphSizes one{
      .components = {"nodes"}, .values = {4294967295}, .counts = {1}, .num_rows = 1};
  EXPECT_THAT(Script("a.svg", "t", {{"nodes"}, {}, {}}, one), HasSubstr("$bars"));
  EXPECT_THAT(Script("a.svg", "t", {{"nodes"}, {{1}}, {}}, one), HasSubstr("$bars"));
}

}  // namespace
}  // namespace packhouse::client
