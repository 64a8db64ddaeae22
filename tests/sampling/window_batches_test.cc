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

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/algorithms/planning/step_order.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/selection.h"
#include "service/wings/graphs/epochs/sampled_dataset.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/epochs/seed_counter.h"
#include "service/wings/graphs/epochs/size_estimate.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/tfgnn/sampling_spec.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/sampling/sampling_worlds.h"
#include "tests/support/accounting.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

EpochRequest OfTwoGroups() {
  EpochRequest request = Request();
  request.rank_groups = {{{{220, 240, 24}}, std::nullopt, 1}, {{{440, 480, 40}}, std::nullopt, 2}};
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

const PlanFirstWindow kPlanNone = [](const auto&) { return absl::OkStatus(); };

// Windows are planned as they are needed.
EpochRequest AsTheyCome(EpochRequest request) {
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  samples->exact_steps = false;
  request.kinds = {samples};
  return request;
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
  for (const bool is_learnt : {false, true}) {
    SCOPED_TRACE(is_learnt);
    const auto resumed = Prepare(AsTheyCome(request), kPlanNone).value();
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

TEST(WindowBatchesTest, OtherNumbersOfBatchesAreNotLearnt) {
  const EpochRequest request = OfTwoGroups();
  const std::vector<uint32_t> counts = Prepare(request).value()->Counts();
  ASSERT_EQ(counts.size(), 10U);
  const auto epoch = Prepare(AsTheyCome(request), kPlanNone).value();
  const auto first = [&counts](size_t most) { return absl::MakeConstSpan(counts).first(most); };
  // Half a window is none.
  EXPECT_THAT(epoch->Learn(first(5)), IsOk());
  EXPECT_EQ(epoch->Counts(), std::vector<uint32_t>(first(4).begin(), first(4).end()));
  std::vector<uint32_t> others = counts;
  others[3] += 1;
  EXPECT_THAT(epoch->Learn(others),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("samples: window 1 had ", others[3],
                                    " batches when it was planned first, and has another number "
                                    "now")));
  EXPECT_EQ(epoch->Counts().size(), 4U);
  EXPECT_THAT(epoch->Learn(counts), IsOk());
  EXPECT_THAT(epoch->Learn(first(6)), IsOk());
  EXPECT_EQ(epoch->Counts(), counts);
  others = counts;
  others.insert(others.end(), {7, 8});
  EXPECT_THAT(epoch->Learn(others),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("window 5 had 7 batches")));
  EXPECT_EQ(epoch->Counts(), counts);
}

// Of a job the first window, or what plans it instead; of other uses all.
TEST(WindowBatchesTest, AsManyWindowsArePlannedAsTheUseNeeds) {
  EpochRequest request = AsTheyCome(Request());
  const auto one = Prepare(request).value();
  EXPECT_EQ(one->Counts().size(), 1U);
  EXPECT_EQ(one->num_windows(), 5U);
  EXPECT_EQ(Prepare(request, kPlanNone).value()->Counts().size(), 0U);
  const PlanFirstWindow fails = [](const auto&) { return absl::UnavailableError("no time"); };
  EXPECT_THAT(Prepare(request, fails), StatusIs(absl::StatusCode::kUnavailable, "no time"));
  const auto& samples = *request.Find<SamplesRequest>();
  EXPECT_THAT(samples.Complete(request, *one, Making()), IsOk());
  EXPECT_EQ(one->Counts().size(), 1U);
  for (const EpochUse use : {EpochUse::kEvaluation, EpochUse::kExport}) {
    request.use = use;
    EXPECT_EQ(Prepare(request, fails).value()->Counts().size(), 5U);
  }
  const Making cancelled(nullptr, [] { return true; });
  EXPECT_THAT(samples.Complete(request, *one, cancelled),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  EXPECT_EQ(one->Counts().size(), 1U);
  EXPECT_THAT(samples.Complete(request, *one, Making()), IsOk());
  EXPECT_EQ(one->Counts(), Prepare(Request()).value()->Counts());
  // Company is measured in what is planned whole, of seeds that are the same in each epoch.
  const auto whole = Prepare(Request()).value();
  EXPECT_EQ(whole->MeasureCompany(cancelled).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(whole->MeasureCompany(Making()).value().has_value());
  EpochRequest drawn = Request();
  drawn.draw = WeightedDraw{{}, 90, false};
  EXPECT_EQ(Prepare(drawn).value()->MeasureCompany(Making()).value(), std::nullopt);
}

class CountingDraws final : public SamplingObserver {
 public:
  void OnDrawn(uint64_t /*seeds*/, uint64_t /*nodes*/, uint64_t /*edges*/,
               uint32_t /*level*/) override {
    ++num_draws_;
  }
  // Since the last call.
  uint64_t Take() { return std::exchange(num_draws_, 0); }

 private:
  uint64_t num_draws_ = 0;
};

// 16 of them, and as many more as were asked for at once.
TEST(WindowBatchesTest, TheWindowsThatWereUsedLastAreKept) {
  CountingDraws draws;
  const EpochRequest request = Request(/*window=*/20);
  const auto epoch = SampledEpoch::Prepare(request.Find<SamplesRequest>()->source, request,
                                           EpochBounds(), Making(), &draws)
                         .value();
  ASSERT_EQ(epoch->Counts().size(), 30U);
  EXPECT_EQ(draws.Take(), kNodes);
  const auto drawn_for = [&](uint64_t window) {
    EXPECT_THAT(epoch->Plan(window, Making()), IsOk());
    return draws.Take();
  };
  for (uint64_t window = 29; window >= 14; --window) EXPECT_EQ(drawn_for(window), 0U) << window;
  EXPECT_EQ(drawn_for(0), 20U);
  EXPECT_EQ(drawn_for(28), 0U);
  EXPECT_EQ(drawn_for(29), 20U) << "the one that was used before the others";
  EXPECT_EQ(drawn_for(0), 0U);
  // The first batch of each window.
  std::vector<uint64_t> batches = {0};
  for (const uint32_t count : epoch->Counts()) batches.push_back(batches.back() + count);
  batches.pop_back();
  EXPECT_EQ(epoch->FirstMissing({}), std::nullopt);
  EXPECT_EQ(epoch->FirstMissing(std::vector<uint64_t>{batches[20], batches[0]}), std::nullopt);
  EXPECT_EQ(epoch->FirstMissing(std::vector<uint64_t>{batches[20], batches[4], batches[3] - 1}),
            uint64_t{2});
  EXPECT_EQ(epoch->FirstMissing(batches), uint64_t{1});
  for (const int round : {1, 2}) {
    uint64_t num_draws = 0;
    for (uint64_t window = 0; window < 30; ++window) num_draws += drawn_for(window);
    EXPECT_EQ(num_draws, round == 1 ? 14U * 20 : 0U);
  }
  EXPECT_EQ(epoch->FirstMissing(batches), std::nullopt);
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
      const auto other = Prepare(AsTheyCome(request), kPlanNone).value();
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
  const auto levels_of = [](const EpochRequest& request) {
    std::map<uint64_t, uint32_t> levels;
    for (const auto& [number, built] : BuildAll(*Prepare(request).value())) {
      for (const uint64_t id : built.batch.graph_ids) levels[id];
      for (const auto& [id, level] : built.drawn_smaller) levels[id] = level;
    }
    return levels;
  };
  // Of both shapes that which leaves out the least.
  std::map<uint64_t, uint32_t> least = levels_of(OfShapes({{{40, 18, 9}}}));
  for (const auto& [id, level] : levels_of(OfShapes({{{18, 40, 9}}}))) {
    least[id] = std::min(least[id], level);
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
    EXPECT_EQ(levels_of(request), least);
  }
}

TEST(WindowBatchesTest, ASubGraphThatFitsNoShapeIsNamed) {
  EpochRequest request = Request();
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  samples->draws_smaller = false;
  request.kinds = {samples};
  request.subset = SubsetRequest{{12}, {}};
  EXPECT_THAT(Prepare(request), IsOk());
  request.rank_groups[0].shapes = {{500, 9, 9}};
  EXPECT_THAT(Prepare(request),
              StatusIs(absl::StatusCode::kOutOfRange,
                       ::testing::MatchesRegex("sub-graph 12 of seed node 12: has [0-9]+ rows of "
                                               "'e', a batch takes at most 9")));
  // Node 13 has no edges.
  request = Request();
  request.padding = Padding::kTfgnn;
  request.min_rows = MinRows({1, 1});
  request.subset = SubsetRequest{{13}, {}};
  EXPECT_THAT(Prepare(request),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "sub-graph 13 of seed node 13: has 0 rows of 'e', at least 1 are needed"));
}

TEST(WindowBatchesTest, ThereAreNoMoreWindowsThanAllowed) {
  EpochRequest request = AsTheyCome(Request(/*window=*/1));
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  request.kinds = {samples};
  for (const size_t num_seeds : {65536, 65537}) {
    samples->seeds.nodes = std::make_shared<const std::vector<uint32_t>>(num_seeds, 5);
    const auto epoch = Prepare(request, kPlanNone);
    if (num_seeds == 65536) {
      EXPECT_EQ(epoch.value()->num_windows(), 65536U);
    } else {
      EXPECT_THAT(epoch, StatusIs(absl::StatusCode::kInvalidArgument,
                                  "samples.window: 1 makes 65537 windows of 65537 sub-graphs, at "
                                  "most 65536"));
    }
  }
  samples->seeds.nodes = std::make_shared<const std::vector<uint32_t>>();
  EXPECT_THAT(Prepare(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "samples.seeds: there are none"));
}

TEST(WindowBatchesTest, HaveTheSeedsOfASubset) {
  EpochRequest request = Request();
  request.subset = SubsetRequest{{9, 3}, {{100, 150}, {590, 50}}};
  std::multiset<uint64_t> expected = {3, 9};
  for (uint64_t i = 100; i < 250; ++i) expected.insert(i);
  for (uint64_t i = 590; i < kNodes; ++i) expected.insert(i);
  EXPECT_EQ(IdsOf(BuildAll(*Prepare(request).value())), expected);
  // 4 bytes for each seed of the epoch, and of the subset.
  EXPECT_EQ(Prepare(Request()).value()->bytes(), 16384 + 4 * uint64_t{kNodes});
  EXPECT_EQ(Prepare(request).value()->kept_bytes(), 16384 + 8 * expected.size());
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
  const auto epoch = Prepare(request).value();
  // With the number of each time.
  EXPECT_EQ(epoch->bytes(), 16384 + 4 * uint64_t{40 + 40 + 1});
  const auto all = BuildAll(*epoch);
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
  request.use = EpochUse::kJob;
  EXPECT_THAT(Prepare(request), IsOk());
  request.whole_graphs = true;
  EXPECT_THAT(Prepare(request).status(), refusal);
}

// --- What decides sub-graphs.

// The sizes of all sub-graphs of a list, as the sampler itself draws them.
std::vector<uint32_t> DrawnSizes(const SubGraphSource& source, const SeedList& seeds,
                                 const EpochSeed& seed) {
  std::vector<uint32_t> nodes(source.NumSeeds(seeds));
  std::iota(nodes.begin(), nodes.end(), 0U);
  if (seeds.nodes != nullptr) nodes = *seeds.nodes;
  const size_t of_graph = source.nodes_per_graph();
  const size_t of_seed = of_graph / source.request().seeds_per_graph;
  std::vector<uint32_t> sizes;
  std::vector<uint32_t> tuple;
  for (size_t i = 0; i < nodes.size(); i += of_graph) {
    DrawRequest request;
    request.seed_number = seed.seed;
    request.epoch = seed.epoch;
    request.seeds = absl::MakeConstSpan(nodes).subspan(i, of_graph);
    if (!seeds.occurrences.empty()) {
      request.occurrences =
          absl::MakeConstSpan(seeds.occurrences).subspan(i / of_seed, of_graph / of_seed);
    }
    if (!seeds.times.empty()) request.time = seeds.times[i / of_graph];
    EXPECT_THAT(source.sampled_schema().Sizes(Draw(source.sampler(), request), tuple), IsOk());
    sizes.insert(sizes.end(), tuple.begin(), tuple.end());
  }
  return sizes;
}

// The rows of `_readout` of each graph are those of its seeds.
void ExpectReadout(const SubGraphSource& source, const SeedList& seeds,
                   const DatasetReader& reader) {
  const size_t bytes = sizeof(int32_t) * source.request().seeds_per_graph;
  const auto label = source.schema().TensorIndex("_readout.label");
  ASSERT_TRUE(label.has_value());
  for (size_t i = 0; i < reader.num_graphs(); ++i) {
    const StoredGraph graph = reader.Graph(i).value();
    EXPECT_EQ(graph.chunk->rows(graph.index, *label), (*seeds.readout)[0].substr(i * bytes, bytes));
  }
}

std::string ContentsOf(const DatasetReader& reader, size_t i) {
  const StoredGraph graph = reader.Graph(i).value();
  std::string contents;
  for (size_t t = 0; t < graph.chunk->num_columns(); ++t) {
    absl::StrAppend(&contents, graph.chunk->rows(graph.index, t), "|");
  }
  return contents;
}

template <typename T>
std::vector<T> ListOf(absl::Span<const T> values) {
  return {values.begin(), values.end()};
}

void ExpectTheSame(const std::shared_ptr<const SubGraphSource>& source, const SeedList& seeds) {
  const EpochSeed seed = {7, 2};
  const size_t num_components = source->schema().num_components();
  const std::vector<uint32_t> expected = DrawnSizes(*source, seeds, seed);
  const size_t num_graphs = expected.size() / num_components;
  EXPECT_EQ(source->NumGraphs(seeds), num_graphs);
  // A data set of them.
  MemoryDatasetStore store(uint64_t{1} << 30);
  SampledDatasetRequest wanted;
  wanted.dataset = "d";
  wanted.seed = seed;
  wanted.seeds = seeds;
  std::vector<SampledDatasetProgress> told;
  ASSERT_THAT(MakeSampledDataset(
                  source, wanted, store, Making(), nullptr,
                  [&told](const SampledDatasetProgress& progress) { told.push_back(progress); }),
              IsOk());
  EXPECT_EQ(told.back().num_graphs, num_graphs);
  EXPECT_EQ(told.back().num_graphs_total, num_graphs);
  EXPECT_EQ(told.back().num_drawn_smaller, 0U);
  const auto stored = store.OpenReader("d").value();
  EXPECT_EQ(ListOf(stored->counts()), expected);
  if (seeds.readout != nullptr) ExpectReadout(*source, seeds, *stored);
  // An epoch of them, in windows of two.
  const auto samples = std::make_shared<SamplesRequest>();
  samples->source = source;
  samples->seeds = seeds;
  samples->window = 2;
  samples->exact_steps = true;
  EpochRequest request;
  request.key = {"job", seed.epoch};
  request.seed = seed.seed;
  request.rank_groups.push_back(
      {{std::vector<uint64_t>(num_components + 1, 1000)}, std::nullopt, 1});
  request.padding = Padding::kMasked;
  request.in_order = true;
  request.look_ahead = 1;
  request.whole_graphs = false;
  request.kinds = {samples};
  const auto epoch = Prepare(request).value();
  std::vector<uint32_t> sizes;
  uint64_t next_id = 0;
  const std::vector<uint32_t> counts = epoch->Counts();
  const uint64_t num_batches = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  for (uint64_t number = 0; number < num_batches; ++number) {
    const Batch batch = epoch->Build(number).value().batch;
    EXPECT_EQ(epoch->NumGraphs(number), batch.graph_ids.size());
    const GraphsOfBatch of_batch = epoch->GraphsOf(number).value();
    EXPECT_EQ(ListOf(of_batch.reader->counts()),
              std::vector<uint32_t>(batch.sizes.begin(), batch.sizes.end()));
    EXPECT_EQ(ListOf(of_batch.reader->graph_ids()), batch.graph_ids);
    ASSERT_EQ(of_batch.places.size(), batch.graph_ids.size());
    for (size_t i = 0; i < of_batch.places.size(); ++i, ++next_id) {
      EXPECT_EQ(of_batch.places[i], i);
      EXPECT_EQ(batch.graph_ids[i], next_id);
      EXPECT_EQ(ContentsOf(*of_batch.reader, i), ContentsOf(*stored, next_id));
    }
    sizes.insert(sizes.end(), batch.sizes.begin(), batch.sizes.end());
  }
  EXPECT_EQ(sizes, expected);
  // An estimate puts others together, if there are several seeds in a sub-graph.
  const SizeEstimate estimate = EstimateSizes(source, seeds, seed, 1000, Making(), nullptr).value();
  EXPECT_EQ(estimate.num_seeds, source->NumSeeds(seeds));
  EXPECT_EQ(estimate.num_graphs, num_graphs);
  EXPECT_EQ(estimate.histogram.num_graphs(), num_graphs);
  if (source->request().seeds_per_graph != 1) return;
  SizeHistogram all(num_components);
  double bytes = 0;
  for (size_t g = 0; g < num_graphs; ++g) {
    const auto tuple = absl::MakeConstSpan(expected).subspan(g * num_components, num_components);
    ASSERT_THAT(all.Add(tuple), IsOk());
    bytes += static_cast<double>(source->sampled_schema().Bytes(tuple));
  }
  EXPECT_TRUE(estimate.histogram == all);
  EXPECT_DOUBLE_EQ(estimate.mean_bytes, bytes / static_cast<double>(num_graphs));
  // Of fewer each comes at most once.
  for (uint64_t wanted_graphs = 0; wanted_graphs < num_graphs; ++wanted_graphs) {
    const SizeEstimate some =
        EstimateSizes(source, seeds, seed, wanted_graphs, Making(), nullptr).value();
    EXPECT_EQ(some.histogram.num_graphs(), wanted_graphs);
    SizeHistogram rest = all;
    EXPECT_THAT(rest.Subtract(some.histogram), IsOk());
  }
}

TEST(SubGraphsTest, OfASeedAreTheSameWhereverTheyAreDrawn) {
  SeededRandom random(1);
  std::unique_ptr<const SourceGraph> library;
  do {
    library = RandomGraph(random);
  } while (library->num_nodes(1) < 12 || library->num_edges(2) < 40);
  const OneGraphStore graphs(std::move(library));
  const auto list = [](std::vector<uint32_t> nodes, std::vector<uint32_t> occurrences,
                       std::vector<int64_t> times = {}) {
    SeedList seeds;
    seeds.nodes = std::make_shared<const std::vector<uint32_t>>(std::move(nodes));
    seeds.occurrences = std::move(occurrences);
    seeds.times = std::move(times);
    return seeds;
  };
  // A number for each of `count` seeds.
  const auto labelled = [](size_t count, SeedList seeds) {
    std::vector<int32_t> labels(count);
    std::iota(labels.begin(), labels.end(), 100);
    seeds.readout = std::make_shared<const std::vector<std::string>>(1, ColumnOf(labels).bytes);
    return seeds;
  };
  struct Case {
    uint32_t seeds_per_graph;
    bool links;
    SeedList seeds;
  };
  for (const Case& each :
       std::vector<Case>{{1, false, {}},
                         {5, false, {}},
                         {1, false, list({5, 3, 5, 5, 0, 3, 9}, {0, 0, 1, 2, 0, 1, 0})},
                         {1, false, list({5, 3, 5, 7, 0}, {0, 0, 1, 0, 0}, {4, -2, 1, 3, 0})},
                         {2, false, list({5, 3, 5, 7, 0}, {0, 0, 1, 0, 0})},
                         {1, false, labelled(4, list({5, 3, 5, 7}, {}))},
                         {2, false, labelled(5, list({5, 3, 5, 7, 0}, {}))},
                         {2, true, labelled(3, list({5, 3, 3, 5, 5, 3}, {0, 0, 1}))},
                         {1, true, list({5, 3, 3, 5, 5, 3, 7, 7}, {0, 0, 1, 0})},
                         {2, true, list({5, 3, 3, 5, 5, 3}, {0, 0, 1})}}) {
    SubGraphsRequest request;
    request.graph = "g";
    request.spec = SpecOf(each.links ? "" : "paper", {UniformOp("a", {"seed"}, "cites", 2),
                                                      UniformOp("b", {"a"}, "cites", 2)});
    request.spec.link_seeds = each.links;
    if (each.links) request.options.link_node_set = "paper";
    if (each.seeds.readout != nullptr) {
      request.options.readout = true;
      request.options.readout_columns = {{"label", DType::kInt32, {}, false, false}};
    }
    if (!each.seeds.times.empty()) request.options.edge_time_column = "when";
    request.seeds_per_graph = each.seeds_per_graph;
    const auto source = SubGraphSource::Create(graphs.Open("g").value(), request).value();
    SCOPED_TRACE(request.Words());
    ASSERT_THAT(source->CheckSeeds(each.seeds), IsOk());
    ExpectTheSame(source, each.seeds);
  }
}

// --- What is asked for.

// What a call reserves for seeds and sub-graphs, in order, in the words of its refusals: each is
// refused in its turn, and told.
std::vector<std::string> ReservedBy(absl::FunctionRef<absl::Status(const Making&)> call) {
  std::vector<std::string> reserved;
  for (uint64_t number = 0;; ++number) {
    SeenBudget seen(number);
    const absl::Status ended = call(Making(seen.memory(), nullptr));
    if (!seen.has_refused()) {
      EXPECT_THAT(ended, IsOk());
      return reserved;
    }
    EXPECT_EQ(ended.code(), absl::StatusCode::kResourceExhausted) << number;
    std::string what(ended.message().substr(0, ended.message().find(" bytes beside")));
    what.erase(0, std::string("--memory-budget: ").size());
    for (const char* const of : {"seed", "sub-graph"}) {
      if (!absl::StrContains(what, of)) continue;
      reserved.push_back(std::move(what));
      break;
    }
    if (number > 200) return reserved;
  }
}

// Nobody waits any more, at each moment that is asked: the call ends with it.
void ExpectEndsWhenGivenUp(absl::FunctionRef<absl::Status(const Making&)> call) {
  for (int last = 0;; ++last) {
    int asked = 0;
    const absl::Status ended = call(Making(nullptr, [&] { return asked++ == last; }));
    if (asked <= last) {
      EXPECT_GT(last, 0);
      EXPECT_THAT(ended, IsOk());
      return;
    }
    ASSERT_EQ(ended.code(), absl::StatusCode::kCancelled) << last;
  }
}

EpochRequest OfSeedsDrawnFromASubset(bool with_replacement) {
  EpochRequest request = Request();
  request.mixing.is_off = true;
  request.subset = SubsetRequest{{9, 3}, {{100, 150}, {590, 50}}};
  request.draw = WeightedDraw{std::vector<double>(162, 1.5), 90, with_replacement};
  return request;
}

TEST(WindowBatchesTest, ReserveWhatTheyTake) {
  const auto prepare = [](const EpochRequest& request, const Making& making) {
    return SampledEpoch::Prepare(request.Find<SamplesRequest>()->source, request, EpochBounds(),
                                 making, nullptr);
  };
  for (const bool with_replacement : {false, true}) {
    const EpochRequest request = OfSeedsDrawnFromASubset(with_replacement);
    std::vector<std::string> expected = {
        "a subset or a draw of seeds of 1344",  // 8 for each number of them.
        "a subset of seeds of 96",
        "the seeds of a subset of 648",  // 4 for each seed.
        "an epoch of 162 seeds of 648",
        with_replacement ? "a draw of 90 seeds of 720" : "a draw of 90 seeds of 360",
        absl::StrCat("a draw from 162 seeds of ", 162 * (kSamplingBytes + 4)),
    };
    if (with_replacement) {
      // A bit for each node, and what counts those that came.
      expected.push_back("which drawn seeds came before of 2595");
    }
    const auto& source = *request.Find<SamplesRequest>()->source;
    expected.push_back(absl::StrCat("drawing sub-graphs of ",
                                    source.sampler().DrawBytes(source.sampler().UpperBound(1))));
    // A size and an id of each, and what may be told of it.
    expected.insert(expected.end(),
                    {"a window of 90 sub-graphs of 1440", "a window of 90 sub-graphs of 1440"});
    EXPECT_EQ(ReservedBy([&](const Making& making) { return prepare(request, making).status(); }),
              expected);
    ExpectEndsWhenGivenUp([&](const Making& making) { return prepare(request, making).status(); });
  }
  // As many seeds as there are, where no number is given; none that the list has not.
  EpochRequest all = OfSeedsDrawnFromASubset(false);
  all.draw->num_graphs = 0;
  all.subset->ranges = {{100, 159}, {599, 2}, {605, 1}};
  EXPECT_THAT(ReservedBy([&](const Making& making) { return prepare(all, making).status(); }),
              AllOf(::testing::Contains("a draw of 162 seeds of 648"),
                    ::testing::Contains("the seeds of a subset of 648")));
}

TEST(WindowBatchesTest, CompanyReservesWhatItTakes) {
  EpochRequest request = Request(/*window=*/20);
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  samples->seeds.nodes = std::make_shared<const std::vector<uint32_t>>(40, 12);
  request.kinds = {samples};
  {
    const auto epoch = Prepare(request).value();
    SeenBudget seen;
    EXPECT_TRUE(epoch->MeasureCompany(Making(seen.memory(), nullptr)).value().has_value());
    // The batch of each seed twice, and the other epoch's order.
    ASSERT_GE(seen.highs().size(), 2U);
    EXPECT_EQ(seen.highs()[0], 8U * 40);
    EXPECT_EQ(seen.highs()[1], 12U * 40);
  }
  // Whoever loads the other epoch learns why.
  const auto epoch = Prepare(request).value();
  SeenBudget seen(0);
  EXPECT_EQ(epoch->MeasureCompany(Making(seen.memory(), nullptr)).value(), std::nullopt);
  EXPECT_TRUE(seen.has_refused());
  EXPECT_EQ(epoch->known_company(), std::nullopt);
  ExpectEndsWhenGivenUp(
      [&](const Making& making) { return epoch->MeasureCompany(making).status(); });
  EXPECT_NE(epoch->known_company(), std::nullopt);
}

// Twice the bytes of each sub-graph, while they are there.
TEST(WindowBatchesTest, BatchesReserveWhatTheyTake) {
  EpochRequest request = Request();
  const std::vector<uint32_t> sizes = [&] {
    const Batch batch = Prepare(request).value()->Build(0).value().batch;
    return std::vector<uint32_t>(batch.sizes.begin(), batch.sizes.end());
  }();
  request.whole_graphs = true;
  const SubGraphSource& source = *request.Find<SamplesRequest>()->source;
  SeenBudget seen;
  const auto epoch = SampledEpoch::Prepare(request.Find<SamplesRequest>()->source, request,
                                           EpochBounds(), Making(seen.memory(), nullptr), nullptr)
                         .value();
  const uint64_t before = seen.held();
  uint64_t all = 0;
  for (size_t i = 0; i < sizes.size() / kNumComponents; ++i) {
    const auto tuple = absl::MakeConstSpan(sizes).subspan(i * kNumComponents, kNumComponents);
    const uint64_t bytes = 2 * source.sampled_schema().Bytes(tuple);
    all += bytes;
    seen.RefuseFromNow(i);
    EXPECT_THAT(
        epoch->Build(0).status(),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 HasSubstr(absl::StrCat(": the sub-graphs of a batch of ", bytes, " bytes"))));
    EXPECT_EQ(seen.held(), before);
  }
  seen.RefuseFromNow(SeenBudget::kNone);
  EXPECT_THAT(epoch->Build(0), IsOk());
  EXPECT_EQ(seen.held(), before);
  {
    const auto graphs = epoch->GraphsOf(0);
    ASSERT_THAT(graphs, IsOk());
    EXPECT_EQ(seen.held() - before, all);
  }
  EXPECT_EQ(seen.held(), before);
}

TEST(SubGraphsTest, DataSetsAndEstimatesReserveWhatTheyTake) {
  const OneGraphStore graphs(SmallSourceGraph(40));
  SubGraphsRequest sub_graphs;
  sub_graphs.graph = "g";
  sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(3, 2)).value();
  const auto source = SubGraphSource::Create(graphs.Open("g").value(), sub_graphs).value();
  const std::string drawing = absl::StrCat(
      "drawing sub-graphs of ", source->sampler().DrawBytes(source->sampler().UpperBound(1)));
  const EpochSeed seed = {7, 2};
  const auto estimate = [&](const Making& making) {
    return EstimateSizes(source, {}, seed, 30, making, nullptr).status();
  };
  EXPECT_THAT(ReservedBy(estimate),
              ElementsAre(absl::StrCat("the sizes of sub-graphs of ",
                                       SizeHistogram::BytesFor(30, kNumComponents) + 40 * 30),
                          drawing));
  ExpectEndsWhenGivenUp(estimate);
  SampledDatasetRequest request;
  request.dataset = "d";
  request.seed = seed;
  const auto make = [&](const Making& making) {
    MemoryDatasetStore store(uint64_t{1} << 30);
    return MakeSampledDataset(source, request, store, making, nullptr, [](const auto&) {}).status();
  };
  std::vector<std::string> expected = {drawing};
  const std::vector<uint32_t> sizes = DrawnSizes(*source, {}, seed);
  for (size_t i = 0; i < sizes.size(); i += kNumComponents) {
    const uint64_t bytes =
        source->sampled_schema().Bytes(absl::MakeConstSpan(sizes).subspan(i, kNumComponents));
    expected.push_back(absl::StrCat("sub-graphs that were drawn of ", 2 * bytes));
  }
  EXPECT_EQ(ReservedBy(make), expected);
  ExpectEndsWhenGivenUp(make);
  // The first that is too large; and one that is as large as may be.
  request.draws_smaller = false;
  request.limits = {UINT32_MAX, 5};
  size_t first = 0;
  while (sizes[first * kNumComponents + 1] <= 5) ++first;
  EXPECT_THAT(make(Making()),
              StatusIs(absl::StatusCode::kOutOfRange,
                       absl::StrCat("sub-graph ", first, " of seed node ", first, ": has ",
                                    sizes[first * kNumComponents + 1], " e, at most 5")));
  for (size_t i = 0; i < sizes.size(); i += kNumComponents) {
    request.limits[1] = std::max(request.limits[1], sizes[i + 1]);
  }
  EXPECT_THAT(make(Making()), IsOk());
}

