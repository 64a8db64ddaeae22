#include "service/server/wire/wire_tuning.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/limits.h"
#include "service/server/wire/epoch_words.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<DeviceProfile> ProfileOf(const std::string& text) {
  v1::DeviceProfile wire;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &wire)) << text;
  return DeviceProfileFromWire(wire, SizeSchema::NodesAndEdges());
}

TEST(DeviceProfileFromWireTest, UnsetFieldsHaveTheirMeaning) {
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile profile,
                          ProfileOf("components { component: 'graphs' max_rows: 64 } "
                                    "components { component: 'nodes' max_rows: 512 }"));
  ASSERT_EQ(profile.components.size(), 3U);
  const ComponentProfile& nodes = profile.components[0];
  EXPECT_EQ(nodes.min_rows, 1U);
  EXPECT_EQ(nodes.max_rows, 512U);
  EXPECT_EQ(nodes.multiple_of, 1U);
  EXPECT_EQ(nodes.bytes_per_row, 0U);
  EXPECT_EQ(nodes.relative_cost, 1);
  EXPECT_EQ(profile.components[1].max_rows, 0U) << "edges are not listed";
  EXPECT_EQ(profile.components[1].relative_cost, 0);
  EXPECT_EQ(profile.components[2].max_rows, 64U);
  EXPECT_EQ(profile.components[2].relative_cost, 0) << "graphs cost nothing unless said";
  EXPECT_EQ(profile.memory_bytes, 0U);
  EXPECT_EQ(profile.fixed_bytes, 0U);
  EXPECT_EQ(profile.max_distinct_shapes, 1U);
}

TEST(DeviceProfileFromWireTest, EveryFieldArrives) {
  PH_ASSERT_OK_AND_ASSIGN(
      const DeviceProfile profile,
      ProfileOf("components { component: 'nodes' min_rows: 8 max_rows: 512 multiple_of: 4 "
                "bytes_per_row: 36 relative_cost: 2.5 } "
                "components { component: 'graphs' max_rows: 7 relative_cost: 0.25 } "
                "memory_bytes: 100000 fixed_bytes: 1000 max_distinct_shapes: 8"));
  const ComponentProfile& nodes = profile.components[0];
  EXPECT_EQ(nodes.min_rows, 8U);
  EXPECT_EQ(nodes.multiple_of, 4U);
  EXPECT_EQ(nodes.bytes_per_row, 36U);
  EXPECT_EQ(nodes.relative_cost, 2.5);
  EXPECT_EQ(profile.components[2].relative_cost, 0.25);
  EXPECT_EQ(profile.memory_bytes, 100'000U);
  EXPECT_EQ(profile.fixed_bytes, 1000U);
  EXPECT_EQ(profile.max_distinct_shapes, 8U);
}

TEST(DeviceProfileFromWireTest, NamesWhatIsWrong) {
  const auto expect_refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(ProfileOf(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  };
  const std::string nodes = "components { component: 'nodes' max_rows: 9 } ";
  expect_refused(nodes + "components { component: 'fa\\nces' }",
                 "profile: unknown component 'fa\\nces'");
  expect_refused(nodes + nodes, "profile: component 'nodes' is listed twice");
  for (const char* cost : {"-0.5", "nan", "inf", "-inf", "1e300"}) {
    expect_refused(
        std::string("components { component: 'nodes' max_rows: 9 relative_cost: ") + cost + " }",
        "profile: relative_cost ");
  }
}

// What only the domain knows is checked here as well, before any work is done.
TEST(DeviceProfileFromWireTest, ProfilesWithoutAnyLimitsAreInvalid) {
  for (const char* text :
       {"", "components { component: 'nodes' }",
        "components { component: 'nodes' min_rows: 10 max_rows: 9 }",
        "components { component: 'nodes' max_rows: 9 multiple_of: 10 }",
        "components { component: 'nodes' max_rows: 9 relative_cost: 0 }",
        "components { component: 'nodes' max_rows: 9 bytes_per_row: 2 } "
        "memory_bytes: 1",
        "components { component: 'nodes' max_rows: 9 } max_distinct_shapes: 9"}) {
    EXPECT_THAT(ProfileOf(text), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_))
        << text;
  }
}

// Has measured one device.
class GivenModel final : public MeasuredModels {
 public:
  explicit GivenModel(MeasuredModel model)
      : model_(std::make_shared<const MeasuredModel>(std::move(model))) {}
  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override {
    return measured_as == "gnn/gpu" ? model_ : nullptr;
  }

 private:
  const std::shared_ptr<const MeasuredModel> model_;
};

// What a model does not tell stays as the profile has it; what it tells must leave something to
// choose.
TEST(AsMeasuredTest, TakesWhatWasMeasuredIfThereIsSomething) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  PH_ASSERT_OK_AND_ASSIGN(DeviceProfile profile,
                          ProfileOf("components { component: 'nodes' max_rows: 512 } fixed_cost: 3 "
                                    "measured_as: 'gnn/gpu'"));
  MeasuredModel model;
  model.components = {"nodes", "edges", "graphs"};
  model.seconds = {41.5, {42.5, 43.5, 44.5}, 45.5, 0};
  const GivenModel models(model);
  const auto fixed_cost = [&](const DeviceProfile& asked, const MeasuredModels* measured) {
    const absl::StatusOr<DeviceProfile> as = AsMeasured(asked, schema, measured);
    return as.ok() ? as->fixed_cost : -1;
  };
  EXPECT_EQ(fixed_cost(profile, &models), 41.5);
  EXPECT_EQ(fixed_cost(profile, nullptr), 3);
  DeviceProfile other = profile;
  other.measured_as = "gnn/cpu";
  EXPECT_EQ(fixed_cost(other, &models), 3);
  other.measured_as = "";
  EXPECT_EQ(fixed_cost(other, &models), 3);
  MeasuredModel of_graphs = model;
  of_graphs.components = {"edges", "graphs"};
  const GivenModel without_nodes(of_graphs);
  EXPECT_EQ(fixed_cost(profile, &without_nodes), 3);
  model.bounds.too_large = {{1, 0, 0}};
  const GivenModel nothing_fits(model);
  EXPECT_THAT(AsMeasured(profile, schema, &nothing_fits).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did not fit the device, as measured_as 'gnn/gpu' tells")));
  v1::TuneRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "profile { components { component: 'nodes' max_rows: 512 } measured_as: 'gnn/gpu' }",
      &request));
  EXPECT_THAT(PaddedProfileFromWire(request, schema, 64, &nothing_fits).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did not fit the device")));
}

