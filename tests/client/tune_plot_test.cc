#include "client/cli/plots/tune_plot.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/plot_data.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string>& Components() {
  static const auto* const components = new std::vector<std::string>{"nodes", "edges", "faces"};
  return *components;
}

v1::DeviceProfile::Component Range(const std::string& name, uint64_t min, uint64_t max,
                                   uint64_t multiple_of) {
  v1::DeviceProfile::Component component;
  component.set_component(name);
  component.set_min_rows(min);
  component.set_max_rows(max);
  component.set_multiple_of(multiple_of);
  return component;
}

v1::TunedShape Shape(const std::vector<std::pair<std::string, uint64_t>>& capacities,
                     double epoch_cost, uint64_t packs) {
  v1::TunedShape shape;
  for (const auto& [name, capacity] : capacities) {
    v1::ComponentEfficiency* const component = shape.add_components();
    component->set_component(name);
    component->set_capacity(capacity);
  }
  shape.set_epoch_cost(epoch_cost);
  shape.set_packs(packs);
  return shape;
}

GraphSizes OneSize(uint32_t nodes, uint32_t edges) {
  return {.components = {"nodes", "edges"}, .values = {nodes, edges}, .counts = {3}, .num_rows = 1};
}

TEST(CountCapacitiesTest, CountsTheMultiplesInTheRange) {
  for (uint64_t min = 0; min < 12; ++min) {
    for (uint64_t max = 1; max < 12; ++max) {
      for (uint64_t multiple_of = 0; multiple_of < 5; ++multiple_of) {
        uint64_t expected = 0;
        for (uint64_t rows = 1; rows <= max; ++rows) {
          expected += rows >= min && rows % std::max<uint64_t>(1, multiple_of) == 0;
        }
        EXPECT_EQ(CountCapacities(Range("nodes", min, max, multiple_of)), expected)
            << min << " " << max << " " << multiple_of;
      }
    }
  }
}

TEST(GridRequestTest, ASmallGridIsAskedForAsItIs) {
  v1::TuneRequest request;
  *request.mutable_profile()->add_components() = Range("nodes", 0, 100, 1);
  *request.mutable_profile()->add_components() = Range("edges", 50, 200, 2);
  request.mutable_profile()->set_max_distinct_shapes(4);
  request.set_seed(5);
  const std::optional<v1::TuneRequest> grid =
      GridRequest(request, OneSize(10, 20), {"nodes", "edges"}, v1::TunedShape());
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->ShortDebugString(),
            "profile { components { component: \"nodes\" min_rows: 10 max_rows: 100 multiple_of: 1 "
            "} components { component: \"edges\" min_rows: 50 max_rows: 200 multiple_of: 2 } "
            "max_distinct_shapes: 1 } seed: 5 include_grid: true");
}

// Whatever the ranges: two capacities at least along both axes, none of them below the largest
// graph, all of them the profile's, and not more cells than can be drawn.
TEST(GridRequestTest, ALargeGridIsThinnedOut) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(testing::Message() << "round=" << round);
    v1::TuneRequest request;
    for (const char* const name : {"nodes", "edges"}) {
      const uint64_t step = 1 + random() % 64;
      *request.mutable_profile()->add_components() =
          Range(name, random() % 500, step * (2 + random() % 3000) + 1000, step);
    }
    const std::optional<v1::TuneRequest> grid =
        GridRequest(request, OneSize(10, 20), {"nodes", "edges"}, v1::TunedShape());
    ASSERT_TRUE(grid.has_value());
    uint64_t cells = 1;
    for (int i = 0; i < 2; ++i) {
      const v1::DeviceProfile::Component& asked = grid->profile().components(i);
      const v1::DeviceProfile::Component& allowed = request.profile().components(i);
      EXPECT_EQ(asked.multiple_of() % allowed.multiple_of(), 0);
      EXPECT_GE(asked.min_rows(), allowed.min_rows());
      EXPECT_EQ(asked.max_rows(), allowed.max_rows());
      EXPECT_GE(CountCapacities(asked), 1);
      cells *= CountCapacities(asked);
    }
    EXPECT_LE(cells, kMaxDrawnCells);
  }
}

TEST(GridRequestTest, OtherComponentsStayWhereTheShapeHasThem) {
  v1::TuneRequest request;
  for (const char* const name : {"nodes", "edges", "faces", "graphs"}) {
    *request.mutable_profile()->add_components() = Range(name, 0, 64, 8);
  }
  const v1::TunedShape shape =
      Shape({{"nodes", 24}, {"edges", 32}, {"faces", 40}, {"graphs", 0}}, 1, 1);
  const std::optional<v1::TuneRequest> grid =
      GridRequest(request, OneSize(9, 9), {"faces", "nodes"}, shape);
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->profile().components(1).ShortDebugString(),
            "component: \"edges\" min_rows: 32 max_rows: 32 multiple_of: 1");
  EXPECT_EQ(grid->profile().components(3).ShortDebugString(), "component: \"graphs\"");
  EXPECT_EQ(CountCapacities(grid->profile().components(0)), 7);
  EXPECT_EQ(CountCapacities(grid->profile().components(2)), 8);
}

