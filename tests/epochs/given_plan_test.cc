// Plans that are given instead of made, and the shapes that they bring.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// One request of each kind, by name.
std::vector<std::pair<std::string, EpochRequest>> AllKinds() {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](const char* name) -> EpochRequest& {
    requests.emplace_back(name, DatasetWorld::Request());
    return requests.back().second;
  };
  add("shuffled");
  add("ragged").rank_groups[0].shapes = {{kUnlimited, 30, kUnlimited}};
  requests.back().second.padding = Padding::kNone;
  add("in order").in_order = true;
  add("grouped").grouped = true;
  add("a subset").subset = SubsetRequest{{1003}, {{1010, 40}}};
  add("drawn").draw = WeightedDraw{{}, 70, true};
  add("several shapes").rank_groups[0].shapes = {{24, 30, 6}, {14, 10, 4}};
  add("several rank groups").rank_groups = {{{{24, 30, 6}}, std::nullopt, 2},
                                            {{{20, 24, 6}}, std::nullopt, 3}};
  DeviceProfile device;
  device.components = {{1, 128, 8, 4, 1}, {1, 256, 8, 8, 1}, {1, 16, 1, 0, 0}};
  device.memory_bytes = 4096;
  device.max_distinct_shapes = 2;
  add("a device").rank_groups = {{{}, device, 1}};
  return requests;
}

std::vector<std::string> AllBytes(const PreparedEpoch& epoch) {
  std::vector<std::string> all;
  for (uint64_t number = 0; number < epoch.identity().num_batches(); ++number) {
    const Batch batch = epoch.Build(number).value().batch;
    for (const uint64_t id : batch.graph_ids) absl::StrAppend(&all.emplace_back(), id, " ");
    for (const BatchTensor& tensor : batch.tensors) all.emplace_back(tensor.data);
  }
  return all;
}

class GivenPlanTest : public ::testing::Test {
 protected:
  GivenPlanTest() : world_(90, 4, 6, 40) { world_.Seal(); }

  std::shared_ptr<const DatasetReader> reader() {
    return world_.store().OpenReader("graphs").value();
  }
  absl::StatusOr<std::shared_ptr<const EpochPlan>> MakeFrom(
      const EpochRequest& request, std::shared_ptr<const PlannerResult> given) {
    // No step for a planner: what it finds now would be another plan.
    EpochBounds bounds;
    bounds.planner_steps = 0;
    return EpochPlan::Make(reader(), request, bounds, {}, std::move(given));
  }

  DatasetWorld world_;
};

TEST_F(GivenPlanTest, WhatAPlannerFoundMakesTheSameEpochWithoutIt) {
  for (const auto& [name, request] : AllKinds()) {
    SCOPED_TRACE(name);
    PH_ASSERT_OK_AND_ASSIGN(const auto made, EpochPlan::Make(reader(), request, EpochBounds()));
    PH_ASSERT_OK_AND_ASSIGN(const auto given, MakeFrom(request, made->planned()));
    EXPECT_EQ(*given->planned(), *made->planned());
    EXPECT_EQ(given->num_graphs(), made->num_graphs());
    EXPECT_EQ(given->num_oversize(), made->num_oversize());
    PH_ASSERT_OK_AND_ASSIGN(const auto first, PreparedEpoch::Prepare(made, request, EpochBounds()));
    PH_ASSERT_OK_AND_ASSIGN(const auto again,
                            PreparedEpoch::Prepare(given, request, EpochBounds()));
    EXPECT_EQ(again->identity(), first->identity());
    EXPECT_EQ(AllBytes(*again), AllBytes(*first));
  }
}