using AskedOf = SubGraphsRequest;

// Authors write papers, at times.
template <typename Change>
absl::StatusOr<std::shared_ptr<const SubGraphSource>> OfWriters(const Change& change) {
  static auto* const graphs = [] {
    MemoryNodeSet papers;
    papers.num_nodes = 5;
    MemoryNodeSet authors;
    authors.num_nodes = 3;
    const SourceColumnSpec when = {"when", DType::kInt64, {}, false, false};
    return new OneGraphStore(MakeGraph({{"paper", {}}, {"author", {}}},
                                       {{"writes", 1, 0, {when}, std::nullopt}}, {papers, authors},
                                       {{{0}, {1}, {ColumnOf<int64_t>({7})}}}));
  }();
  SubGraphsRequest request;
  request.graph = "g";
  request.spec = SpecOf("author", {UniformOp("a", {"seed"}, "writes", 2)});
  change(request);
  return SubGraphSource::Create(graphs->Open("g").value(), request);
}

template <typename Change>
std::string CheckOf(const SubGraphSource& source, const Change& change) {
  SeedList seeds;
  change(seeds);
  return source.CheckSeeds(seeds).ToString();
}

std::shared_ptr<const std::vector<uint32_t>> Nodes(std::vector<uint32_t> list) {
  return std::make_shared<const std::vector<uint32_t>>(std::move(list));
}