// An epoch that is open goes on, whatever was measured meanwhile.
TEST(TakeMeasuredTest, IsOfJobsWhoseDevicesWereMeasured) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile profile,
                          ProfileOf("components { component: 'nodes' max_rows: 512 } fixed_cost: 3 "
                                    "measured_as: 'gnn/gpu'"));
  MeasuredModel model;
  model.components = {"nodes", "edges", "graphs"};
  model.seconds = {41.5, {42.5, 43.5, 44.5}, 45.5, 0};
  const auto measured = [&](const MeasuredModel& known, DeviceProfile device) {
    EpochRequest request;
    request.key.job = "job";
    request.rank_groups.resize(2);
    request.rank_groups[1].device = std::move(device);
    const GivenModel models(known);
    TakeMeasured(schema, &models, request);
    EXPECT_FALSE(request.rank_groups[0].measured.has_value());
    return request.rank_groups[1].measured;
  };
  ASSERT_TRUE(measured(model, profile).has_value());
  EXPECT_EQ(measured(model, profile)->fixed_cost, 41.5);
  DeviceProfile other = profile;
  other.measured_as = "gnn/cpu";
  EXPECT_FALSE(measured(model, other).has_value());
  // Bytes alone are something, too.
  MeasuredModel bytes = model;
  bytes.seconds = {};
  bytes.bounds.too_large = {{500, kUnlimited, kUnlimited}};
  ASSERT_TRUE(measured(bytes, profile).has_value());
  EXPECT_EQ(measured(bytes, profile)->fixed_cost, 3);
  EXPECT_NE(measured(bytes, profile)->measured_bytes, nullptr);
  model.bounds.too_large = {{1, 0, 0}};
  EXPECT_FALSE(measured(model, profile).has_value());
}

absl::StatusOr<TuneOptions> OptionsOf(const std::string& text) {
  v1::TuneRequest wire;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &wire)) << text;
  return TuneOptionsFromWire(wire);
}

