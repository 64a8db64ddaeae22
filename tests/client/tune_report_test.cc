#include "client/cli/reports/tune_report.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& TunedComponents() {
  static const auto* const components = new std::vector<std::string>{"nodes", "edges"};
  return *components;
}

v1::DeviceProfile TunedProfile() {
  v1::DeviceProfile profile;
  for (const char* const name : {"nodes", "edges"}) {
    v1::DeviceProfile::Component* const component = profile.add_components();
    component->set_component(name);
    component->set_max_rows(1024);
  }
  return profile;
}

v1::TunedShape Shape(uint64_t nodes, uint64_t edges, uint64_t packs) {
  v1::TunedShape shape;
  for (const auto& [name, capacity] :
       {std::pair("nodes", nodes), std::pair("edges", edges), std::pair("graphs", uint64_t{0})}) {
    v1::ComponentEfficiency* const component = shape.add_components();
    component->set_component(name);
    component->set_capacity(capacity);
    component->set_efficiency(capacity == 0 ? 1 : 0.99996);
  }
  shape.set_packs(packs);
  shape.set_lower_bound(packs - 1);
  shape.set_epoch_cost(static_cast<double>(packs * (nodes + edges)));
  shape.set_harmonic_mean(0.99996);
  return shape;
}

TuneOutcome OneShape() {
  TuneOutcome outcome;
  outcome.progress.set_candidates(589824);
  outcome.progress.set_planned(2);
  outcome.progress.set_excluded(589822);
  outcome.frontier = {Shape(233, 502, 3567), Shape(381, 816, 2181)};
  v1::TuneRecommendation& recommendation = outcome.recommendation;
  *recommendation.add_shapes() = Shape(381, 816, 2181);
  *recommendation.mutable_single_shape() = recommendation.shapes(0);
  recommendation.set_epoch_cost(recommendation.shapes(0).epoch_cost());
  recommendation.set_least_cost(2610542);
  recommendation.set_harmonic_mean(0.99996);
  recommendation.set_exact(true);
  recommendation.add_reasons("Because.");
  return outcome;
}

TEST(RecommendationTextTest, OneShape) {
  EXPECT_EQ(
      RecommendationText(OneShape(), TunedProfile(), TunedComponents()),
      "recommended  nodes=381, edges=816: 2,181 packs, harmonic mean of efficiencies 99.996 %\n"
      "cost         2,610,657 an epoch; padding adds 0.0044 % to the 2,610,542 of real rows\n"

      "search       exact: no other allowed limits are better (589,824 candidates: 2 planned, "
      "589,822 excluded by their bounds)\n"
      "\n"
      "       -- limit ---   efficiency %\n"
      "shape  nodes  edges   nodes   edges  packs  lower bound  of the cost %\n"
      "1        381    816  99.996  99.996   2181         2180         100.00\n"
      "\n"
      "why\n"
      "- Because.\n");
}

TEST(RecommendationTextTest, SeveralShapesShowTheirGainAndMemory) {
  TuneOutcome outcome = OneShape();
  v1::TuneRecommendation& recommendation = outcome.recommendation;
  *recommendation.add_shapes() = Shape(100, 200, 50);
  recommendation.mutable_shapes(0)->set_batch_bytes(1 << 20);
  recommendation.mutable_shapes(1)->set_batch_bytes(1 << 10);
  recommendation.set_epoch_cost(0.5 * recommendation.single_shape().epoch_cost());
  recommendation.set_exact(false);
  const std::string text = RecommendationText(outcome, TunedProfile(), TunedComponents());
  EXPECT_THAT(text, HasSubstr("recommended  2 shapes: 2,231 packs"));
  EXPECT_THAT(text,
              HasSubstr("search       the best set of shapes found; not every set was tried"));
  EXPECT_THAT(text, HasSubstr("gain         50 % of the cost of the best single shape: nodes=381, "
                              "edges=816 with 2,181 packs costs 2,610,657\n"));
  EXPECT_THAT(text, HasSubstr("1.0 MiB"));
  EXPECT_THAT(text, HasSubstr("1.0 KiB"));
}

