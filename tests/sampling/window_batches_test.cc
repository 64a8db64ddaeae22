// The batches of an epoch of sub-graphs: in which order they come within each window.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/algorithms/planning/step_order.h"
#include "service/engine/epochs/cost_order.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/tfgnn/sampling_spec.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kNodes = 600;
constexpr uint32_t kNumRanks = 4;
constexpr size_t kNumComponents = 2;

// A window of 600 is the whole epoch; of 130, the last is smaller.
EpochRequest Request(uint32_t window = 130, uint64_t epoch = 1) {
  static auto* const graphs = new OneGraphStore(SmallSourceGraph(kNodes));
  SubGraphsRequest sub_graphs;
  sub_graphs.graph = "g";
  sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(12, 9)).value();
  const auto samples = std::make_shared<SamplesRequest>();
  samples->source = SubGraphSource::Create(graphs->Open("g").value(), sub_graphs).value();
  samples->window = window;
  samples->exact_steps = true;
  EpochRequest request;
  request.key = {"job", epoch};
  request.seed = 3;
  request.rank_groups.push_back({{{220, 240, 24}}, std::nullopt, kNumRanks});
  request.padding = Padding::kMasked;
  request.whole_graphs = false;
  request.kinds = {samples};
  return request;
}

EpochRequest Balanced(std::vector<CostTerm> terms, uint32_t window = 130) {
  EpochRequest request = Request(window);
  request.cost_balanced.emplace().cost =
      BatchCost::Create(std::move(terms), kNumComponents).value();
  return request;
}

absl::StatusOr<std::shared_ptr<const SampledEpoch>> Prepare(const EpochRequest& request,
                                                            const PlanFirstWindow& first = {}) {
  return SampledEpoch::Prepare(request.Find<SamplesRequest>()->source, request, EpochBounds(),
                               Making(), nullptr, first);
}

using Ids = std::vector<uint64_t>;

struct Delivered {
  // Of each window's batches.
  std::vector<std::vector<Ids>> windows;
  std::vector<std::vector<double>> squares;  // Sums of squared nodes.
  std::vector<std::vector<double>> edges;    // Mean edges of a sub-graph.

  Ids ids() const {
    Ids all;
    for (const auto& window : windows) {
      for (const Ids& batch : window) all.insert(all.end(), batch.begin(), batch.end());
    }
    return all;
  }
};

Delivered Load(const SampledEpoch& epoch) {
  Delivered delivered;
  uint64_t number = 0;
  for (const uint32_t count : epoch.Counts()) {
    delivered.windows.emplace_back();
    delivered.squares.emplace_back();
    delivered.edges.emplace_back();
    for (uint32_t i = 0; i < count; ++i) {
      const Batch batch = epoch.Build(number++).value().batch;
      double squares = 0;
      double edges = 0;
      for (size_t g = 0; g < batch.graph_ids.size(); ++g) {
        squares += std::pow(batch.sizes[g * kNumComponents], 2);
        edges += batch.sizes[g * kNumComponents + 1];
      }
      delivered.windows.back().push_back(batch.graph_ids);
      delivered.squares.back().push_back(squares);
      delivered.edges.back().push_back(edges / static_cast<double>(batch.graph_ids.size()));
    }
  }
  return delivered;
}

std::vector<std::vector<Ids>> Sorted(std::vector<std::vector<Ids>> windows) {
  for (auto& window : windows) {
    for (Ids& batch : window) std::sort(batch.begin(), batch.end());
    std::sort(window.begin(), window.end());
  }
  return windows;
}

double EfficiencyOf(absl::Span<const double> costs) {
  const BatchesOfRanks<double> group = {costs, kNumRanks};
  return StepEfficiency({&group, 1});
}

// Of the steps that each window has for itself.
std::vector<double> EfficiencyOfWindows(const std::vector<std::vector<double>>& costs) {
  std::vector<double> efficiency;
  size_t before = 0;
  for (const std::vector<double>& window : costs) {
    const size_t first = (kNumRanks - before % kNumRanks) % kNumRanks;
    efficiency.push_back(EfficiencyOf(absl::MakeConstSpan(window).subspan(first)));
    before += window.size();
  }
  return efficiency;
}