TEST(SubGraphsTest, LinksThatDoNotFitAreNamed) {
  // Links from authors to papers.
  const auto links = OfWriters([](AskedOf& r) {
                       r.spec.seed_node_set = "";
                       r.spec.link_seeds = true;
                       r.options.link_edge_set = "writes";
                       r.options.readout_columns = {{"y", DType::kInt16, {2}, false, false}};
                     }).value();
  EXPECT_EQ(CheckOf(*links, [](SeedList&) {}), "INVALID_ARGUMENT: seeds: links must be listed");
  EXPECT_EQ(CheckOf(*links,
                    [&](SeedList& s) {
                      s.nodes = Nodes({0, 1, 2});
                    }),
            "INVALID_ARGUMENT: seeds: 3 ends of links, must be an even number");
  EXPECT_EQ(CheckOf(*links, [&](SeedList& s) { s.nodes = Nodes({2, 4}); }), "OK");
  EXPECT_EQ(CheckOf(*links,
                    [&](SeedList& s) {
                      s.nodes = Nodes({2, 4, 3, 4});
                    }),
            "OUT_OF_RANGE: seeds: node 3 at position 2, node set 'author' has 3 nodes");
  EXPECT_EQ(CheckOf(*links,
                    [&](SeedList& s) {
                      s.nodes = Nodes({2, 5});
                    }),
            "OUT_OF_RANGE: seeds: node 5 at position 1, node set 'paper' has 5 nodes");
  const auto link = Nodes({2, 4});
  EXPECT_EQ(CheckOf(*links,
                    [&](SeedList& s) {
                      s.nodes = link;
                      s.occurrences = {0, 0};
                    }),
            "INVALID_ARGUMENT: seeds.occurrences: 2 of them, there are 1 links");
  EXPECT_EQ(CheckOf(*links,
                    [&](SeedList& s) {
                      s.nodes = link;
                      s.times = {1};
                    }),
            "INVALID_ARGUMENT: seeds.times: given, but neither node_time_column nor "
            "edge_time_column is: nothing would be left out");
  for (const size_t bytes : {3, 4, 5}) {
    EXPECT_EQ(CheckOf(*links,
                      [&](SeedList& s) {
                        s.nodes = link;
                        s.readout = std::make_shared<const std::vector<std::string>>(
                            1, std::string(bytes, 'x'));
                      }),
              bytes == 4 ? "OK"
                         : absl::StrCat("INVALID_ARGUMENT: seeds.readout: column 'y' has ", bytes,
                                        " bytes, 1 rows take 4"));
  }
  EXPECT_EQ(CheckOf(*links,
                    [&](SeedList& s) {
                      s.nodes = link;
                      s.readout = std::make_shared<const std::vector<std::string>>();
                    }),
            "INVALID_ARGUMENT: seeds.readout: 0 columns, `_readout` has 1");
}