// Whatever is changed of it: it is no plan of these graphs any more, and is refused.
TEST_F(GivenPlanTest, WhatIsNoPlanOfTheseGraphsIsRefused) {
  const EpochRequest request = DatasetWorld::Request();
  PH_ASSERT_OK_AND_ASSIGN(const auto made, EpochPlan::Make(reader(), request, EpochBounds()));
  const auto refused = [&](absl::string_view why,
                           const std::function<void(PlannerResult&)>& change) {
    PlannerResult changed = *made->planned();
    change(changed);
    EXPECT_THAT(MakeFrom(request, std::make_shared<const PlannerResult>(std::move(changed))),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr(absl::StrCat("plan ", made->receipt(), ": ", why))));
  };
  refused("is for 2 rank groups, there are 1",
          [](PlannerResult& plan) { plan.shapes.push_back(plan.shapes[0]); });
  refused("rank group 0 has no shapes", [](PlannerResult& plan) { plan.shapes[0].clear(); });
  refused("is for other sizes than these graphs have",
          [](PlannerResult& plan) { ++plan.tuples.back(); });
  refused("is for other sizes than these graphs have",
          [](PlannerResult& plan) { plan.num_components = 3; });
  refused("has patterns for 0 rank groups, there are 1",
          [](PlannerResult& plan) { plan.patterns.clear(); });
  refused("plan: has places for", [](PlannerResult& plan) { plan.patterns[0].pop_back(); });
  refused("plan: has places for", [](PlannerResult& plan) { ++plan.patterns[0][0].repeats; });
  refused("plan: a pattern without graphs", [](PlannerResult& plan) {
    plan.patterns[0].push_back({{}, 1});
  });
  refused("plan: 1 copies of size number 4000", [](PlannerResult& plan) {
    plan.patterns[0].push_back({{{4000, 1}}, 1});
  });
  refused("a batch of it has", [](PlannerResult& plan) {
    // All in one batch.
    Pattern all = {{}, 1};
    for (const Pattern& pattern : plan.patterns[0]) {
      for (const auto& [tuple, copies] : pattern.entries) {
        all.entries.push_back({tuple, static_cast<uint32_t>(copies * pattern.repeats)});
      }
    }
    plan.patterns[0] = {all};
  });
}

// All in one batch: what is told is what the first shape would have to take.
TEST_F(GivenPlanTest, ABatchThatNoShapeTakesIsNamed) {
  for (const bool has_several : {false, true}) {
    EpochRequest request = DatasetWorld::Request();
    if (has_several) request.rank_groups[0].shapes = {{24, 30, 6}, {14, 10, 4}};
    PH_ASSERT_OK_AND_ASSIGN(const auto made, EpochPlan::Make(reader(), request, EpochBounds()));
    auto changed = std::make_shared<PlannerResult>(*made->planned());
    std::vector<uint64_t> rows(2);
    Pattern all = {{}, 1};
    for (const Pattern& pattern : changed->patterns[0]) {
      for (const auto& [tuple, copies] : pattern.entries) {
        const auto number = static_cast<uint32_t>(copies * pattern.repeats);
        all.entries.push_back({tuple, number});
        for (size_t k = 0; k < 2; ++k) rows[k] += number * changed->tuples[2 * tuple + k];
      }
    }
    changed->patterns[0] = {all};
    EXPECT_EQ(MakeFrom(request, changed).status(),
              absl::DataLossError(absl::StrCat("plan ", made->receipt(), ": a batch of it has ",
                                               rows[0], " rows of component 0, at most 24 fit",
                                               has_several ? " the first shape" : "")));
  }
}

TEST(EpochShapesTest, CapacitiesGiveTheSameShapesAgain) {
  const auto schema = SmallSchema();
  for (const Padding padding : {Padding::kNone, Padding::kMasked, Padding::kGraph}) {
    BatchShapeOptions options;
    options.padding = padding;
    options.max_graphs_per_batch = 50;
    EpochShapes shapes;
    if (padding == Padding::kNone) {
      ASSERT_THAT(shapes.AddRankGroup(*schema, {{kUnlimited, 70, kUnlimited}}, options), IsOk());
    }
    ASSERT_THAT(shapes.AddRankGroup(*schema, {{64, 70, 80}, {24, 30, 6}}, options), IsOk());
    EpochShapes again;
    for (const auto& capacities : shapes.Capacities()) {
      ASSERT_THAT(again.AddRankGroup(*schema, capacities, options), IsOk());
    }
    EXPECT_EQ(again.Capacities(), shapes.Capacities());
    EXPECT_EQ(again.Packed(), shapes.Packed());
  }
}

}  // namespace
}  // namespace packhouse