// Squares have heavy tails. A window's first step is that with which the window before it ends.
TEST(WindowBatchesTest, ThoseOfAStepHaveLikeCost) {
  for (const uint32_t window : {130U, 600U}) {
    SCOPED_TRACE(window);
    const auto shuffled = Load(*Prepare(Request(window)).value());
    const auto epoch = Prepare(Balanced({{CostForm::kSumOfSquares, 0, 1}}, window)).value();
    const auto balanced = Load(*epoch);
    EXPECT_EQ(Sorted(balanced.windows), Sorted(shuffled.windows));
    const std::vector<double> before = EfficiencyOfWindows(shuffled.squares);
    const std::vector<double> after = EfficiencyOfWindows(balanced.squares);
    for (size_t w = 0; w < after.size(); ++w) {
      EXPECT_GT(after[w], before[w]) << w;
      EXPECT_GT(after[w], 0.9) << w << ", shuffled " << before[w];
    }
    ASSERT_TRUE(epoch->steps().has_value());
    EXPECT_NEAR(epoch->steps()->efficiency, EfficiencyOf(balanced.squares[0]), 1e-9);
    EXPECT_GT(epoch->steps()->efficiency, epoch->steps()->of_shuffle);
    EXPECT_THAT(epoch->steps()->num_ranks, ElementsAre(kNumRanks));
  }
  EXPECT_EQ(Prepare(Request()).value()->steps(), std::nullopt);
}

// The order of a window depends on how many batches are before it, however that became known.
TEST(WindowBatchesTest, ComeInTheSameOrderHoweverWindowsBecomeKnown) {
  const EpochRequest request = Balanced({{CostForm::kRows, 1, 1}});
  const auto whole = Prepare(request).value();
  const Delivered expected = Load(*whole);
  ASSERT_EQ(whole->Counts().size(), 5U);
  const PlanFirstWindow none = [](const auto&) { return absl::OkStatus(); };
  EpochRequest as_they_come = request;
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  samples->exact_steps = false;
  as_they_come.kinds = {samples};
  for (const bool is_learnt : {false, true}) {
    SCOPED_TRACE(is_learnt);
    const auto resumed = Prepare(as_they_come, none).value();
    EXPECT_EQ(resumed->steps(), std::nullopt);
    if (is_learnt) {
      ASSERT_THAT(resumed->Learn(whole->Counts()), IsOk());
    } else {
      ASSERT_THAT(resumed->Plan(4, Making()), IsOk());
    }
    EXPECT_EQ(resumed->Counts(), whole->Counts());
    const std::vector<uint32_t> counts = whole->Counts();
    const uint64_t last = std::accumulate(counts.begin(), counts.end(), uint64_t{0}) - 1;
    EXPECT_EQ(resumed->Build(last).value().batch.graph_ids, expected.windows.back().back());
    EXPECT_EQ(Load(*resumed).windows, expected.windows);
  }
}

TEST(WindowBatchesTest, InOrderKeepTheListsOrder) {
  EpochRequest request = Request();
  request.in_order = true;
  for (const size_t look_ahead : {size_t{1}, size_t{24}}) {
    request.look_ahead = look_ahead;
    Ids expected(kNodes);
    std::iota(expected.begin(), expected.end(), 0);
    for (const uint64_t epoch : {0, 1}) {
      request.key.epoch = epoch;
      const Delivered delivered = Load(*Prepare(request).value());
      ASSERT_EQ(delivered.windows.size(), 5U);
      if (look_ahead == 1) {
        EXPECT_EQ(delivered.ids(), expected);
      }
      Ids ids = delivered.ids();
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(ids, expected);
      for (size_t w = 0; w < 5; ++w) {
        for (const Ids& batch : delivered.windows[w]) {
          for (const uint64_t id : batch) EXPECT_EQ(id / 130, w);
        }
      }
    }
  }
}

TEST(WindowBatchesTest, ByScoreAscendOrDescend) {
  for (const bool descending : {false, true}) {
    EpochRequest request = Request();
    request.by_score.emplace().component = 1;
    request.by_score->descending = descending;
    const Delivered delivered = Load(*Prepare(request).value());
    for (std::vector<double> means : delivered.edges) {
      if (descending) std::reverse(means.begin(), means.end());
      EXPECT_TRUE(std::is_sorted(means.begin(), means.end()));
      EXPECT_LT(means.front(), means.back());
    }
    Ids ids = delivered.ids();
    std::sort(ids.begin(), ids.end());
    EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
    EXPECT_EQ(ids.size(), kNodes);
  }
}

// --- Shapes, ranks and seeds.