TEST(SubGraphsTest, SeedsThatDoNotFitAreNamed) {
  for (const uint32_t per_graph : {0U, SubGraphsRequest::kMaxSeedsPerGraph + 1}) {
    EXPECT_THAT(OfWriters([&](AskedOf& r) { r.seeds_per_graph = per_graph; }).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("seeds_per_graph: ", per_graph, ", must be 1 to ",
                                      SubGraphsRequest::kMaxSeedsPerGraph)));
  }
  EXPECT_THAT(
      OfWriters([](AskedOf& r) { r.seeds_per_graph = SubGraphsRequest::kMaxSeedsPerGraph; }),
      IsOk());
  // Two seeds a graph, and times of the edges.
  const auto timed = OfWriters([](AskedOf& r) {
                       r.seeds_per_graph = 2;
                       r.options.edge_time_column = "when";
                     }).value();
  for (const size_t num_times : {1, 2, 3}) {
    EXPECT_EQ(CheckOf(*timed,
                      [&](SeedList& s) {
                        s.nodes = Nodes({2, 1, 0});
                        s.times.resize(num_times);
                      }),
              num_times == 2 ? "OK"
                             : absl::StrCat("INVALID_ARGUMENT: seeds.times: ", num_times,
                                            " of them, the seeds make 2 sub-graphs"));
  }
  EXPECT_EQ(CheckOf(*timed,
                    [&](SeedList& s) {
                      s.nodes = Nodes({2, 1, 0});
                      s.occurrences = {0, 0};
                    }),
            "INVALID_ARGUMENT: seeds.occurrences: 2 of them, there are 3 seeds");
  EXPECT_THAT(
      EstimateSizes(timed, SeedList{Nodes({2, 1}), {}, {5}, nullptr}, {}, 5, Making(), nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "seeds.times: not with seeds_per_graph above 1"));
}

