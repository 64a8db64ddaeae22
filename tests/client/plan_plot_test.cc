#include "client/cli/plots/plan_plot.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/little_endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/plot_data.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& Components() {
  static const auto* const components = new std::vector<std::string>{"nodes", "edges"};
  return *components;
}

void AddComponent(const std::string& name, uint64_t capacity, v1::PlanResponse& response) {
  v1::ComponentEfficiency* const component = response.mutable_best()->add_components();
  component->set_component(name);
  component->set_capacity(capacity);
  component->set_efficiency(0.5);
}

// Random patterns of sizes up to (20, 40), at most five graphs a pack.
v1::PlanResponse RandomPlan(std::mt19937_64& random) {
  v1::PlanResponse response;
  std::vector<uint32_t> tuples;
  constexpr uint32_t kTuples = 12;
  for (uint32_t i = 0; i < kTuples; ++i) {
    tuples.push_back(static_cast<uint32_t>(random() % 21));
    tuples.push_back(static_cast<uint32_t>(random() % 41));
  }
  AppendLittleEndian(absl::MakeConstSpan(tuples), *response.mutable_plan()->mutable_tuples());
  uint64_t packs = 0;
  for (int i = 0; i < 30; ++i) {
    v1::Pattern* const pattern = response.mutable_plan()->add_patterns();
    pattern->set_repeats(1 + random() % 100);
    packs += pattern->repeats();
    for (int entries = 0; entries < 5; ++entries) {
      v1::PatternEntry* const entry = pattern->add_entries();
      entry->set_tuple(static_cast<uint32_t>(random() % kTuples));
      entry->set_copies(1);
    }
  }
  response.mutable_best()->set_packs(packs);
  AddComponent("nodes", 100, response);
  AddComponent("edges", 200000, response);
  AddComponent("graphs", 5, response);
  return response;
}

// Conservation: every pack is in each curve once, and brings its rows.
TEST(FillCurvesTest, WeightsSumToThePacksAndRows) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(testing::Message() << "round=" << round);
    const v1::PlanResponse response = RandomPlan(random);
    const LittleEndianView<uint32_t> tuples(response.plan().tuples());
    std::vector<uint64_t> rows(3);
    for (const v1::Pattern& pattern : response.plan().patterns()) {
      for (const v1::PatternEntry& entry : pattern.entries()) {
        rows[0] += pattern.repeats() * entry.copies() * tuples[std::size_t{2} * entry.tuple()];
        rows[1] += pattern.repeats() * entry.copies() * tuples[std::size_t{2} * entry.tuple() + 1];
        rows[2] += pattern.repeats() * entry.copies();
      }
    }
    const absl::StatusOr<std::vector<FillCurve>> curves = FillCurves(response, Components());
    ASSERT_TRUE(curves.ok()) << curves.status();
    ASSERT_EQ(curves->size(), 3);
    for (std::size_t k = 0; k < 3; ++k) {
      uint64_t packs = 0;
      uint64_t of_packs = 0;
      for (std::size_t i = 0; i < (*curves)[k].steps.size(); ++i) {
        const FillCurve::Step& step = (*curves)[k].steps[i];
        packs += step.packs;
        of_packs += step.packs * step.rows;
        if (i > 0) {
          EXPECT_GT(step.rows, (*curves)[k].steps[i - 1].rows);
        }
      }
      EXPECT_EQ(packs, response.best().packs());
      EXPECT_EQ(of_packs, rows[k]);
    }
  }
}

// What is drawn goes from the first pack to the last without a gap and never falls.
TEST(FillPanelTest, CurvesCoverAllPacksOnce) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(testing::Message() << "round=" << round);
    const v1::PlanResponse response = RandomPlan(random);
    const absl::StatusOr<std::vector<FillCurve>> curves = FillCurves(response, Components());
    ASSERT_TRUE(curves.ok());
    const std::string script = FillPanel(*curves, Frame{});
    for (std::size_t k = 0; k < curves->size(); ++k) {
      const std::vector<std::vector<double>> rows = PlotRows(script, absl::StrCat("fill", k));
      ASSERT_FALSE(rows.empty());
      ASSERT_EQ(rows.size() % 2, 0);
      double at = 0.5;
      double fill = -1;
      for (std::size_t i = 0; i < rows.size(); i += 2) {
        EXPECT_EQ(rows[i][0], at);
        EXPECT_GT(rows[i + 1][0], at);
        EXPECT_GT(rows[i][1], fill);
        EXPECT_EQ(rows[i][1], rows[i + 1][1]);
        at = rows[i + 1][0];
        fill = rows[i][1];
      }
      EXPECT_EQ(at, static_cast<double>(response.best().packs()) + 0.5);
    }
  }
}

// A curve of very many fills is drawn with as many as can be seen, each close to its place.
TEST(FillPanelTest, ManyFillsAreThinnedOut) {
  FillCurve curve{.component = "edges", .capacity = 1000000, .efficiency = 0.5, .steps = {}};
  for (uint64_t rows = 0; rows < 1000000; rows += 10) {
    curve.steps.push_back({.rows = rows, .packs = 1});
  }
  const std::vector<std::vector<double>> rows = PlotRows(FillPanel({curve}, Frame{}), "fill0");
  EXPECT_LT(rows.size(), 2200);
  EXPECT_EQ(rows.back()[0], 100000.5);
  for (const std::vector<double>& row : rows) {
    // The pack at place p has 10 (p - 1) rows of 1000000.
    EXPECT_NEAR(row[1], (row[0] - 0.5) / 1000, 0.102);
  }
}

TEST(FillCurvesTest, ComponentsWithoutALimitHaveNone) {
  v1::PlanResponse response;
  AddComponent("nodes", 0, response);
  AddComponent("edges", 10, response);
  AddComponent("graphs", 0, response);
  const absl::StatusOr<std::vector<FillCurve>> curves = FillCurves(response, Components());
  ASSERT_TRUE(curves.ok());
  ASSERT_EQ(curves->size(), 1);
  EXPECT_EQ(curves->front().component, "edges");
}

TEST(FillCurvesTest, AnUnknownTupleIsAnError) {
  v1::PlanResponse response;
  response.mutable_plan()->add_patterns()->add_entries()->set_tuple(7);
  const absl::Status status = FillCurves(response, Components()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::string(status.message()), "the server's plan has no tuple 7, only 0");
}

TEST(PlanPictureTest, HasBothPanels) {
  std::mt19937_64 random(3);
  const v1::PlanResponse response = RandomPlan(random);
  const GraphSizes sizes{
      .components = Components(), .values = {10, 20, 12, 24}, .counts = {1, 5}, .num_rows = 2};
  const absl::StatusOr<std::string> script =
      PlanPicture("a.svg", "t", {Components(), {{100, 200}}, {}}, sizes, response);
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_TRUE(HasPlotRows(*script, "cells"));
  EXPECT_TRUE(HasPlotRows(*script, "fill2"));
  EXPECT_THAT(*script, HasSubstr("'nodes of 100: 50.000 %'"));
  EXPECT_EQ(PlanPicture("a.gif", "t", {Components(), {}, {}}, sizes, response).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse::client
