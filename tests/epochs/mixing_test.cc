// Epochs whose batches have new company: which, within which bounds, and what is told of it.
#include "service/engine/epochs/mixing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/planning/batch_cost.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/partition/epochs/joined_epoch.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Up to 60 nodes and edges: nearly all sizes are distinct.
DatasetWorld& World() {
  static DatasetWorld* const world = [] {
    auto* made = new DatasetWorld(500, 4, 60, 40);
    made->Seal();
    return made;
  }();
  return *world;
}

EpochRequest Request(uint64_t epoch = 0) { return DatasetWorld::Request({300, 310, 64}, epoch); }

EpochBounds Bounds() {
  EpochBounds bounds;
  bounds.planner_steps = 200'000;
  return bounds;
}

std::shared_ptr<const PreparedEpoch> Prepared(const EpochRequest& request,
                                              const EpochBounds& bounds = Bounds()) {
  EpochCatalog catalog(&World().store(), bounds);
  auto epoch = catalog.Prepare(request);
  EXPECT_THAT(epoch, IsOk());
  return epoch.ok() ? *epoch : nullptr;
}

std::optional<Company> Measured(const LoadableEpoch& epoch) {
  return epoch.MeasureCompany(Making()).value();
}

using Batches = std::vector<std::vector<uint32_t>>;

Batches BatchesOf(const PreparedEpoch& epoch) {
  Batches batches;
  for (uint64_t b = 0; b < epoch.identity().num_batches(); ++b) {
    std::vector<uint32_t> graphs = epoch.GraphsOf(b)->places;
    std::sort(graphs.begin(), graphs.end());
    batches.push_back(std::move(graphs));
  }
  return batches;
}

// Every way to ask for an epoch that is mixed.
std::vector<std::pair<std::string, EpochRequest>> MixedRequests() {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](std::string name) -> EpochRequest& {
    requests.emplace_back(std::move(name), Request());
    return requests.back().second;
  };
  add("one shape");
  add("without padding").padding = Padding::kNone;
  add("several shapes").rank_groups[0].shapes.push_back({200, 310, 64});
  EpochRequest& ranks = add("rank groups");
  ranks.rank_groups.push_back({{{150, 160, 64}}, std::nullopt, 2});
  EpochRequest& groups = add("groups");
  groups.grouped = true;
  groups.rank_groups[0].shapes = {{900, 900, 128}};
  EpochRequest& subset = add("a subset");
  subset.subset.emplace();
  subset.subset->ranges.emplace_back(1000, 300);
  EpochRequest& replaced = add("with replacement");
  replaced.draw = WeightedDraw{{}, 600, true};
  EpochRequest& pieces = add("pieces");
  pieces.padding = Padding::kNone;
  pieces.cuts_oversize = true;
  pieces.rank_groups[0].shapes = {{100, 55, 64}};
  return requests;
}

std::vector<uint32_t> Sorted(const Batches& batches) {
  std::vector<uint32_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

// Not one batch more, of no other shape, the same graphs, within the limits, the same each time.
TEST(MixingTest, MixedEpochsHaveTheSameGraphsInAsManyBatches) {
  for (const auto& [name, request] : MixedRequests()) {
    SCOPED_TRACE(name);
    EpochRequest drawn_request = request;
    drawn_request.mixing.is_off = true;
    const auto drawn = Prepared(drawn_request);
    const auto mixed = Prepared(request);
    ASSERT_TRUE(drawn != nullptr && mixed != nullptr);
    EXPECT_NE(drawn->identity(), mixed->identity());
    EXPECT_EQ(mixed->plan().receipt(), drawn->plan().receipt());
    EXPECT_EQ(Sorted(BatchesOf(*mixed)), Sorted(BatchesOf(*drawn)));
    EXPECT_EQ(BatchesOf(*mixed), BatchesOf(*Prepared(request)));
    EXPECT_NE(BatchesOf(*mixed), BatchesOf(*drawn));
    ASSERT_EQ(mixed->plan().num_rank_groups(), drawn->plan().num_rank_groups());
    uint64_t number = 0;
    for (size_t i = 0; i < mixed->plan().num_rank_groups(); ++i) {
      ASSERT_EQ(mixed->plan().num_batches(i), drawn->plan().num_batches(i));
      std::vector<uint64_t> of_shape(mixed->shapes(i).size());
      std::vector<std::vector<uint64_t>> fullest(of_shape.size(), std::vector<uint64_t>(3));
      for (uint64_t b = 0; b < mixed->plan().num_batches(i); ++b, ++number) {
        PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, mixed->Build(number));
        PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch before, drawn->Build(number));
        EXPECT_EQ(built.shape, before.shape) << number;
        EXPECT_TRUE(mixed->shapes(i)[built.shape].Takes(built.batch.real_rows)) << number;
        ++of_shape[built.shape];
        for (size_t k = 0; k < 3; ++k) {
          fullest[built.shape][k] = std::max(fullest[built.shape][k], built.batch.real_rows[k]);
        }
      }
      // What is told is of these batches, not of the plan's.
      for (size_t s = 0; s < of_shape.size(); ++s) {
        EXPECT_EQ(mixed->summaries(i)[s].num_batches, of_shape[s]);
        for (size_t k = 0; k < 3; ++k) {
          EXPECT_EQ(mixed->summaries(i)[s].components[k].fullest_pack, fullest[s][k]);
        }
      }
    }
  }
}