TEST(TuneOptionsFromWireTest, DefaultsAndBounds) {
  PH_ASSERT_OK_AND_ASSIGN(const TuneOptions defaults, OptionsOf(""));
  EXPECT_EQ(defaults.objective, TuneObjective::kEpochCost);
  EXPECT_EQ(defaults.steps, 2'000'000'000U);
  EXPECT_EQ(defaults.seed, 0U);
  EXPECT_FALSE(defaults.include_grid);
  PH_ASSERT_OK_AND_ASSIGN(const TuneOptions all,
                          OptionsOf("objective: TUNE_OBJECTIVE_HARMONIC_MEAN budget_steps: 17 "
                                    "seed: 3 include_grid: true"));
  EXPECT_EQ(all.objective, TuneObjective::kHarmonicMean);
  EXPECT_EQ(all.steps, 17U);
  EXPECT_EQ(all.seed, 3U);
  EXPECT_TRUE(all.include_grid);
  EXPECT_THAT(OptionsOf("budget_steps: 100000000001"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "budget_steps: 100000000001, at most 100000000000"));
  EXPECT_THAT(OptionsOf("objective: 3"),
              StatusIs(absl::StatusCode::kInvalidArgument, "objective: unknown value 3"));
}

TunedShape ShapeOf(uint64_t nodes) {
  TunedShape shape;
  shape.capacities = {nodes, kUnlimited, 8};
  shape.packs = 5;
  shape.lower_bound = 4;
  shape.epoch_cost = 5.0 * static_cast<double>(nodes);
  shape.harmonic_mean = 0.75;
  shape.components = {{nodes, 0.75, nodes - 1, 0.8}, {}, {8, 0.5, 7, 0.6}};
  shape.batch_bytes = 4 * nodes;
  return shape;
}

TEST(TuneToWireTest, AShapeNamesItsComponents) {
  v1::TunedShape wire;
  TunedShapeToWire(ShapeOf(100), SizeSchema::NodesAndEdges(), wire);
  ASSERT_EQ(wire.limits().capacities_size(), 3);
  EXPECT_EQ(wire.limits().capacities(0).component(), "nodes");
  EXPECT_EQ(wire.limits().capacities(0).rows(), 100U);
  EXPECT_EQ(wire.limits().capacities(1).rows(), 0U) << "no limit";
  EXPECT_EQ(wire.limits().capacities(2).component(), "graphs");
  EXPECT_EQ(wire.packs(), 5U);
  EXPECT_EQ(wire.lower_bound(), 4U);
  EXPECT_EQ(wire.epoch_cost(), 500);
  EXPECT_EQ(wire.harmonic_mean(), 0.75);
  ASSERT_EQ(wire.components_size(), 3);
  EXPECT_EQ(wire.components(0).efficiency(), 0.75);
  EXPECT_EQ(wire.components(1).capacity(), 0U);
  EXPECT_EQ(wire.components(2).component(), "graphs");
  EXPECT_EQ(wire.batch_bytes(), 400U);
}

TEST(TuneToWireTest, ProgressHasAnIncumbentOnceThereIsOne) {
  TuneProgress progress = {UINT64_MAX, 2, 3, nullptr};
  v1::TuneProgress wire;
  TuneProgressToWire(progress, SizeSchema::NodesAndEdges(), wire);
  EXPECT_EQ(wire.candidates(), UINT64_MAX);
  EXPECT_EQ(wire.planned(), 2U);
  EXPECT_EQ(wire.excluded(), 3U);
  EXPECT_FALSE(wire.has_incumbent());
  const TunedShape shape = ShapeOf(10);
  progress.incumbent = &shape;
  TuneProgressToWire(progress, SizeSchema::NodesAndEdges(), wire);
  EXPECT_EQ(wire.incumbent().limits().capacities(0).rows(), 10U);
}

TuneResult ResultOf(size_t cells, size_t frontier) {
  TuneResult result;
  result.shapes = {ShapeOf(20), ShapeOf(10)};
  result.single_shape = ShapeOf(30);
  result.cheapest_shape = ShapeOf(25);
  result.epoch_cost = 150;
  result.least_cost = 140;
  result.harmonic_mean = 0.9;
  result.exact = true;
  result.reasons = {"one", "two"};
  result.group_graphs = {11, 5};
  result.oversize = OversizeGraphs{7, 2, 3, {40, 50}, {40, 0, 1}, 4000};
  for (size_t i = 0; i < cells; ++i) {
    result.cells.push_back({{i + 1, kUnlimited, 8}, 0.5, 100.0, i % 2 == 0});
  }
  for (size_t i = 0; i < frontier; ++i) result.frontier.push_back(ShapeOf(i + 1));
  return result;
}

// Cells, then the frontier, each in its order, then one recommendation, then nothing.
TEST(TuneAnswersTest, ComeInOrder) {
  for (const auto& [cells, frontier] :
       std::vector<std::pair<size_t, size_t>>{{0, 0}, {3, 0}, {0, 2}, {3, 2}}) {
    ByteQuota quota(1'000'000);
    PH_ASSERT_OK_AND_ASSIGN(
        const auto answers,
        TuneAnswers::Create(ResultOf(cells, frontier), SizeSchema::NodesAndEdges(), &quota));
    for (size_t i = 0; i < cells; ++i) {
      const auto response = answers->Next();
      ASSERT_TRUE(response.ok() && response->has_value());
      ASSERT_TRUE((*response)->has_cell());
      EXPECT_THAT((*response)->cell().capacities(), ElementsAre(i + 1, 0, 8));
      EXPECT_EQ((*response)->cell().planned(), i % 2 == 0);
      EXPECT_EQ((*response)->cell().harmonic_mean(), 0.5);
      EXPECT_EQ((*response)->cell().epoch_cost(), 100);
    }
    for (size_t i = 0; i < frontier; ++i) {
      const auto response = answers->Next();
      ASSERT_TRUE(response.ok() && response->has_value());
      ASSERT_TRUE((*response)->has_frontier());
      EXPECT_EQ((*response)->frontier().limits().capacities(0).rows(), i + 1);
    }
    const auto last = answers->Next();
    ASSERT_TRUE(last.ok() && last->has_value());
    ASSERT_TRUE((*last)->has_recommendation());
    const v1::TuneRecommendation& recommendation = (*last)->recommendation();
    ASSERT_EQ(recommendation.shapes_size(), 2);
    EXPECT_EQ(recommendation.shapes(1).limits().capacities(0).rows(), 10U);
    EXPECT_EQ(recommendation.single_shape().limits().capacities(0).rows(), 30U);
    EXPECT_EQ(recommendation.cheapest_shape().limits().capacities(0).rows(), 25U);
    EXPECT_EQ(recommendation.epoch_cost(), 150);
    EXPECT_EQ(recommendation.least_cost(), 140);
    EXPECT_EQ(recommendation.harmonic_mean(), 0.9);
    EXPECT_TRUE(recommendation.exact());
    EXPECT_THAT(recommendation.reasons(), ElementsAre("one", "two"));
    EXPECT_EQ(recommendation.oversize().num_graphs(), 7U);
    EXPECT_THAT(recommendation.oversize().largest(), ElementsAre(40, 50));
    EXPECT_THAT(recommendation.oversize().needed_rows(), ElementsAre(40, 0, 1));
    EXPECT_EQ(recommendation.oversize().num_apart(), 2U);
    EXPECT_EQ(recommendation.oversize().needed_bytes(), 4000U);
    EXPECT_EQ(recommendation.oversize().num_shapes(), 3U);
    EXPECT_THAT(recommendation.group_graphs(), ElementsAre(11, 5));
    for (int again = 0; again < 2; ++again) {
      const auto end = answers->Next();
      ASSERT_TRUE(end.ok());
      EXPECT_FALSE(end->has_value());
    }
  }
}

// However it ends, the quota has back what a grid took.
TEST(TuneAnswersTest, AGridIsHeldUntilItWasGivenOut) {
  ByteQuota quota(1'000'000);
  {
    PH_ASSERT_OK_AND_ASSIGN(
        const auto answers,
        TuneAnswers::Create(ResultOf(3, 1), SizeSchema::NodesAndEdges(), &quota));
    EXPECT_GE(quota.held(), 3 * sizeof(TuneCell));
    for (int i = 0; i < 3; ++i) EXPECT_THAT(answers->Next(), IsOk());
    EXPECT_EQ(quota.held(), 0U);
  }
  EXPECT_EQ(quota.held(), 0U);
  {
    PH_ASSERT_OK_AND_ASSIGN(
        const auto answers,
        TuneAnswers::Create(ResultOf(3, 1), SizeSchema::NodesAndEdges(), &quota));
    EXPECT_THAT(answers->Next(), IsOk());
    EXPECT_GT(quota.held(), 0U);
  }
  EXPECT_EQ(quota.held(), 0U);
}

TEST(TuneAnswersTest, AGridBeyondTheQuotaIsRefused) {
  ByteQuota quota(100);
  ASSERT_TRUE(quota.TryTake(50));
  EXPECT_THAT(TuneAnswers::Create(ResultOf(3, 1), SizeSchema::NodesAndEdges(), &quota),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("bytes, and of the 100 that all streams share 50 are held")));
  EXPECT_EQ(quota.held(), 50U);
  EXPECT_THAT(TuneAnswers::Create(ResultOf(0, 9), SizeSchema::NodesAndEdges(), &quota), IsOk());
}

}  // namespace
}  // namespace packhouse