TEST(SubGraphsTest, EstimatesHaveTheirBounds) {
  const auto source = Request().Find<SamplesRequest>()->source;
  EXPECT_THAT(EstimateSizes(source, {}, {}, 65536, Making(), nullptr), IsOk());
  EXPECT_THAT(EstimateSizes(source, {}, {}, 65537, Making(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, "num_graphs: 65537, at most 65536"));
  const Making cancelled(nullptr, [] { return true; });
  EXPECT_THAT(EstimateSizes(source, {}, {}, 5, cancelled, nullptr),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
}

TEST(SubGraphsTest, AllThatDecidesThemIsInTheirWords) {
  SubGraphsRequest request = Request().Find<SamplesRequest>()->source->request();
  const std::string spec = request.Words();
  EXPECT_EQ(spec.size(), 5U + 32U) << spec;
  const auto words_with = [&](auto change) {
    SubGraphsRequest changed = request;
    change(changed);
    const std::string words = changed.Words();
    EXPECT_EQ(words.substr(0, spec.size()), spec);
    return words.substr(std::min(words.size(), spec.size()));
  };
  using Asked = SubGraphsRequest;
  EXPECT_EQ(words_with([](Asked& r) { r.seeds_per_graph = 3; }), ", 3 seeds a graph");
  EXPECT_EQ(words_with([](Asked& r) { r.options.weight_column = "w\n"; }), ", weights \"w\\n\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.induced = true; }), ", induced");
  EXPECT_EQ(words_with([](Asked& r) {
              r.options.induced_edge_sets = {"a", "b"};
            }),
            ", induced set \"a\", induced set \"b\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.merge_parallel = true; }), ", merge parallel");
  EXPECT_EQ(words_with([](Asked& r) { r.options.node_time_column = "t"; }), ", node times \"t\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.edge_time_column = "t"; }), ", edge times \"t\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.untimed_sets = {"u"}; }), ", untimed set \"u\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.latest = true; }), ", latest");
  EXPECT_EQ(words_with([](Asked& r) { r.options.time_window = 5; }), ", time window 5");
  EXPECT_EQ(words_with([](Asked& r) { r.options.link_node_set = "n"; }), ", links of \"n\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.link_edge_set = "e"; }), ", links as \"e\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.exclude = ExcludeLinks::kSelf; }),
            ", without its links");
  EXPECT_EQ(words_with([](Asked& r) { r.options.exclude = ExcludeLinks::kReverseTypes; }),
            ", without its links and their reverse");
  EXPECT_EQ(words_with([](Asked& r) { r.options.reverse_edge_sets = {"r"}; }),
            ", reverse set \"r\"");
  EXPECT_EQ(words_with([](Asked& r) { r.options.readout = true; }), ", readout");
  EXPECT_EQ(words_with([](Asked& r) {
              r.options.readout_columns = {{"y", DType::kInt32, {2, 3}, false, false}};
            }),
            ", readout column \"y 3 [2,3]\"");
  EXPECT_EQ(words_with([](Asked& r) { r.payload.features = false; }), ", without features");
  EXPECT_EQ(words_with([](Asked& r) { r.payload.numbers = true; }), ", numbers");
  EXPECT_EQ(words_with([](Asked& r) { r.payload.rows = true; }), ", rows");
  EXPECT_EQ(words_with([](Asked& r) { r.payload.ids = true; }), ", ids");
  request.spec.ops[1].sample_size += 1;
  EXPECT_NE(request.Words(), spec);
}

TEST(SubGraphsTest, AllThatDecidesAnEpochIsInItsWords) {
  const EpochRequest request = Request();
  const auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  std::set<std::string> words = {samples->Words()};
  EXPECT_THAT(samples->Words(),
              AllOf(StartsWith(absl::StrCat("sub-graphs of ", samples->source->request().Words(),
                                            " for 600 seeds ")),
                    EndsWith(" in windows of 130")));
  EXPECT_EQ(samples->Words().find(" in windows of 130") - samples->Words().find(" seeds "),
            7U + 32U);
  const auto expect_others = [&](auto change) {
    SamplesRequest changed = *samples;
    change(changed);
    EXPECT_TRUE(words.insert(changed.Words()).second) << changed.Words();
  };
  std::vector<uint32_t> nodes(kNodes);
  std::iota(nodes.begin(), nodes.end(), 0U);
  const auto listed = std::make_shared<const std::vector<uint32_t>>(nodes);
  std::swap(nodes[0], nodes[1]);
  const auto swapped = std::make_shared<const std::vector<uint32_t>>(nodes);
  using Asked = SamplesRequest;
  expect_others([](Asked& r) { r.window = 131; });
  expect_others([](Asked& r) { r.draws_smaller = false; });
  expect_others([&](Asked& r) { r.seeds.nodes = listed; });
  expect_others([&](Asked& r) { r.seeds.nodes = swapped; });
  expect_others([](Asked& r) { r.seeds.nodes = std::make_shared<std::vector<uint32_t>>(); });
  expect_others([](Asked& r) { r.seeds.occurrences = {1, 2}; });
  expect_others([](Asked& r) { r.seeds.occurrences = {1, 3}; });
  expect_others([](Asked& r) { r.seeds.times = {1, -2}; });
  for (const char* const rows : {"ab", "ac"}) {
    expect_others([rows](Asked& r) {
      r.seeds.readout = std::make_shared<const std::vector<std::string>>(1, rows);
    });
  }
  // And of what is packed by.
  const auto options_of = [](const EpochRequest& of, std::optional<uint64_t> steps) {
    EpochBounds bounds;
    bounds.planner_steps = steps;
    return SampledEpoch::Prepare(of.Find<SamplesRequest>()->source, of, bounds, Making(), nullptr,
                                 kPlanNone)
        .value()
        ->identity()
        .options;
  };
  const EpochRequest plain = AsTheyCome(request);
  const std::string options = options_of(plain, 1000);
  EXPECT_THAT(options, AllOf(StartsWith(absl::StrCat(plain.Words(), "; planner ")),
                             EndsWith(absl::StrCat("; rules ", kRulesVersion))));
  EXPECT_EQ(options_of(plain, 1000), options);
  EXPECT_NE(options_of(plain, 1001), options);
  EpochRequest several = plain;
  several.rank_groups[0].shapes.push_back({40, 300, 30});
  const std::string of_shapes = options_of(several, 1000);
  EXPECT_EQ(of_shapes.find("; rules ") - of_shapes.find("; planner shapes-"), 17U + 32U);
  EXPECT_NE(options_of(several, 1000), options_of(several, 1001));
  EpochRequest in_order = plain;
  in_order.in_order = true;
  EXPECT_THAT(
      options_of(in_order, 1000),
      EndsWith(absl::StrCat("; planner online-", kInOrderVersion, "; rules ", kRulesVersion)));
}

// A graph whose edges lead nowhere from some moment on.
class BreakingGraph final : public SourceGraph {
 public:
  explicit BreakingGraph(std::unique_ptr<const SourceGraph> graph)
      : graph_(std::move(graph)), neighbours_(ListOf(graph_->BySource(0)->neighbours)) {}
  void Break() { std::fill(neighbours_.begin(), neighbours_.end(), 0xfffffffe); }

  const SourceGraphSchema& schema() const override { return graph_->schema(); }
  uint64_t version() const override { return graph_->version(); }
  uint64_t num_nodes(size_t set) const override { return graph_->num_nodes(set); }
  uint64_t num_edges(size_t set) const override { return graph_->num_edges(set); }
  absl::StatusOr<Adjacency> BySource(size_t set) const override {
    Adjacency rows = *graph_->BySource(set);
    rows.neighbours = neighbours_;
    return rows;
  }
  absl::StatusOr<Adjacency> ByTarget(size_t set) const override { return graph_->ByTarget(set); }
  SourceColumn NodeColumn(size_t set, size_t column) const override {
    return graph_->NodeColumn(set, column);
  }
  SourceColumn EdgeColumn(size_t set, size_t column) const override {
    return graph_->EdgeColumn(set, column);
  }
  SourceColumn NodeIds(size_t set) const override { return graph_->NodeIds(set); }
  bool integer_ids(size_t set) const override { return graph_->integer_ids(set); }

 private:
  const std::unique_ptr<const SourceGraph> graph_;
  std::vector<uint32_t> neighbours_;
};

TEST(WindowBatchesTest, DamageIsToldWhereverItIsMet) {
  auto made = std::make_unique<BreakingGraph>(SmallSourceGraph(kNodes));
  BreakingGraph* const graph = made.get();
  const OneGraphStore graphs(std::move(made));
  EpochRequest request = AsTheyCome(Request(/*window=*/20));
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  const auto source =
      SubGraphSource::Create(graphs.Open("g").value(), samples->source->request()).value();
  samples->source = source;
  request.kinds = {samples};
  const auto epoch = Prepare(request).value();
  EpochRequest of_all = request;
  auto exact = std::make_shared<SamplesRequest>(*samples);
  exact->exact_steps = true;
  of_all.kinds = {exact};
  // Its first windows are not kept.
  const auto all = Prepare(of_all).value();
  graph->Break();
  const std::string why = "the source graph is damaged: an edge leads to no node";
  const auto damaged = StatusIs(absl::StatusCode::kDataLoss, why);
  EXPECT_THAT(epoch->Plan(1, Making()), damaged);
  EXPECT_THAT(epoch->Plan(3, Making()), damaged);
  EXPECT_EQ(epoch->Counts().size(), 1U);
  EXPECT_THAT(epoch->Build(0).status(), damaged);
  EXPECT_THAT(epoch->GraphsOf(0).status(), damaged);
  EXPECT_THAT(exact->Complete(of_all, *epoch, Making()), damaged);
  EXPECT_THAT(all->Build(0).status(), damaged);
  EXPECT_EQ(all->NumGraphs(0), 0U);
  EXPECT_EQ(all->MeasureCompany(Making()).value(), std::nullopt);
  EXPECT_THAT(Prepare(request).status(), damaged);
  EXPECT_THAT(Prepare(of_all).status(), damaged);
  samples->draws_smaller = false;
  EXPECT_THAT(Prepare(request).status(), damaged);
  EXPECT_THAT(EstimateSizes(source, {}, {}, 50, Making(), nullptr).status(), damaged);
  DeviceProfile device;
  device.components.resize(kNumComponents + 1);
  for (ComponentProfile& component : device.components) component.max_rows = 900;
  request.rank_groups = {{{}, device, kNumRanks}};
  EXPECT_THAT(Prepare(request, kPlanNone).status(), damaged);
  MemoryDatasetStore store(uint64_t{1} << 30);
  SampledDatasetRequest wanted;
  wanted.dataset = "d";
  // Node 0 has no edges.
  EXPECT_THAT(
      MakeSampledDataset(source, wanted, store, Making(), nullptr, [](const auto&) {}).status(),
      StatusIs(absl::StatusCode::kDataLoss, "sub-graph 1: " + why));
}

TEST(SeedCounterTest, CountsHowOftenASeedCameBefore) {
  using Counts = std::vector<uint32_t>;
  EXPECT_EQ(SeedOccurrences({5, 3, 5, 64, 5, 3}, 65, 1), Counts({0, 0, 1, 0, 2, 1}));
  EXPECT_EQ(SeedOccurrences({5, 3, 64}, 65, 1), Counts());
  // Links: both ends, in their order.
  EXPECT_EQ(SeedOccurrences({5, 3, 3, 5, 5, 3, 5, 4, 5, 3}, 65, 2), Counts({0, 0, 1, 0, 2}));
  EXPECT_EQ(SeedOccurrences({5, 3, 3, 5, 5, 4}, 65, 2), Counts());
  // Over several lists.
  for (const size_t per_row : {1, 2}) {
    SeedCounter counter(65, per_row);
    const Counts once(per_row, 7);
    EXPECT_EQ(counter.Count(once), Counts());
    EXPECT_EQ(counter.Count(once), Counts({1}));
    EXPECT_EQ(counter.Count(once), Counts({2}));
  }
}

// Wherever a node stands in the list, its times are counted together.
TEST(WindowBatchesTest, ADrawnSeedIsCountedByItsNode) {
  EpochRequest request = Request();
  request.rank_groups[0].shapes = {{100000, 100000, 1}};
  request.draw = WeightedDraw{{}, 40, true};
  const auto sizes_of = [](const EpochRequest& of) {
    std::multiset<std::vector<uint32_t>> sizes;
    for (const auto& [number, built] : BuildAll(*Prepare(of).value())) {
      sizes.emplace(built.batch.sizes.begin(), built.batch.sizes.end());
    }
    return sizes;
  };
  EpochRequest listed = request;
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  samples->seeds.nodes = Nodes({12, 12, 12});
  listed.kinds = {samples};
  request.subset = SubsetRequest{{12}, {}};
  EXPECT_EQ(sizes_of(listed), sizes_of(request));
}

TEST(WindowBatchesTest, BatchesOfOneHaveNoCompany) {
  EpochRequest request = Request();
  request.rank_groups[0].shapes = {{100000, 100000, 1}};
  const auto company = Prepare(request).value()->MeasureCompany(Making()).value();
  ASSERT_TRUE(company.has_value());
  EXPECT_EQ(company->chance, 0);
  EXPECT_EQ(company->of_shuffle, 0);
  // Sub-graphs of several seeds are others in each epoch.
  const OneGraphStore graphs(SmallSourceGraph(kNodes));
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  SubGraphsRequest sub_graphs = samples->source->request();
  sub_graphs.seeds_per_graph = 2;
  samples->source = SubGraphSource::Create(graphs.Open("g").value(), sub_graphs).value();
  request.kinds = {samples};
  EXPECT_EQ(Prepare(request).value()->MeasureCompany(Making()).value(), std::nullopt);
}

TEST(WindowBatchesTest, WhatDoesNotGoWithSamplesIsNamed) {
  const auto refused = [](auto change, const std::string& why) {
    EpochRequest request = AsTheyCome(Request());
    auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
    change(request, *samples);
    request.kinds = {samples};
    EXPECT_THAT(Prepare(request, kPlanNone).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, why));
  };
  using Asked = EpochRequest;
  using Samples = SamplesRequest;
  refused(
      [](Asked& r, Samples&) {
        r.segments = SegmentsRequest{300, 1};
      },
      "epoch.segments: not together with samples, which come in windows");
  refused([](Asked& r, Samples&) { r.said.oversize = true; },
          "oversize_policy: must be unset with samples; samples.beyond_limits decides");
  refused([](Asked& r, Samples&) { r.dataset = "d"; }, "samples: not together with a data set");
  refused(
      [](Asked& r, Samples&) {
        r.in_order = true;
        r.mixing = {1.1, false};
      },
      "mixing: not together with in_order, whose order is fixed");
  refused([](Asked& r, Samples&) { r.grouped = true; },
          "samples: not together with grouped; seeds have no groups");
  refused([](Asked&, Samples& s) { s.window = 65537; }, "samples.window: 65537, at most 65536");
  EXPECT_THAT(Prepare(AsTheyCome(Request(/*window=*/65536)), kPlanNone), IsOk());
  refused(
      [](Asked&, Samples& s) {
        SubGraphsRequest two = s.source->request();
        two.seeds_per_graph = 2;
        s.source =
            SubGraphSource::Create(
                std::make_shared<const OneGraphStore>(SmallSourceGraph(kNodes))->Open("g").value(),
                two)
                .value();
        s.seeds.times = {1};
      },
      "seeds.times: not with seeds_per_graph above 1");
  refused(
      [](Asked& r, Samples&) {
        r.subset = SubsetRequest{{600, 5}, {}};
      },
      "subset: there are 600 seeds, none with id 600");
  refused(
      [](Asked& r, Samples&) {
        r.subset = SubsetRequest{{}, {{600, 5}}};
      },
      "samples: the subset or the draw has no seeds");
  refused(
      [](Asked& r, Samples&) {
        r.draw = WeightedDraw{{1, 2}, 1, true};
      },
      "weights: 2, there are 600 seeds to draw from");
  refused(
      [](Asked& r, Samples&) {
        r.draw = WeightedDraw{{}, uint64_t{1} << 32, true};
      },
      "draw: 4294967296 of 600 seeds, at most 4294967295");
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