// "mixed by v1" says by which rules. Who raises the version changes these, on purpose; nobody else
// does.
TEST(MixingTest, TheRulesOfAVersionGiveTheSameBatchesInEveryRelease) {
  std::map<std::string, uint32_t> checksums;
  for (const auto& [name, request] : MixedRequests()) {
    checksums[name] = ChecksumOfGraphs(*Prepared(request));
  }
  const std::map<std::string, uint32_t> expected = {
      {"a subset", 1173682088U},       {"groups", 3512144400U},
      {"one shape", 1950299370U},      {"pieces", 4137262640U},
      {"rank groups", 1612052843U},    {"several shapes", 3594595559U},
      {"with replacement", 86359093U}, {"without padding", 1950299370U}};
  EXPECT_EQ(checksums, expected);
}

// Bytes are no component: no plan knows them, and batches without padding have a bound of them.
TEST(MixingTest, BatchesStayWithinTheirBytes) {
  EpochRequest request = Request();
  request.padding = Padding::kNone;
  request.rank_groups[0].shapes = {{300, kUnlimited, 64}};
  const auto epoch = Prepared(request);
  ASSERT_NE(epoch, nullptr);
  uint64_t most = 0;
  for (uint64_t b = 0; b < epoch->identity().num_batches(); ++b) {
    PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(b));
    most = std::max(most, BatchBytesOf(epoch->shapes(0)[0], built.batch.real_rows));
  }
  EpochShapes shapes;
  BatchShapeOptions options;
  ASSERT_THAT(shapes.AddRankGroup(World().schema(), request.rank_groups[0].shapes, options),
              IsOk());
  const auto mixing = MixingFor(request, shapes, most);
  ASSERT_TRUE(mixing.has_value() && mixing->takes != nullptr);
  for (uint64_t edges = 0; edges < 3000; edges += 7) {
    const std::vector<uint64_t> rows = {290, edges, 9};
    EXPECT_EQ(mixing->takes(0, 0, rows), BatchBytesOf(shapes.rank_group(0)[0], rows) <= most);
  }
  // Where no batch within the limits can have more bytes, nothing is asked.
  EpochShapes limited;
  ASSERT_THAT(limited.AddRankGroup(World().schema(), {{300, 310, 64}}, options), IsOk());
  EXPECT_TRUE(MixingFor(request, limited, most)->takes == nullptr);
  EXPECT_FALSE(MixingFor(request, limited, 1000)->takes == nullptr);
  // Batches of sizes have no bytes of tensors.
  request.whole_graphs = false;
  EXPECT_TRUE(MixingFor(request, shapes, most)->takes == nullptr);
}