// All batches, by their numbers.
std::map<uint64_t, BuiltBatch> BuildAll(const SampledEpoch& epoch) {
  std::map<uint64_t, BuiltBatch> all;
  std::vector<uint64_t> next = epoch.identity().first_batches();
  const std::vector<uint32_t> counts = epoch.Counts();
  for (size_t i = 0; i < counts.size(); ++i) {
    uint64_t& number = next[i % epoch.identity().rank_groups.size()];
    for (uint32_t b = 0; b < counts[i]; ++b, ++number) {
      all.emplace(number, epoch.Build(number).value());
    }
  }
  return all;
}

std::multiset<uint64_t> IdsOf(const std::map<uint64_t, BuiltBatch>& batches) {
  std::multiset<uint64_t> ids;
  for (const auto& [number, built] : batches) {
    ids.insert(built.batch.graph_ids.begin(), built.batch.graph_ids.end());
  }
  return ids;
}

std::multiset<uint64_t> AllIds() {
  std::multiset<uint64_t> ids;
  for (uint64_t i = 0; i < kNodes; ++i) ids.insert(i);
  return ids;
}

// The rows of some sub-graphs, `graphs` last.
std::vector<uint64_t> RowsOf(const Batch& batch) {
  std::vector<uint64_t> rows(kNumComponents + 1);
  for (size_t i = 0; i < batch.sizes.size(); ++i) rows[i % kNumComponents] += batch.sizes[i];
  rows.back() = batch.graph_ids.size();
  return rows;
}

EpochRequest OfShapes(std::vector<std::vector<std::vector<uint64_t>>> rank_groups) {
  EpochRequest request = Request();
  request.rank_groups.clear();
  for (size_t i = 0; i < rank_groups.size(); ++i) {
    request.rank_groups.push_back(
        {std::move(rank_groups[i]), std::nullopt, static_cast<uint32_t>(i + 1)});
  }
  return request;
}

// Each batch keeps the limits of its shape, and no later shape takes it; each seed comes once, and
// another server that knows the numbers of batches alone makes the same.
TEST(WindowBatchesTest, KeepTheLimitsOfTheirShapes) {
  std::vector<std::pair<EpochRequest, size_t>> requests = {
      {OfShapes({{{660, 240, 24}, {220, 720, 24}, {200, 200, 20}}}), 1},
      {OfShapes({{{220, 240, 24}}, {{440, 480, 40}}}), 2},
      {OfShapes({{{440, 240, 24}}, {{220, 480, 40}}, {{200, 200, 8}}}), 3}};
  // What is left over in a window fits some of these.
  for (const uint64_t rows : {90, 160, 240, 400}) {
    requests.emplace_back(OfShapes({{{660, 720, 70}, {rows, rows, 40}}}), 1);
  }
  std::set<size_t> used_of_two;
  for (auto [request, num_used] : requests) {
    for (const bool is_balanced : {false, true}) {
      if (is_balanced) {
        request.cost_balanced.emplace().cost =
            BatchCost::Create({{CostForm::kRows, 0, 1}}, kNumComponents).value();
      }
      const auto epoch = Prepare(request).value();
      const auto all = BuildAll(*epoch);
      EXPECT_EQ(IdsOf(all), AllIds());
      const std::vector<uint64_t> first = epoch->identity().first_batches();
      std::set<std::pair<size_t, size_t>> used;
      for (const auto& [number, built] : all) {
        size_t group = 0;
        while (number >= first[group + 1]) ++group;
        used.emplace(group, built.shape);
        const std::vector<uint64_t> rows = RowsOf(built.batch);
        const auto shapes = epoch->shapes(group);
        for (size_t s = built.shape; s < shapes.size(); ++s) {
          EXPECT_EQ(shapes[s].Takes(rows), s == built.shape) << number;
        }
      }
      EXPECT_GE(used.size(), num_used);
      if (request.rank_groups[0].shapes.size() == 2) {
        for (const auto& [group, shape] : used) used_of_two.insert(shape);
      }
      const PlanFirstWindow none = [](const auto&) { return absl::OkStatus(); };
      EpochRequest as_they_come = request;
      auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
      samples->exact_steps = false;
      as_they_come.kinds = {samples};
      const auto other = Prepare(as_they_come, none).value();
      ASSERT_THAT(other->Learn(epoch->Counts()), IsOk());
      for (auto at = all.rbegin(); at != all.rend(); ++at) {
        EXPECT_EQ(other->Build(at->first).value().batch.graph_ids, at->second.batch.graph_ids);
      }
    }
  }
  EXPECT_EQ(used_of_two.size(), 2U);
}