TEST(GridRequestTest, TheLargestGraphThatFitsSetsTheLeast) {
  v1::TuneRequest request;
  *request.mutable_profile()->add_components() = Range("nodes", 0, 50, 1);
  *request.mutable_profile()->add_components() = Range("edges", 0, 50, 1);
  // The second is too large for any limits, the third is not there.
  const GraphSizes sizes{.components = {"nodes", "edges"},
                         .values = {7, 9, 40, 51, 30, 30},
                         .counts = {1, 1, 0},
                         .num_rows = 3};
  const std::optional<v1::TuneRequest> grid =
      GridRequest(request, sizes, {"nodes", "edges"}, v1::TunedShape());
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->profile().components(0).min_rows(), 7);
  EXPECT_EQ(grid->profile().components(1).min_rows(), 9);
}

TEST(GridRequestTest, WithoutTwoRangesThereIsNone) {
  v1::TuneRequest request;
  *request.mutable_profile()->add_components() = Range("nodes", 0, 100, 1);
  *request.mutable_profile()->add_components() = Range("edges", 70, 70, 1);
  const GraphSizes sizes = OneSize(10, 20);
  EXPECT_FALSE(GridRequest(request, sizes, {"nodes"}, v1::TunedShape()).has_value());
  EXPECT_FALSE(GridRequest(request, sizes, {"nodes", "edges"}, v1::TunedShape()).has_value());
  EXPECT_FALSE(GridRequest(request, sizes, {"nodes", "faces"}, v1::TunedShape()).has_value());
}

std::vector<v1::TuneCell> Grid(const std::vector<uint64_t>& nodes,
                               const std::vector<uint64_t>& edges) {
  std::vector<v1::TuneCell> cells;
  for (const uint64_t x : nodes) {
    for (const uint64_t y : edges) {
      v1::TuneCell cell;
      for (const uint64_t capacity : {x, y, uint64_t{0}, uint64_t{256}}) {
        cell.add_capacities(capacity);
      }
      cell.set_harmonic_mean(static_cast<double>(x) / static_cast<double>(x + y));
      cell.set_planned(true);
      cells.push_back(cell);
    }
  }
  return cells;
}

TEST(GridPanelTest, EachCellAppearsOnceAndTheyTouch) {
  const std::vector<v1::TuneCell> cells = Grid({8, 16, 24, 40}, {100, 110, 120});
  const std::string script = GridPanel(cells, Components(), {"nodes", "edges"},
                                       Shape({{"nodes", 16}, {"edges", 110}}, 1, 1), Frame{});
  std::map<std::pair<double, double>, double> drawn;
  for (const std::vector<double>& row : PlotRows(script, "grid")) {
    ASSERT_EQ(row.size(), 7);
    EXPECT_TRUE(drawn.insert({{row[0], row[1]}, row[6]}).second);
    EXPECT_LT(row[2], row[0]);
    EXPECT_GT(row[3], row[0]);
    EXPECT_LT(row[4], row[1]);
    EXPECT_GT(row[5], row[1]);
  }
  EXPECT_EQ(drawn.size(), cells.size());
  for (const v1::TuneCell& cell : cells) {
    const auto at =
        std::pair(static_cast<double>(cell.capacities(0)), static_cast<double>(cell.capacities(1)));
    ASSERT_TRUE(drawn.contains(at));
    EXPECT_NEAR(drawn[at], 100 * cell.harmonic_mean(), 1e-3);
  }
  // All were planned: nothing to go around.
  EXPECT_FALSE(HasPlotRows(script, "outline"));
  EXPECT_EQ(PlotRows(script, "chosen"), (std::vector<std::vector<double>>{{16, 110}}));
}

TEST(GridPanelTest, ALineGoesAroundWhatWasPlanned) {
  std::vector<v1::TuneCell> cells = Grid({10, 20, 30}, {10, 20, 30});
  for (v1::TuneCell& cell : cells) {
    cell.set_planned(cell.capacities(0) == 20 && cell.capacities(1) == 20);
  }
  const std::string script =
      GridPanel(cells, Components(), {"nodes", "edges"}, v1::TunedShape(), Frame{});
  EXPECT_EQ(PlotRows(script, "outline"),
            (std::vector<std::vector<double>>{
                {15, 15, 0, 10}, {25, 15, 0, 10}, {15, 15, 10, 0}, {15, 25, 10, 0}}));
}

// Along the axes a grid of more dimensions has cells on one another: plans before bounds, then the
// best.
TEST(GridPanelTest, TheBestOfCellsInOnePlaceIsDrawn) {
  std::vector<v1::TuneCell> cells = Grid({10, 20}, {10, 20});
  v1::TuneCell better = cells[0];
  better.set_capacities(2, 7);
  better.set_harmonic_mean(0.9);
  v1::TuneCell bound = better;
  bound.set_harmonic_mean(0.99);
  bound.set_planned(false);
  cells.push_back(better);
  cells.push_back(bound);
  const std::string script =
      GridPanel(cells, Components(), {"nodes", "edges"}, v1::TunedShape(), Frame{});
  const std::vector<std::vector<double>> rows = PlotRows(script, "grid");
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[0][6], 90);
}