TEST(RecommendationTextTest, AnEndedBudgetIsSaid) {
  TuneOutcome outcome = OneShape();
  outcome.recommendation.set_exact(false);
  outcome.progress.set_excluded(17);
  outcome.progress.set_candidates(std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(
      RecommendationText(outcome, TunedProfile(), TunedComponents()),
      HasSubstr("search       the best found; the budget ended before all others were "
                "excluded (more than 2^64 candidates: 2 planned, 17 excluded by their bounds)\n"));
}

TEST(RecommendationTextTest, OversizeGraphsComeWithTheLimitsThatWouldTakeThem) {
  TuneOutcome outcome = OneShape();
  v1::Oversize& oversize = *outcome.recommendation.mutable_oversize();
  oversize.set_num_graphs(1);
  oversize.add_largest(47175);
  oversize.add_largest(47174);
  oversize.add_needed_rows(47176);
  oversize.add_needed_rows(0);
  EXPECT_THAT(
      RecommendationText(outcome, TunedProfile(), TunedComponents()),
      HasSubstr("too large    1 graph that no allowed limits take, left out; the largest has "
                "nodes=47175, edges=47174; to take all: --max nodes=47176\n"));
  EXPECT_EQ(TuneJson(outcome, TunedComponents())["oversize"],
            Json::parse(R"({"num_graphs": 1, "largest": {"nodes": 47175, "edges": 47174},
                            "num_apart": 0, "needed_rows": {"nodes": 47176},
                            "needed_bytes": 0, "num_shapes": 0})"));
}

// Only what the profile lacks is advised: rows that max_rows allows do not help where the memory is
// short.
TEST(RecommendationTextTest, GraphsThatDoNotFitTogetherComeWithTheMemoryThatWouldTakeThem) {
  TuneOutcome outcome = OneShape();
  v1::Oversize& oversize = *outcome.recommendation.mutable_oversize();
  oversize.set_num_graphs(2);
  oversize.set_num_apart(2);
  oversize.add_largest(10);
  oversize.add_largest(999);
  oversize.add_needed_rows(1000);
  oversize.add_needed_rows(999);
  oversize.set_needed_bytes(1999);
  EXPECT_THAT(RecommendationText(outcome, TunedProfile(), TunedComponents()),
              HasSubstr("too large    2 graphs that do not fit one shape together with the others, "
                        "left out; the largest has nodes=10, edges=999; to take all: "
                        "--memory 1999\n"));
  oversize.set_num_graphs(3);
  oversize.set_needed_rows(1, 2000);
  EXPECT_THAT(RecommendationText(outcome, TunedProfile(), TunedComponents()),
              HasSubstr("too large    1 graph that no allowed limits take and 2 graphs that do not "
                        "fit one shape together with the others, left out; the largest has "
                        "nodes=10, edges=999; to take all: --max edges=2000 --memory 1999\n"));
  oversize.set_num_shapes(4);
  EXPECT_THAT(RecommendationText(outcome, TunedProfile(), TunedComponents()),
              HasSubstr("2 graphs that do not fit 4 shapes together with the others"));
}

// One shape does not take what the groups take, so their costs are not compared.
TEST(RecommendationTextTest, GroupsOfGraphsTakeThePlaceOfTheGain) {
  TuneOutcome outcome = OneShape();
  *outcome.recommendation.add_shapes() = Shape(500, 100, 3);
  EXPECT_THAT(RecommendationText(outcome, TunedProfile(), TunedComponents()),
              HasSubstr("\ngain  "));
  outcome.recommendation.add_group_graphs(7000);
  outcome.recommendation.add_group_graphs(30);
  const std::string text = RecommendationText(outcome, TunedProfile(), TunedComponents());
  EXPECT_THAT(text,
              HasSubstr("\ngroups       no one shape takes all graphs: 2 groups, of 7,000, 30 "
                        "graphs, have shapes of their own\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\ngain  ")));
}