TEST(MixingTest, CompanyIsOfTheEpochBefore) {
  EpochCatalog catalog(&World().store(), Bounds());
  double mixed_chance = 0;
  double drawn_chance = 0;
  double of_shuffle = 0;
  for (uint64_t number = 0; number < 4; ++number) {
    EpochRequest request = Request(number);
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
    PH_ASSERT_OK_AND_ASSIGN(const auto other,
                            catalog.Prepare(Request(number == 0 ? 1 : number - 1)));
    std::vector<std::set<uint32_t>> sets;
    for (const auto& batch : BatchesOf(*other)) sets.emplace_back(batch.begin(), batch.end());
    uint64_t pairs = 0;
    uint64_t together = 0;
    for (const auto& batch : BatchesOf(*epoch)) {
      for (size_t i = 0; i < batch.size(); ++i) {
        for (size_t j = i + 1; j < batch.size(); ++j) {
          ++pairs;
          for (const auto& set : sets) together += set.contains(batch[i]) && set.contains(batch[j]);
        }
      }
    }
    ASSERT_TRUE(Measured(*epoch).has_value());
    EXPECT_DOUBLE_EQ(Measured(*epoch)->chance,
                     static_cast<double>(together) / static_cast<double>(pairs));
    EXPECT_DOUBLE_EQ(Measured(*epoch)->of_shuffle, static_cast<double>(pairs) / (500 * 499 / 2));
    mixed_chance += Measured(*epoch)->chance;
    of_shuffle += Measured(*epoch)->of_shuffle;
    request.mixing.is_off = true;
    PH_ASSERT_OK_AND_ASSIGN(const auto drawn, catalog.Prepare(request));
    ASSERT_TRUE(Measured(*drawn).has_value());
    drawn_chance += Measured(*drawn)->chance;
  }
  EXPECT_LT(mixed_chance, 1.3 * of_shuffle);
  EXPECT_GT(drawn_chance, 3 * of_shuffle);
}

// The same on a server that has just begun.
TEST(MixingTest, CompanyDoesNotDependOnWhatWasThere) {
  EpochCatalog catalog(&World().store(), Bounds());
  for (uint64_t number = 0; number < 3; ++number) {
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(Request(number)));
    const auto alone = Prepared(Request(number));
    ASSERT_TRUE(alone != nullptr && Measured(*alone) && Measured(*epoch));
    EXPECT_EQ(Measured(*alone)->chance, Measured(*epoch)->chance);
  }
}

TEST(MixingTest, CompanyIsNotToldOfDraws) {
  EpochRequest request = Request();
  request.draw = WeightedDraw{{}, 200, false};
  EXPECT_EQ(Measured(*Prepared(request)), std::nullopt);
}

TEST(MixingTest, InOrderTheCompanyStays) {
  EpochRequest request = Request();
  request.in_order = true;
  const auto epoch = Prepared(request);
  ASSERT_TRUE(Measured(*epoch).has_value());
  EXPECT_EQ(Measured(*epoch)->chance, 1);
}

TEST(MixingTest, MoreCompanyMayBeAskedFor) {
  const auto chance = [&](double most_company) {
    EpochRequest request = Request(1);
    request.mixing.most_company = most_company;
    return Measured(*Prepared(request))->Ratio();
  };
  EpochRequest off = Request(1);
  off.mixing.is_off = true;
  // As the plan draws it: fresh enough.
  EXPECT_EQ(chance(1e6), Measured(*Prepared(off))->Ratio());
  EXPECT_LT(chance(1.1), chance(1e6));
}

TEST(MixingTest, WordsAreThoseOfWhatIsMixed) {
  EpochRequest request = Request();
  const std::string by_default = request.Words();
  EXPECT_THAT(by_default, HasSubstr("; mixed by v1 to 1.1 times a shuffle"));
  request.mixing.most_company = 1.1;
  EXPECT_EQ(request.Words(), by_default);
  request.mixing.most_company = 1.1 + 1e-9;
  EXPECT_NE(request.Words(), by_default);
  // As before there was mixing: epochs that were begun then go on.
  request.mixing = {std::nullopt, true};
  EXPECT_THAT(request.Words(), Not(HasSubstr("mixed")));
  request.mixing = {};
  request.in_order = true;
  EXPECT_THAT(request.Words(), Not(HasSubstr("mixed")));
}

TEST(MixingTest, AnEpochGoesOnAsItWasBegun) {
  EpochRequest off = Request();
  off.mixing.is_off = true;
  const EpochIdentity drawn = Prepared(off)->identity();
  const EpochIdentity mixed = Prepared(Request())->identity();
  EXPECT_FALSE(IsMixed(drawn));
  EXPECT_TRUE(IsMixed(mixed));
  EpochRequest request = Request();
  KeepMixing(mixed, request);
  EXPECT_EQ(request.Words(), Request().Words());
  KeepMixing(drawn, request);
  EXPECT_EQ(request.Words(), off.Words());
  // What is asked for by name is not changed: CheckSameEpoch() names the difference.
  request = Request();
  request.mixing.most_company = 2;
  KeepMixing(drawn, request);
  EXPECT_THAT(request.Words(), HasSubstr("mixed by v1 to 2 times"));
}

