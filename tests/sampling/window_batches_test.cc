// The batches of an epoch of sub-graphs: in which order they come within each window.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
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
