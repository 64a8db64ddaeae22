#include "service/server/wire/epoch_words.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/jobs/ledger_event.h"
#include "service/server/wire/wire_loader.h"
#include "service/stores/datasets/mixed_datasets.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/services/samples_kind.h"
#include "service/wings/partition/epochs/joined_parts.h"
#include "service/wings/partition/services/joined_kind.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/told_fields.h"

namespace packhouse {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One model on one device, whose batches cost 0.01 s and 1 us a row.
class OneModel final : public MeasuredModels {
 public:
  OneModel(std::string name, std::vector<std::string> components) : name_(std::move(name)) {
    MeasuredShapes shapes;
    for (uint64_t times = 1; times <= 20; ++times) {
      BatchObservation observation;
      observation.capacities = {100 * times, 70 * times + times * times, 3 * times + times % 3};
      uint64_t rows = 0;
      for (const uint64_t capacity : observation.capacities) rows += capacity;
      observation.seconds = 0.01 + 1e-6 * static_cast<double>(rows);
      shapes.Add(observation);
    }
    model_ = std::make_shared<const MeasuredModel>(FitModel(std::move(components), shapes));
  }

  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override {
    return measured_as == name_ ? model_ : nullptr;
  }

 private:
  const std::string name_;
  std::shared_ptr<const MeasuredModel> model_;
};

// Evaluations, exports and figures of an epoch without a job: nothing would keep their limits, so
// ranks that ask one after the other would get others after a report.
TEST(EpochWordsTest, OnlyAJobPlansByWhatWasMeasured) {
  DatasetWorld world(10);
  world.Seal();
  OneGraphStore graphs{SmallSourceGraph(60)};
  const SamplesKind samples_kind(&graphs);
  const EpochKinds kinds = {{&samples_kind}, {}};
  v1::EpochSpec of_dataset;
  of_dataset.set_dataset("graphs");
  v1::EpochSpec of_samples;
  of_samples.mutable_samples()->mutable_sub_graphs()->set_graph("g");
  of_samples.mutable_samples()->mutable_sub_graphs()->set_text(TwoHopSpec(3, 2));
  for (v1::EpochSpec spec : {of_dataset, of_samples}) {
    SCOPED_TRACE(spec.ShortDebugString());
    const std::vector<std::string> components =
        spec.has_samples() ? std::vector<std::string>{"n", "e", "graphs"}
                           : std::vector<std::string>{"nodes", "edges", "graphs"};
    const OneModel models("gin/sim", components);
    v1::DeviceProfile& device = *spec.add_rank_groups()->mutable_device_profile();
    device.set_measured_as("gin/sim");
    for (const std::string& name : components) {
      v1::DeviceProfile::Component& component = *device.add_components();
      component.set_component(name);
      component.set_max_rows(1000);
    }
    MemoryHold memory;
    const auto open = [&] {
      return OpenEpochRequest(spec, world.store(), &kinds, nullptr, memory, &models);
    };
    PH_ASSERT_OK_AND_ASSIGN(const EpochRequest without_job, open());
    ASSERT_EQ(without_job.rank_groups.size(), 1U);
    EXPECT_EQ(without_job.rank_groups[0].device->measured_as, "gin/sim");
    EXPECT_FALSE(without_job.rank_groups[0].measured.has_value());
    spec.set_job("job");
    PH_ASSERT_OK_AND_ASSIGN(const EpochRequest of_job, open());
    EXPECT_TRUE(of_job.rank_groups[0].measured.has_value());
  }
}

// Where the wing of a kind was left out, the request is refused by name.
TEST(EpochWordsTest, AKindThatIsNotThereIsNamed) {
  DatasetWorld world(10);
  world.Seal();
  v1::EpochSpec of_samples;
  of_samples.mutable_samples();
  v1::EpochSpec of_parts;
  of_parts.set_dataset("graphs");
  of_parts.set_join_parts(true);
  const EpochKinds absent = {{}, {{"join_parts", "without the wing"}}};
  for (const EpochKinds* const kinds : {static_cast<const EpochKinds*>(nullptr), &absent}) {
    MemoryHold memory;
    EXPECT_THAT(OpenEpochRequest(of_samples, world.store(), kinds, nullptr, memory),
                StatusIs(absl::StatusCode::kUnimplemented,
                         HasSubstr("epoch.samples: this server has no such epochs")));
    EXPECT_THAT(OpenEpochRequest(of_parts, world.store(), kinds, nullptr, memory),
                StatusIs(absl::StatusCode::kUnimplemented,
                         HasSubstr(kinds == nullptr ? "epoch.join_parts: this server has no such"
                                                    : "epoch.join_parts: without the wing")));
  }
}

// Of two kinds each must be there.
TEST(EpochWordsTest, KindsThatGoTogetherAreBothAsked) {
  DatasetWorld world(10);
  world.Seal();
  OneGraphStore graphs{SmallSourceGraph(60)};
  const SamplesKind samples_kind(&graphs);
  const JoinedKind joined_kind;
  v1::EpochSpec spec;
  spec.set_join_parts(true);
  spec.mutable_samples()->mutable_sub_graphs()->set_graph("g");
  spec.mutable_samples()->mutable_sub_graphs()->set_text(TwoHopSpec(3, 2));
  MemoryHold memory;
  const EpochKinds both = {{&joined_kind, &samples_kind}, {}};
  PH_ASSERT_OK_AND_ASSIGN(const EpochRequest request,
                          OpenEpochRequest(spec, world.store(), &both, nullptr, memory));
  EXPECT_NE(request.Find<SamplesRequest>(), nullptr);
  EXPECT_NE(request.Find<JoinedParts>(), nullptr);
  const EpochKinds one = {{&samples_kind}, {{"join_parts", "without the wing"}}};
  EXPECT_THAT(OpenEpochRequest(spec, world.store(), &one, nullptr, memory),
              StatusIs(absl::StatusCode::kUnimplemented, "epoch.join_parts: without the wing"));
}

TEST(EpochWordsTest, WordsAreKeptAsLongAsTheyAreShort) {
  v1::EpochSpec spec;
  spec.set_dataset("d");
  spec.set_job("job");
  spec.set_epoch(5);
  const std::string short_words = WordsOf(spec);
  PH_ASSERT_OK_AND_ASSIGN(const v1::EpochSpec read, SpecOfWords(short_words, {"other", 7}));
  EXPECT_EQ(read.ShortDebugString(), R"(dataset: "d" job: "other" epoch: 7)");
  EXPECT_THAT(SpecOfWords("\xff", {"other", 7}),
              StatusIs(absl::StatusCode::kInvalidArgument, "words: are no EpochSpec"));
  // All but the ids, whose field's heads have some bytes.
  const size_t others = short_words.size() + 10;
  spec.mutable_subset()->set_graph_ids(std::string(kMaxWordsBytes - others, 'i'));
  size_t size = 0;
  for (; !WordsOf(spec).empty(); spec.mutable_subset()->mutable_graph_ids()->push_back('i')) {
    size = WordsOf(spec).size();
  }
  EXPECT_EQ(size, kMaxWordsBytes);
  spec.mutable_subset()->set_graph_ids(std::string(3 * kMaxWordsBytes, 'i'));
  EXPECT_EQ(WordsOf(spec), "");
}

TEST(EpochWordsTest, MixingIsReadOrRefusedByName) {
  DatasetWorld world(10);
  world.Seal();
  v1::EpochSpec spec;
  spec.set_dataset("graphs");
  MemoryHold memory;
  const auto read = [&] { return OpenEpochRequest(spec, world.store(), nullptr, nullptr, memory); };
  EXPECT_EQ(read()->mixing.most_company, std::nullopt);
  EXPECT_FALSE(read()->mixing.is_off);
  v1::Mixing& mixing = *spec.mutable_mixing();
  EXPECT_EQ(read()->mixing.most_company, MixingRequest::kMostCompany);
  for (const double most : {1.0, 1.5, 1e9}) {
    mixing.set_most_company(most);
    EXPECT_EQ(read()->mixing.most_company, most);
  }
  for (const double most : {0.99, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    mixing.set_most_company(most);
    EXPECT_THAT(read(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixing.most_company: ")));
  }
  mixing.set_most_company(2);
  mixing.set_off(true);
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("must be unset with mixing.off")));
  mixing.clear_most_company();
  EXPECT_TRUE(read()->mixing.is_off);
  EXPECT_EQ(read()->mixing.most_company, std::nullopt);
}

TEST(EpochWordsTest, TheOrderIsReadOrRefusedByName) {
  DatasetWorld world(10);
  world.Seal();
  v1::EpochSpec spec;
  spec.set_dataset("graphs");
  MemoryHold memory;
  const auto read = [&] { return OpenEpochRequest(spec, world.store(), nullptr, nullptr, memory); };
  EXPECT_FALSE(read()->cost_balanced.has_value());
  spec.mutable_order()->mutable_shuffled();
  EXPECT_FALSE(read()->cost_balanced.has_value());
  spec.set_in_order(true);
  EXPECT_THAT(CheckTogether(EngineRules(), *read()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("order.shuffled: not together with in_order")));
  spec.clear_in_order();
  v1::CostBalanced& balanced = *spec.mutable_order()->mutable_cost_balanced();
  ASSERT_TRUE(read()->cost_balanced.has_value());
  EXPECT_FALSE(read()->cost_balanced->cost.has_value());

  const auto add = [&](v1::CostForm form, const std::string& component, double weight) {
    v1::CostTerm& term = *balanced.add_terms();
    term.set_form(form);
    term.set_component(component);
    term.set_weight(weight);
  };
  add(v1::COST_FORM_UNSPECIFIED, "edges", 0);
  add(v1::COST_FORM_SQUARED_ROWS, "graphs", 0.5);
  add(v1::COST_FORM_SUM_OF_SQUARES, "nodes", 3);
  add(v1::COST_FORM_BATCH, "", 7);
  add(v1::COST_FORM_ROWS, "nodes", 2);
  EXPECT_EQ(read()->cost_balanced->cost->Words(), "1*c1 + 0.5*c2^2 + 3*sum c0^2 + 7*batch + 2*c0");

  const auto refused = [&](const std::string& message) {
    EXPECT_THAT(read(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  balanced.mutable_terms(4)->set_component("atoms");
  refused("order.cost_balanced.terms: number 4: unknown component 'atoms'");
  balanced.mutable_terms(4)->set_component("");
  refused("order.cost_balanced.terms: number 4: unknown component ''");
  balanced.mutable_terms(4)->set_form(static_cast<v1::CostForm>(9));
  refused("order.cost_balanced.terms: number 4: unknown form 9");
  balanced.mutable_terms(4)->set_form(v1::COST_FORM_BATCH);
  balanced.mutable_terms(4)->set_component("nodes");
  refused("number 4: of COST_FORM_BATCH with component 'nodes', must have none");
  balanced.mutable_terms(4)->set_form(v1::COST_FORM_SUM_OF_SQUARES);
  balanced.mutable_terms(4)->set_component("graphs");
  refused("order.cost_balanced: cost: term 4 is of component 2");
  balanced.mutable_terms(4)->set_component("nodes");
  for (const double weight : {-1.0, std::numeric_limits<double>::infinity()}) {
    balanced.mutable_terms(4)->set_weight(weight);
    refused("order.cost_balanced: cost: term 4 has weight ");
  }
  balanced.mutable_terms(4)->set_weight(1);
  EXPECT_THAT(read(), IsOk());
  balanced.set_num_ranks(8);
  spec.add_rank_groups()->set_num_ranks(1);
  EXPECT_EQ(read()->rank_groups[0].num_ranks, 8U);
  spec.add_rank_groups()->set_num_ranks(3);
  refused("order.cost_balanced.num_ranks: 8, must be unset with several rank groups");
  balanced.clear_num_ranks();
  EXPECT_EQ(read()->rank_groups[1].num_ranks, 3U);
  while (balanced.terms_size() <= 64) add(v1::COST_FORM_ROWS, "nodes", 1);
  refused("order.cost_balanced: cost: 65 terms, must be 1 to 64");
}

TEST(EpochWordsTest, AScoreIsReadOrRefusedByName) {
  DatasetWorld world(10);
  world.Seal();
  v1::EpochSpec spec;
  spec.set_dataset("graphs");
  MemoryHold memory;
  v1::ByScore& wire = *spec.mutable_order()->mutable_by_score();
  const auto read = [&] { return OpenEpochRequest(spec, world.store(), nullptr, nullptr, memory); };
  const auto refused = [&](const std::string& message) {
    EXPECT_THAT(read(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused("order.by_score.component: unknown component ''");
  for (const char* const none : {"atoms", "graphs", "y"}) {
    wire.set_component(none);
    refused(absl::StrCat("order.by_score.component: unknown component '", none, "'"));
  }
  wire.set_component("edges");
  EXPECT_EQ(read()->by_score->tensor, std::nullopt);
  EXPECT_EQ(read()->by_score->component, 1U);
  // Of nodes, of edges, and none.
  for (const char* const none : {"x", "edge_index", "z", ""}) {
    wire.set_tensor(none);
    refused(
        absl::StrCat("order.by_score.tensor: '", none, "', must be a tensor that has one number"));
  }
  wire.set_tensor("y");
  EXPECT_EQ(read()->by_score->tensor, 2U);
  EXPECT_EQ(read()->by_score->num_buckets, 0U);
  EXPECT_FALSE(read()->by_score->descending);
  wire.set_num_buckets(7);
  wire.set_descending(true);
  EXPECT_EQ(read()->by_score->num_buckets, 7U);
  EXPECT_TRUE(read()->by_score->descending);
}

// One rank group is for as many ranks as it says, or as load.
TEST(EpochWordsTest, StepsAreForTheRanksOfTheLoad) {
  v1::LoadRequest wire;
  EpochRequest request = DatasetWorld::Request();
  const auto ranks_of = [&](uint32_t said) {
    request.rank_groups[0].num_ranks = said;
    TakeRanks(wire, request);
    return request.rank_groups[0].num_ranks;
  };
  wire.mutable_ranked()->set_num_ranks(8);
  EXPECT_EQ(ranks_of(0), 0U);
  request.cost_balanced.emplace();
  EXPECT_EQ(ranks_of(0), 8U);
  EXPECT_EQ(ranks_of(5), 5U);
  wire.mutable_evaluation()->mutable_ranked()->set_num_ranks(3);
  EXPECT_EQ(ranks_of(0), 3U);
  wire.mutable_dynamic();
  EXPECT_EQ(ranks_of(0), 0U);
  wire.mutable_ranked()->set_num_ranks(8);
  request.rank_groups.push_back(request.rank_groups[0]);
  EXPECT_EQ(ranks_of(0), 0U);
}

TEST(EpochWordsTest, TheStepsOfAnEpochAreTold) {
  DatasetWorld world(200);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  EpochRequest request = DatasetWorld::Request();
  request.rank_groups[0].num_ranks = 3;
  request.cost_balanced.emplace().cost =
      BatchCost::Create({{CostForm::kSumOfSquares, 0, 1}}, 2).value();
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
  v1::Epoch wire;
  EpochToWire(*epoch, EpochProgress(), wire);
  EXPECT_THAT(UntoldFields(wire), Each(Not(HasSubstr("steps"))));
  EXPECT_EQ(wire.steps().efficiency(), epoch->steps()->efficiency);
  EXPECT_EQ(wire.steps().of_shuffle(), epoch->steps()->of_shuffle);
  EXPECT_LT(wire.steps().of_shuffle(), wire.steps().efficiency());
  EXPECT_EQ(wire.steps().num_ranks(0), 3U);
}

TEST(EpochWordsTest, TheDataSetsOfAMixtureAreTold) {
  DatasetWorld world(60);
  world.Seal();
  Random random(2);
  ASSERT_THAT(world.store().Create("other", world.schema(), {}), IsOk());
  // Some exceed the limits.
  const GraphChunk chunk = RandomChunk(random, &world.schema(), 40, 35, 0);
  ASSERT_THAT(world.store().Append("other", chunk, {}, std::nullopt), IsOk());
  ASSERT_THAT(world.store().Seal("other"), IsOk());
  MixedDatasets mixed(&world.store(), nullptr);
  EpochCatalog catalog(&mixed, EpochBounds());
  EpochRequest request = DatasetWorld::Request();
  request.dataset = "graphs+other";
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
  v1::Epoch wire;
  EpochToWire(*epoch, EpochProgress(), wire);
  EXPECT_THAT(UntoldFields(wire), Each(Not(HasSubstr("mixture"))));
  ASSERT_EQ(wire.mixture_size(), 2);
  EXPECT_EQ(wire.mixture(0).dataset(), "graphs");
  EXPECT_EQ(wire.mixture(0).num_graphs(), 60U);
  EXPECT_EQ(wire.mixture(1).dataset(), "other");
  std::vector<uint64_t> rows(3);
  for (size_t i = 0; i < 40; ++i) {
    if (epoch->shapes(0)[0].packed.FirstExceeded(chunk.sizes().tuple(i))) continue;
    AddRows(chunk.sizes().tuple(i), 1, absl::MakeSpan(rows));
  }
  EXPECT_EQ(wire.mixture(1).num_graphs(), rows[2]);
  EXPECT_EQ(wire.mixture(0).num_rejected(), 0U);
  EXPECT_EQ(wire.mixture(1).num_rejected(), 40 - rows[2]);
  EXPECT_EQ(wire.num_rejected(), 40 - rows[2]);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(wire.mixture(1).components(k).rows(), rows[static_cast<size_t>(k)]);
    const auto& component = wire.rank_groups(0).shapes(0).components(k);
    EXPECT_EQ(wire.mixture(0).components(k).component(), component.component());
    EXPECT_NEAR(
        wire.mixture(0).components(k).efficiency() + wire.mixture(1).components(k).efficiency(),
        component.efficiency(), 1e-9);
  }
  // Another epoch has none, nor has a component without a limit an efficiency.
  request.rank_groups[0].shapes[0][1] = kUnlimited;
  request.padding = Padding::kNone;
  wire.Clear();
  EpochToWire(**catalog.Prepare(request), EpochProgress(), wire);
  EXPECT_EQ(wire.mixture(1).components(1).efficiency(), 0);
  EXPECT_GT(wire.mixture(1).components(0).efficiency(), 0);
  request.dataset = "other";
  wire.Clear();
  EpochToWire(**catalog.Prepare(request), EpochProgress(), wire);
  EXPECT_EQ(wire.mixture_size(), 0);
}

TEST(EpochWordsTest, TheCompanyOfAnEpochIsTold) {
  DatasetWorld world(60);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(DatasetWorld::Request()));
  const std::optional<Company> company = epoch->MeasureCompany(Making()).value();
  ASSERT_TRUE(company.has_value());
  EXPECT_GT(company->of_shuffle, 0);
  v1::Epoch wire;
  EpochToWire(*epoch, EpochProgress(), wire);
  EXPECT_FALSE(wire.has_company());
  CompanyToWire(*company, *wire.mutable_company());
  EXPECT_EQ(wire.company().of_shuffle(), company->of_shuffle);
  EXPECT_EQ(wire.company().chance(), company->chance);
  EXPECT_THAT(UntoldFields(wire.company()), IsEmpty());
  EXPECT_THAT(UntoldFields(wire), Each(Not(HasSubstr("company"))));
}

}  // namespace
}  // namespace packhouse