TEST(GridPanelTest, ALineOfCellsIsNoPanel) {
  EXPECT_EQ(GridPanel(Grid({10}, {10, 20}), Components(), {"nodes", "edges"}, {}, Frame{}), "");
  EXPECT_EQ(GridPanel(Grid({10, 20}, {10, 20}), Components(), {"nodes"}, {}, Frame{}), "");
  EXPECT_EQ(GridPanel({}, Components(), {"nodes", "edges"}, {}, Frame{}), "");
}

TuneOutcome Outcome() {
  TuneOutcome outcome;
  outcome.frontier = {Shape({{"nodes", 100}, {"edges", 200}}, 1500, 5),
                      Shape({{"nodes", 200}, {"edges", 400}}, 1200, 2)};
  *outcome.recommendation.add_shapes() = outcome.frontier[1];
  outcome.recommendation.set_epoch_cost(1200);
  outcome.recommendation.set_least_cost(1000);
  return outcome;
}

TEST(FrontierPanelTest, HasEachPointAndTheRecommendation) {
  const std::string script = FrontierPanel(Outcome(), "nodes + edges", Frame{});
  EXPECT_EQ(PlotRows(script, "frontier"), (std::vector<std::vector<double>>{{300, 50}, {600, 20}}));
  EXPECT_EQ(PlotRows(script, "chosen"), (std::vector<std::vector<double>>{{600, 20}}));
  EXPECT_THAT(script, HasSubstr("'recommended: nodes=200, edges=400, padding 20 %'"));
  EXPECT_THAT(script, HasSubstr("set xlabel 'cost of a batch: nodes + edges'"));
  EXPECT_THAT(script, Not(HasSubstr("$together")));
}

TEST(FrontierPanelTest, SeveralShapesAreALineBesideTheBestSingleOne) {
  TuneOutcome outcome = Outcome();
  *outcome.recommendation.mutable_single_shape() = outcome.frontier[1];
  *outcome.recommendation.add_shapes() = Shape({{"nodes", 10}, {"edges", 20}}, 30, 1);
  outcome.recommendation.set_epoch_cost(1050);
  const std::string script = FrontierPanel(outcome, "nodes + edges", Frame{});
  EXPECT_THAT(script, HasSubstr("'the best single shape: nodes=200, edges=400, padding 20 %'"));
  EXPECT_THAT(script, HasSubstr("'recommended: 2 shapes together, padding 5 %'"));
  for (const std::vector<double>& row : PlotRows(script, "together")) EXPECT_EQ(row[1], 5);
}

// An epoch without padding has no place on a logarithmic axis; it is drawn below all others.
TEST(FrontierPanelTest, NoPaddingIsDrawnToo) {
  TuneOutcome outcome = Outcome();
  outcome.recommendation.set_least_cost(1200);
  for (const std::vector<double>& row :
       PlotRows(FrontierPanel(outcome, "nodes", Frame{}), "chosen")) {
    EXPECT_EQ(row[1], 12.5);
  }
  outcome.frontier.clear();
  EXPECT_THAT(FrontierPanel(outcome, "nodes", Frame{}), Not(HasSubstr("$frontier with")));
}

TEST(BatchCostTextTest, LeavesOutWhatCostsNothing) {
  v1::DeviceProfile profile;
  profile.add_components()->set_component("nodes");
  v1::DeviceProfile::Component* const edges = profile.add_components();
  edges->set_component("edges");
  edges->set_relative_cost(0.5);
  profile.add_components()->set_component("graphs");
  EXPECT_EQ(BatchCostText(profile), "nodes + 0.5 edges");
}

TEST(TunePictureTest, HasAGridOnlyIfThereAreCells) {
  const GraphSizes sizes{.components = {"nodes", "edges", "faces"},
                         .values = {10, 20, 1, 12, 24, 2},
                         .counts = {1, 5},
                         .num_rows = 2};
  const HistogramView view{{"nodes", "edges"}, {{200, 400}}, {}};
  for (const bool with_cells : {true, false}) {
    const absl::StatusOr<std::string> script =
        TunePicture("a.svg", "t", view, sizes, v1::DeviceProfile(), Outcome(),
                    with_cells ? Grid({10, 20}, {10, 20}) : std::vector<v1::TuneCell>());
    ASSERT_TRUE(script.ok()) << script.status();
    EXPECT_TRUE(HasPlotRows(*script, "cells"));
    EXPECT_TRUE(HasPlotRows(*script, "frontier"));
    EXPECT_EQ(HasPlotRows(*script, "grid"), with_cells);
  }
}

}  // namespace
}  // namespace packhouse::client