// Of shapes of which none takes all that another takes, a sub-graph has to fit one.
TEST(WindowBatchesTest, AreDrawnSmallerOnlyWhereNoShapeTakesThem) {
  std::map<uint64_t, std::vector<uint64_t>> natural;
  for (const auto& [number, built] :
       BuildAll(*Prepare(OfShapes({{{100000, 100000, 1}}})).value())) {
    natural[built.batch.graph_ids[0]] = RowsOf(built.batch);
  }
  for (const EpochRequest& request :
       {OfShapes({{{40, 18, 9}}, {{18, 40, 9}}}), OfShapes({{{40, 18, 9}, {18, 40, 9}}}),
        OfShapes({{{18, 40, 9}}, {{40, 18, 9}}})}) {
    std::set<uint64_t> expected;
    for (const auto& [id, rows] : natural) {
      const bool fits = (rows[0] <= 40 && rows[1] <= 18) || (rows[0] <= 18 && rows[1] <= 40);
      if (!fits) expected.insert(id);
    }
    ASSERT_FALSE(expected.empty());
    std::set<uint64_t> smaller;
    const auto all = BuildAll(*Prepare(request).value());
    for (const auto& [number, built] : all) {
      for (const auto& [id, level] : built.drawn_smaller) smaller.insert(id);
    }
    EXPECT_EQ(IdsOf(all), AllIds());
    EXPECT_EQ(smaller, expected);
  }
}