TEST(FrontierTableTest, FewPointsAreAllShown) {
  EXPECT_EQ(FrontierTable(OneShape()),
            "frontier: the smallest limits for so much padding\n"
            "          -- limit ---   efficiency %\n"
            "padding   nodes  edges   nodes   edges  packs  lower bound  cost of a batch\n"
            "0.43 %      233    502  99.996  99.996   3567         3566              735\n"
            "0.0044 %    381    816  99.996  99.996   2181         2180             1197\n");
}

TEST(FrontierTableTest, ManyPointsAreThinnedOutWithBothEnds) {
  TuneOutcome outcome = OneShape();
  outcome.frontier.clear();
  for (uint64_t i = 0; i < 1000; ++i) {
    v1::TunedShape shape = Shape(100 + i, 200 + i, 10);
    shape.set_epoch_cost(2610542 * (1 + 1.0 / static_cast<double>(i + 1)));
    outcome.frontier.push_back(shape);
  }
  const std::vector<v1::TunedShape> steps = FrontierSteps(outcome.frontier, 2610542);
  ASSERT_LE(steps.size(), 12);
  ASSERT_GE(steps.size(), 6);
  EXPECT_EQ(ShapeText(steps.front()), ShapeText(outcome.frontier.front()));
  EXPECT_EQ(ShapeText(steps.back()), ShapeText(outcome.frontier.back()));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_LT(steps[i].epoch_cost(), steps[i - 1].epoch_cost());
  }
  EXPECT_THAT(FrontierTable(outcome), HasSubstr(" of 1,000 points)\n"));
}

TEST(FrontierTableTest, NoFrontierIsNoTable) {
  TuneOutcome outcome = OneShape();
  outcome.frontier.clear();
  EXPECT_EQ(FrontierTable(outcome), "");
}

TEST(ProgressLineTest, SaysHowFarAndTheBest) {
  v1::TuneProgress progress;
  progress.set_candidates(1000);
  progress.set_planned(3);
  EXPECT_EQ(ProgressLine(progress), "planned 3, excluded 0 of 1,000");
  *progress.mutable_incumbent() = Shape(381, 816, 2181);
  progress.set_candidates(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ProgressLine(progress),
            "planned 3, excluded 0 of more than 2^64; best so far nodes=381, edges=816, 99.996 %");
}

TEST(PaddingOverheadTest, NothingIsNone) {
  EXPECT_EQ(PaddingOverhead(3, 2), 0.5);
  EXPECT_EQ(PaddingOverhead(0, 0), 0);
}

TEST(TuneJsonTest, HasEverythingButCells) {
  const Json shape = Json::parse(
      R"({"capacities": {"nodes": 381, "edges": 816}, "packs": 2181, "lower_bound": 2180, )"
      R"("epoch_cost": 2610657, "harmonic_mean": 0.99996, "batch_bytes": 0, )"
      R"("components": [{"component": "nodes", "capacity": 381, )"
      R"("efficiency": 0.99996, "fullest_pack": 0, "efficiency_of_fullest": 0}, )"
      R"({"component": "edges", "capacity": 816, "efficiency": 0.99996, )"
      R"("fullest_pack": 0, "efficiency_of_fullest": 0}, {"component": "graphs", "capacity": 0, )"
      R"("efficiency": 1, "fullest_pack": 0, "efficiency_of_fullest": 0}]})");
  TuneOutcome outcome = OneShape();
  outcome.frontier.erase(outcome.frontier.begin());
  EXPECT_EQ(TuneJson(outcome, TunedComponents()), Json({{"shapes", Json::array({shape})},
                                                        {"epoch_cost", 2610657},
                                                        {"least_cost", 2610542},
                                                        {"harmonic_mean", 0.99996},
                                                        {"exact", true},
                                                        {"candidates", 589824},
                                                        {"planned", 2},
                                                        {"excluded", 589822},
                                                        {"reasons", {"Because."}},
                                                        {"group_graphs", Json::array()},
                                                        {"single_shape", shape},
                                                        {"frontier", Json::array({shape})}}));
}

}  // namespace
}  // namespace packhouse::client