TEST(MixingTest, WhereNothingCanBeMixedItIsRefusedByName) {
  EpochRequest request = Request();
  request.in_order = true;
  EXPECT_THAT(CheckTogether(EngineRules(), request), IsOk());
  request.mixing.is_off = true;
  EXPECT_THAT(CheckTogether(EngineRules(), request), IsOk());
  request.mixing = {1.1, false};
  EXPECT_THAT(CheckTogether(EngineRules(), request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mixing"), HasSubstr("in_order"))));
  EpochCatalog catalog(&World().store(), Bounds());
  EXPECT_THAT(catalog.Prepare(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixing")));
  request.in_order = false;
  request.kinds.push_back(std::make_shared<JoinedParts>());
  EXPECT_THAT(CheckTogether(JoinedEpoch::Rules(), request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mixing"), HasSubstr("join_parts"))));
}

// Batches of graph ids, each sorted.
using IdBatches = std::set<std::vector<uint64_t>>;

IdBatches BuiltBatches(const LoadableEpoch& epoch, uint64_t num_batches) {
  IdBatches all;
  for (uint64_t b = 0; b < num_batches; ++b) {
    auto built = epoch.Build(b);
    EXPECT_THAT(built, IsOk());
    if (!built.ok()) continue;
    EXPECT_TRUE(epoch.shapes(0)[0].Takes(built->batch.real_rows));
    std::sort(built->batch.graph_ids.begin(), built->batch.graph_ids.end());
    all.insert(built->batch.graph_ids);
  }
  return all;
}

// Pair by pair.
Company CompanyOf(const IdBatches& one, const IdBatches& other) {
  std::map<uint64_t, const std::vector<uint64_t>*> batch_of;
  for (const auto& batch : other) {
    for (const uint64_t id : batch) batch_of[id] = &batch;
  }
  double pairs = 0;
  double together = 0;
  for (const auto& batch : one) {
    for (size_t i = 0; i < batch.size(); ++i) {
      for (size_t j = i + 1; j < batch.size(); ++j) {
        pairs += 1;
        together += batch_of.at(batch[i]) == batch_of.at(batch[j]) ? 1 : 0;
      }
    }
  }
  const auto n = static_cast<double>(batch_of.size());
  return {together / pairs, pairs / (n * (n - 1) / 2)};
}

// 400 graphs in each.
DatasetWorld& InFourSegments() {
  static DatasetWorld* const world = [] {
    auto* made = new DatasetWorld(1600, 4, 60);
    made->Seal();
    return made;
  }();
  return *world;
}

// Each segment by itself, which keeps its graphs: company falls as in plain epochs, but to that of
// a shuffle of a segment. The first one stands for all.
TEST(MixingTest, CompanyFallsInSegments) {
  const auto epoch = [&](uint64_t number, bool is_off) {
    EpochRequest request = Request(number);
    request.segments = SegmentsRequest{400, 1};
    request.mixing.is_off = is_off;
    EpochCatalog catalog(&InFourSegments().store(), Bounds());
    return catalog.PrepareSegmented(request).value();
  };
  const auto batches = [&](uint64_t number, bool is_off) {
    const auto made = epoch(number, is_off);
    return BuiltBatches(*made, made->identity().num_batches());
  };
  EXPECT_EQ(epoch(1, false)->plan().layout().num_segments(), 4U);
  EXPECT_EQ(batches(1, false), batches(1, false));
  EXPECT_EQ(batches(1, false).size(), batches(1, true).size());
  for (const bool is_off : {false, true}) {
    SCOPED_TRACE(is_off);
    const Company of_all = CompanyOf(batches(1, is_off), batches(0, is_off));
    const std::optional<Company> told = Measured(*epoch(1, is_off));
    ASSERT_TRUE(told.has_value());
    EXPECT_NEAR(told->of_shuffle / of_all.of_shuffle, 1, 0.1);
    EXPECT_NEAR(told->chance / of_all.chance, 1, 0.3);
    if (is_off) {
      EXPECT_GT(of_all.Ratio(), 4 * 3);
    } else {
      EXPECT_LT(of_all.Ratio(), 4 * 1.3);
    }
  }
}

TEST(MixingTest, StepsOfSegmentsAreThoseOfTheFirst) {
  EpochRequest request = Request();
  request.segments = SegmentsRequest{400, 1};
  EpochCatalog catalog(&InFourSegments().store(), Bounds());
  EXPECT_EQ(catalog.PrepareSegmented(request).value()->steps(), std::nullopt);
  request.cost_balanced.emplace().cost =
      BatchCost::Create({{CostForm::kSumOfSquares, 0, 1}}, 2).value();
  request.rank_groups[0].num_ranks = 4;
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  // Nobody has come to it, or only to another one: where an epoch goes on, the first is not made.
  EXPECT_FALSE(epoch->steps().has_value());
  const auto of_segment = [&](uint64_t batch) {
    return epoch->SegmentOf(batch).value().first->steps()->efficiency;
  };
  for (const uint64_t batch : {epoch->identity().num_batches() - 1, uint64_t{0}}) {
    const double efficiency = of_segment(batch);
    EXPECT_EQ(epoch->steps()->efficiency, efficiency);
  }
  EXPECT_NE(of_segment(epoch->identity().num_batches() - 1), of_segment(0));
  EXPECT_EQ(epoch->known_company(), std::nullopt);
  ASSERT_TRUE(Measured(*epoch).has_value());
  EXPECT_EQ(epoch->known_company()->chance, Measured(*epoch)->chance);
  ASSERT_TRUE(epoch->steps().has_value());
  EXPECT_EQ(epoch->steps()->efficiency, of_segment(0));
  EXPECT_GT(epoch->steps()->efficiency, epoch->steps()->of_shuffle);
  EXPECT_THAT(epoch->steps()->num_ranks, ElementsAre(4));
}

// Windows too, however many, where opening the epoch has planned them.
TEST(MixingTest, CompanyFallsInWindows) {
  OneGraphStore graphs(SmallSourceGraph(400));
  SubGraphsRequest sub_graphs;
  sub_graphs.graph = "g";
  // All edges: the same sub-graphs in each epoch.
  sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(12, 12)).value();
  const auto source = SubGraphSource::Create(graphs.Open("g").value(), sub_graphs).value();
  const auto epoch = [&](uint64_t number, bool is_off, uint64_t window, bool exact_steps = true) {
    const auto samples = std::make_shared<SamplesRequest>();
    samples->source = source;
    samples->window = window;
    samples->exact_steps = exact_steps;
    EpochRequest request;
    request.key = {"job", number};
    request.seed = 3;
    request.rank_groups.push_back({{{600, 700, 64}}, std::nullopt, 1});
    request.padding = Padding::kMasked;
    request.mixing.is_off = is_off;
    request.kinds = {samples};
    return SampledEpoch::Prepare(source, request, EpochBounds(), Making(), nullptr).value();
  };
  for (const uint64_t window : {400, 150}) {
    double ratios[2] = {};
    for (const bool is_off : {false, true}) {
      for (uint64_t number = 0; number < 4; ++number) {
        const auto one = epoch(number, is_off, window);
        const auto other = epoch(number == 0 ? 1 : number - 1, is_off, window);
        const auto batches = [](const SampledEpoch& of) {
          uint64_t num_batches = 0;
          for (const uint32_t count : of.Counts()) num_batches += count;
          return BuiltBatches(of, num_batches);
        };
        const Company company = CompanyOf(batches(*one), batches(*other));
        const std::optional<Company> told = Measured(*one);
        ASSERT_TRUE(told.has_value());
        EXPECT_DOUBLE_EQ(told->chance, company.chance);
        EXPECT_DOUBLE_EQ(told->of_shuffle, company.of_shuffle);
        EXPECT_EQ(Measured(*one)->chance, told->chance);
        ratios[is_off ? 1 : 0] += told->Ratio() / 4;
      }
    }
    EXPECT_LT(ratios[0], 1.3) << window;
    // Windows draw their seeds anew.
    EXPECT_GT(ratios[1], window == 400 ? 1.5 : 0) << window;
  }
  // What nobody has planned is not drawn to be told of.
  EXPECT_EQ(Measured(*epoch(0, false, 150, /*exact_steps=*/false)), std::nullopt);
  EXPECT_TRUE(Measured(*epoch(0, false, 400, /*exact_steps=*/false)).has_value());
}

}  // namespace
}  // namespace packhouse