TEST(WindowBatchesTest, HaveTheSeedsOfASubset) {
  EpochRequest request = Request();
  request.subset = SubsetRequest{{9, 3}, {{100, 150}, {590, 50}}};
  std::multiset<uint64_t> expected = {3, 9};
  for (uint64_t i = 100; i < 250; ++i) expected.insert(i);
  for (uint64_t i = 590; i < kNodes; ++i) expected.insert(i);
  EXPECT_EQ(IdsOf(BuildAll(*Prepare(request).value())), expected);
  request.in_order = true;
  request.look_ahead = 1;
  const Delivered delivered = Load(*Prepare(request).value());
  EXPECT_EQ(delivered.ids(), Ids(expected.begin(), expected.end()));
  for (const auto& [subset, why] :
       std::vector<std::pair<SubsetRequest, std::string>>{{{{kNodes}, {}}, "none with id 600"},
                                                          {{{4, 4}, {}}, "twice"},
                                                          {{{}, {{kNodes, 3}}}, "no seeds"},
                                                          {{{}, {{5, 0}}}, "empty"}}) {
    request.subset = subset;
    EXPECT_THAT(Prepare(request).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
}

TEST(WindowBatchesTest, HaveTheSeedsThatAreDrawn) {
  EpochRequest request = Request();
  request.subset = SubsetRequest{{}, {{100, 200}}};
  request.draw.emplace().num_graphs = 90;
  for (uint64_t i = 0; i < 200; ++i) request.draw->weights.push_back(i % 2 == 0 ? 0 : 1.5);
  std::map<bool, std::multiset<uint64_t>> first;
  for (const bool with_replacement : {false, true}) {
    request.draw->with_replacement = with_replacement;
    for (const uint64_t epoch : {0, 1}) {
      request.key.epoch = epoch;
      const std::multiset<uint64_t> ids = IdsOf(BuildAll(*Prepare(request).value()));
      EXPECT_EQ(ids, IdsOf(BuildAll(*Prepare(request).value())));
      EXPECT_EQ(ids.size(), 90U);
      bool comes_again = false;
      for (const uint64_t id : ids) {
        EXPECT_TRUE(id > 100 && id < 300 && id % 2 == 1) << id;
        comes_again |= ids.count(id) > 1;
      }
      EXPECT_EQ(comes_again, with_replacement);
      if (epoch == 0) first[with_replacement] = ids;
      if (epoch == 1) {
        EXPECT_NE(ids, first[with_replacement]);
      }
    }
  }
  request.draw->weights.pop_back();
  EXPECT_THAT(Prepare(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weights: 199")));
  request.draw = WeightedDraw{{}, 201, false};
  EXPECT_THAT(Prepare(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("201")));
}

// One seed again and again, with 12 neighbours: each time others are taken.
TEST(WindowBatchesTest, ASeedThatIsDrawnAgainIsDrawnAroundAnew) {
  EpochRequest request = Request();
  request.rank_groups[0].shapes = {{100000, 100000, 1}};
  request.subset = SubsetRequest{{12}, {}};
  request.draw = WeightedDraw{{}, 40, true};
  std::set<std::vector<uint32_t>> sizes;
  const auto all = BuildAll(*Prepare(request).value());
  EXPECT_EQ(all.size(), 40U);
  for (const auto& [number, built] : all) {
    sizes.emplace(built.batch.sizes.begin(), built.batch.sizes.end());
  }
  EXPECT_GT(sizes.size(), 1U);
}

// A trainer compiles anew for other shapes.
TEST(WindowBatchesTest, ADeviceHasTheSameShapesInAllEpochsOfASeed) {
  EpochRequest request = Request();
  DeviceProfile device;
  device.components.resize(kNumComponents + 1);
  for (ComponentProfile& component : device.components) component.max_rows = 900;
  device.components.back().max_rows = 50;
  device.max_distinct_shapes = 2;
  request.rank_groups = {{{}, device, kNumRanks}};
  std::set<std::vector<std::vector<uint64_t>>> shapes;
  const auto shapes_of = [](const SampledEpoch& epoch) {
    std::vector<std::vector<uint64_t>> all;
    for (const BatchShape& shape : epoch.shapes(0)) all.push_back(shape.capacities);
    return all;
  };
  for (const uint64_t epoch : {0, 1, 2}) {
    request.key.epoch = epoch;
    const auto made = Prepare(request).value();
    shapes.insert(shapes_of(*made));
    EXPECT_EQ(IdsOf(BuildAll(*made)), AllIds());
    EXPECT_EQ(made->planned(), nullptr);
  }
  EXPECT_EQ(shapes.size(), 1U);
  // Of a measured one the ledger keeps them, and whoever has them makes the same.
  request.rank_groups[0].device->measured_as = "gin/h200";
  request.rank_groups[0].measured = request.rank_groups[0].device;
  request.rank_groups[0].measured->max_distinct_shapes = 1;
  request.rank_groups[0].measured->components[0].max_rows = 500;
  const auto measured = Prepare(request).value();
  EXPECT_FALSE(shapes.contains(shapes_of(*measured)));
  ASSERT_NE(measured->planned(), nullptr);
  EXPECT_EQ(measured->planned()->shapes[0], shapes_of(*measured));
  request.rank_groups[0].measured.reset();
  request.rank_groups[0].present = measured->planned()->shapes[0];
  const auto again = Prepare(request).value();
  EXPECT_THAT(CheckSameEpoch(measured->identity(), again->identity(), "again"), IsOk());
  EXPECT_EQ(IdsOf(BuildAll(*again)), AllIds());
}

// It gives whole graphs, whatever its spec asks for. Evaluations of sizes may have made its epoch.
TEST(WindowBatchesTest, AnExportNeedsTheRowsOfTheReadout) {
  EpochRequest request = Request();
  const OneGraphStore graphs(SmallSourceGraph(kNodes));
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  SubGraphsRequest sub_graphs = samples->source->request();
  sub_graphs.options.readout = true;
  sub_graphs.options.readout_columns = {{"label", DType::kInt32, {}, false, false}};
  samples->source = SubGraphSource::Create(graphs.Open("g").value(), sub_graphs).value();
  request.kinds = {samples};
  // `_readout` and its edges come in, too.
  request.rank_groups[0].shapes = {{1000, 1000, 1000, 1000, 24}};
  request.use = EpochUse::kEvaluation;
  const auto epoch = Prepare(request).value();
  EXPECT_THAT(samples->Complete(request, *epoch, Making()), IsOk());
  const auto refusal = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'label' the first"));
  request.use = EpochUse::kExport;
  EXPECT_THAT(Prepare(request).status(), refusal);
  EXPECT_THAT(samples->Complete(request, *epoch, Making()), refusal);
}

TEST(WindowBatchesTest, StepsNeedRanksAndACost) {
  EpochRequest request = Balanced({{CostForm::kRows, 1, 1}});
  request.rank_groups[0].num_ranks = 0;
  EXPECT_THAT(Prepare(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_ranks")));
  request = Request();
  request.cost_balanced.emplace();
  EXPECT_THAT(Prepare(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device profile")));
}

}  // namespace
}  // namespace packhouse
