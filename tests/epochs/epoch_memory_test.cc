// Plans and epochs are bytes of a budget: reserved before they are allocated, given back when they
// are gone, and given up when nobody waits.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/planning_room.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/histograms/histogram_store.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/allocated_bytes.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
// Statuses, names, lists of shapes: what is not worth a reservation.
constexpr int64_t kSlack = 96 << 10;

// A data set of sizes in memory of its own.
class SizesReader final : public DatasetReader {
 public:
  // Sizes from 0 to `most` nodes, and up to twice as many edges; groups of 5 or so.
  SizesReader(size_t num_graphs, uint32_t most, uint64_t seed) {
    Random random(seed);
    info_.name = "graphs";
    info_.schema = SmallSchema();
    info_.state = DatasetState::kSealed;
    info_.options.grouped = true;
    info_.num_graphs = num_graphs;
    info_.version = 1;
    for (size_t i = 0; i < num_graphs; ++i) {
      const auto nodes = static_cast<uint32_t>(random.Below(most + 1));
      counts_.push_back(nodes);
      counts_.push_back(static_cast<uint32_t>(random.Below(2 * nodes + 1)));
      graph_ids_.push_back(i);
      group_ids_.push_back(random.Below(num_graphs / 5 + 1));
    }
  }
  const DatasetInfo& info() const override { return info_; }
  const SizeHistogram& histogram() const override { return histogram_; }
  absl::Span<const uint32_t> counts() const override { return counts_; }
  absl::Span<const uint64_t> graph_ids() const override { return graph_ids_; }
  absl::Span<const uint64_t> group_ids() const override { return group_ids_; }
  absl::Span<const DamagedRecord> unreadable() const override { return {}; }
  absl::StatusOr<StoredGraph> Graph(size_t) const override {
    return absl::UnimplementedError("sizes only");
  }

 private:
  DatasetInfo info_;
  SizeHistogram histogram_{2};  // Not asked for.
  std::vector<uint32_t> counts_;
  std::vector<uint64_t> graph_ids_;
  std::vector<uint64_t> group_ids_;
};

EpochRequest RequestOf(std::vector<uint64_t> capacities) {
  EpochRequest request = DatasetWorld::Request(std::move(capacities));
  request.whole_graphs = false;
  request.padding = Padding::kNone;
  return request;
}

// Every way to ask for an epoch.
std::vector<std::pair<std::string, EpochRequest>> AllRequests(size_t num_graphs) {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](std::string name,
                       std::vector<uint64_t> capacities = {200, 400, 64}) -> EpochRequest& {
    requests.emplace_back(std::move(name), RequestOf(std::move(capacities)));
    return requests.back().second;
  };
  add("shuffled");
  add("some are too large", {40, 60, 64});
  add("in order").in_order = true;
  add("grouped", {400, 800, 64}).grouped = true;
  EpochRequest& subset = add("a subset");
  subset.subset.emplace();
  for (size_t i = 0; i < num_graphs; i += 2) subset.subset->ids.push_back(i);
  EpochRequest& replaced = add("with replacement");
  replaced.draw = WeightedDraw{{}, 3 * num_graphs, true};
  EpochRequest& weighted = add("without replacement");
  weighted.draw = WeightedDraw{std::vector<double>(num_graphs, 1.5), num_graphs / 2, false};
  EpochRequest& shapes = add("several shapes");
  shapes.rank_groups[0].shapes.push_back({100, 200, 64});
  EpochRequest& ranks = add("unequal ranks");
  ranks.rank_groups.push_back({{{120, 260, 64}}, std::nullopt, 2});
  EpochRequest& device = add("a device");
  device.rank_groups[0].shapes.clear();
  DeviceProfile profile;
  profile.components.resize(3);
  for (ComponentProfile& component : profile.components) component.max_rows = 512;
  profile.components[2].relative_cost = 0;
  device.rank_groups[0].device = profile;
  return requests;
}

TEST(EpochMemoryTest, WhatIsAllocatedWasReservedBefore) {
  for (const auto& [num_graphs, most_nodes] :
       {std::pair(size_t{500}, 20U), std::pair(size_t{20'000}, 15U),
        std::pair(size_t{10'000}, 80U)}) {
    const auto reader = std::make_shared<const SizesReader>(num_graphs, most_nodes, 1);
    for (const auto& [name, request] : AllRequests(num_graphs)) {
      SCOPED_TRACE(absl::StrCat(name, " of ", num_graphs, " graphs"));
      MemoryBudget budget(UINT64_MAX);
      const Making making(&budget, nullptr);
      {
        AllocatedBytes allocated(&budget, kSlack);
        auto plan = EpochPlan::Make(reader, request, EpochBounds(), making);
        ASSERT_THAT(plan, IsOk());
        // What is kept is held, and not much more.
        EXPECT_LE(budget.held(), 2 * static_cast<uint64_t>(allocated.bytes()) + kSlack);
        auto epoch = PreparedEpoch::Prepare(*plan, request, EpochBounds(), making);
        ASSERT_THAT(epoch, IsOk());
        EXPECT_LE(allocated.excess(), 0) << allocated.most() << " bytes at most";
        // Or the law would say nothing.
        if (num_graphs > 1000) {
          EXPECT_GT(allocated.most(), kSlack);
        }
      }
      EXPECT_EQ(budget.held(), 0);
    }
  }
}

// The pieces of a batch are copied before they are collated.
TEST(EpochMemoryTest, PiecesOfBatchesWereReservedBefore) {
  constexpr uint32_t kLargest = 40'000;
  DatasetWorld world(4, 1, kLargest);
  world.Seal();
  const std::shared_ptr<const DatasetReader> reader = world.store().OpenReader("graphs").value();
  EpochRequest request = DatasetWorld::Request({kLargest / 2, kLargest / 2, 4});
  request.cuts_oversize = true;
  MemoryBudget budget(UINT64_MAX);
  const Making making(&budget, nullptr);
  PH_ASSERT_OK_AND_ASSIGN(const auto plan, EpochPlan::Make(reader, request, EpochBounds(), making));
  EXPECT_GT(plan->num_cut_graphs(), 0);
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch,
                          PreparedEpoch::Prepare(plan, request, EpochBounds(), making));
  const auto before = static_cast<int64_t>(budget.held());
  for (uint64_t number = 0; number < epoch->identity().num_batches(); ++number) {
    // The batch itself is the caller's.
    const auto batch = static_cast<int64_t>(*epoch->shapes(0)[0].layout.FixedBatchBytes());
    EXPECT_GT(batch, kSlack);
    AllocatedBytes allocated(&budget, kSlack + batch - before);
    EXPECT_THAT(epoch->Build(number).status(), IsOk());
    EXPECT_LE(allocated.excess(), 0) << allocated.most() << " bytes at most";
  }
  EXPECT_EQ(static_cast<int64_t>(budget.held()), before);
}

// However far it got when somebody gave up, or memory was refused: it ends so, and holds nothing.
TEST(EpochMemoryTest, WhatIsGivenUpOrRefusedLeavesNothing) {
  constexpr size_t kGraphs = 6000;
  const auto reader = std::make_shared<const SizesReader>(kGraphs, 30, 1);
  const auto make = [&](const EpochRequest& request, const Making& making) -> absl::Status {
    auto plan = EpochPlan::Make(reader, request, EpochBounds(), making);
    if (!plan.ok()) return plan.status();
    return PreparedEpoch::Prepare(*plan, request, EpochBounds(), making).status();
  };
  for (const auto& [name, request] : AllRequests(kGraphs)) {
    SCOPED_TRACE(name);
    MemoryBudget ample(UINT64_MAX);
    uint64_t asked = 0;
    uint64_t most = 0;
    EXPECT_THAT(make(request, Making(&ample,
                                     [&] {
                                       ++asked;
                                       most = std::max(most, ample.held());
                                       return false;
                                     })),
                IsOk());
    EXPECT_GT(asked, 4);
    for (uint64_t i = 0; i < 8; ++i) {
      uint64_t left = asked * i / 8;
      const Making making(&ample, [&] { return left-- == 0; });
      EXPECT_THAT(make(request, making),
                  StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
      EXPECT_EQ(ample.held(), 0);
      MemoryBudget small(most * i / 8);
      EXPECT_THAT(make(request, Making(&small, nullptr)),
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget: ")));
      EXPECT_EQ(small.held(), 0);
    }
  }
}

TEST(EpochMemoryTest, AHugeDrawIsRefusedByItsNumber) {
  DatasetWorld world(40);
  world.Seal();
  MemoryBudget budget(64 * kMebibyte);
  EpochCatalog catalog(&world.store(), EpochBounds(), &budget);
  EpochRequest request = DatasetWorld::Request();
  request.draw = WeightedDraw{{}, UINT32_MAX, true};
  EXPECT_THAT(
      catalog.Prepare(request),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("--memory-budget: draw: num_graphs 4294967295 of 17179869180 "
                               "bytes"),
                     HasSubstr("at most 67108864"))));
  request.draw->num_graphs = uint64_t{UINT32_MAX} + 1;
  EXPECT_THAT(catalog.Prepare(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_graphs 4294967296, at most 4294967295")));
  request.draw->with_replacement = false;
  request.draw->num_graphs = UINT32_MAX;
  EXPECT_THAT(catalog.Prepare(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without replacement")));
  request.draw->num_graphs = 20;
  EXPECT_THAT(catalog.Prepare(request), IsOk());
}

// A sample of so many graphs, which is planned and drawn for this epoch alone.
EpochRequest SampleOf(uint64_t num_graphs, uint64_t epoch) {
  EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
  request.draw = WeightedDraw{{}, num_graphs, true};
  return request;
}

TEST(EpochCatalogMemoryTest, WhatNobodyUsesGoesWhereOthersNeedItsRoom) {
  constexpr uint64_t kBound = 16 * kMebibyte;
  DatasetWorld world(40);
  world.Seal();
  MemoryBudget budget(kBound);
  EpochCatalog catalog(&world.store(), EpochBounds(), &budget);
  // Some 200 kB each, so that a few are kept; and all of them come to be made.
  for (uint64_t epoch = 0; epoch < 40; ++epoch) {
    EXPECT_THAT(catalog.Prepare(SampleOf(20'000, epoch)), IsOk()) << epoch;
    EXPECT_LE(budget.held(), kBound / 8) << epoch;
  }
  EXPECT_GT(budget.held(), kBound / 64);
  // What others reserve, it makes room for.
  const auto others = budget.Hold("all there is", kBound);
  EXPECT_THAT(others, IsOk());
}

TEST(EpochCatalogMemoryTest, WhatIsUsedStaysAndIsTheBound) {
  constexpr uint64_t kBound = 16 * kMebibyte;
  DatasetWorld world(40);
  world.Seal();
  MemoryBudget budget(kBound);
  EpochCatalog catalog(&world.store(), EpochBounds(), &budget);
  std::vector<std::shared_ptr<const PreparedEpoch>> used;
  absl::Status refused;
  while (refused.ok()) {
    ASSERT_LT(used.size(), 64);
    const auto epoch = catalog.Prepare(SampleOf(50'000, used.size()));
    refused = epoch.status();
    if (epoch.ok()) used.push_back(*epoch);
    EXPECT_LE(budget.held(), kBound);
  }
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
  EXPECT_GT(used.size(), 5);
  for (size_t i = 0; i < used.size(); ++i) {
    EXPECT_EQ(*catalog.Prepare(SampleOf(50'000, i)), used[i]);
  }
  // One less is used: there is room for another.
  const uint64_t next = used.size();
  used.pop_back();
  used.pop_back();
  EXPECT_THAT(catalog.Prepare(SampleOf(50'000, next)), IsOk());
  used.clear();
  EXPECT_LE(budget.held(), kBound / 8);
  catalog.Forget("graphs");
  EXPECT_EQ(budget.held(), 0);
}

SizeHistogram HistogramOf(size_t num_graphs, uint32_t most, size_t num_components, uint64_t seed) {
  Random random(seed);
  SizeHistogram histogram(num_components);
  std::vector<uint32_t> tuple(num_components);
  for (size_t i = 0; i < num_graphs; ++i) {
    for (uint32_t& size : tuple) size = static_cast<uint32_t>(random.Below(most + 1));
    EXPECT_THAT(histogram.Add(tuple, random.Between(1, 40)), IsOk());
  }
  return histogram;
}

TEST(PlanningMemoryTest, PlansTakeWhatWasReserved) {
  for (const auto& [num_graphs, most, l] :
       {std::tuple(size_t{300}, 50U, size_t{2}), std::tuple(size_t{3000}, 200U, size_t{2}),
        std::tuple(size_t{20'000}, 2000U, size_t{3}), std::tuple(size_t{4000}, 9U, size_t{12})}) {
    SCOPED_TRACE(absl::StrCat(num_graphs, " graphs of ", l, " components"));
    const SizeHistogram histogram = HistogramOf(num_graphs, most, l, 1);
    std::vector<uint64_t> capacities(l, 5 * most);
    capacities.push_back(256);
    const Limits limits = Limits::Create(capacities).value();
    std::vector<std::string> names;
    for (size_t k = 0; k < l; ++k) names.push_back(absl::StrCat("c", k));
    const SizeSchema schema = SizeSchema::Create(names).value();
    for (const auto& [name, heuristics] :
         {std::pair("optimized", DefaultHeuristics()),
          std::pair("tuple packing", TuplePackingHeuristics(limits)),
          std::pair("baselines", BaselineHeuristics(limits)),
          std::pair("notebook", NotebookHeuristics(limits))}) {
      SCOPED_TRACE(name);
      MemoryBudget budget(UINT64_MAX);
      const Making making(&budget, nullptr);
      PlanningRoom room(making, histogram.num_distinct(), l);
      EXPECT_THAT(room.HoldPlans(), IsOk());
      ComparisonOptions options;
      options.heuristic_steps = 1'000'000;
      options.optimizer.steps = 8'000'000;
      options.optimizer.memory = room.memory();
      AllocatedBytes allocated(&budget, kSlack);
      std::vector<PlanHeuristic> all = heuristics;
      all.push_back({PlanAlgorithm::kFirstFitDecreasing, {}, {}, {}});
      EXPECT_THAT(ComparePlans(histogram, limits, schema, all, options), IsOk());
      EXPECT_LE(allocated.excess(), 0) << allocated.most() << " of " << budget.held();
    }
  }
}

TEST(PlanningMemoryTest, TuningTakesWhatWasReserved) {
  const SizeHistogram histogram = HistogramOf(500, 40, 2, 1);
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  for (const size_t shapes : {1, 3}) {
    DeviceProfile profile;
    profile.components.resize(3);
    for (ComponentProfile& component : profile.components) component.max_rows = 200;
    profile.components[2].relative_cost = 0;
    profile.max_distinct_shapes = shapes;
    MemoryBudget budget(UINT64_MAX);
    const Making making(&budget, nullptr);
    PlanningRoom room(making, histogram.num_distinct(), 2);
    EXPECT_THAT(room.HoldTuning(), IsOk());
    TuneOptions options;
    options.steps = 100'000'000;
    options.include_grid = shapes == 1;
    options.memory = room.memory();
    AllocatedBytes allocated(&budget, kSlack);
    EXPECT_THAT(TuneLimits(histogram, profile, schema, options), IsOk());
    EXPECT_LE(allocated.excess(), 0) << allocated.most() << " of " << budget.held();
  }
}

// Whatever a planner asks for, the first that is refused ends it.
TEST(PlanningMemoryTest, WhoIsRefusedEnds) {
  const SizeHistogram histogram = HistogramOf(3000, 300, 2, 1);
  const Limits limits = Limits::Create({900, 900, 64}).value();
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  std::vector<PlanHeuristic> heuristics = DefaultHeuristics();
  for (const PlanHeuristic& heuristic : TuplePackingHeuristics(limits))
    heuristics.push_back(heuristic);
  for (const PlanHeuristic& heuristic : NotebookHeuristics(limits)) heuristics.push_back(heuristic);
  for (const PlanHeuristic& heuristic : heuristics) {
    SCOPED_TRACE(HeuristicName(heuristic, schema));
    int asked = 0;
    PlanMemory memory([&](uint64_t) { return ++asked < 2; });
    ComparisonOptions options;
    options.heuristic_steps = 3'000'000;
    options.optimizer.steps = 3'000'000;
    options.optimizer.memory = &memory;
    EXPECT_THAT(ComparePlans(histogram, limits, schema, {&heuristic, 1}, options),
                StatusIs(absl::StatusCode::kCancelled, ::testing::_));
    EXPECT_TRUE(memory.refused());
    EXPECT_EQ(asked, 2);
  }
}

TEST(HistogramMemoryTest, HistogramsTakeWhatWasReserved) {
  for (const size_t l : {1, 2, 7}) {
    for (const absl::Duration half_life : {absl::InfiniteDuration(), absl::Hours(1)}) {
      SCOPED_TRACE(absl::StrCat(l, " components, half-life ", absl::FormatDuration(half_life)));
      std::vector<std::string> names;
      for (size_t k = 0; k < l; ++k) names.push_back(absl::StrCat("c", k));
      const SizeSchema schema = SizeSchema::Create(names).value();
      Random random(l);
      MemoryBudget budget(UINT64_MAX);
      {
        HistogramStore store(HistogramStore::Bounds(), &budget);
        AllocatedBytes allocated(&budget, kSlack);
        absl::Time now = absl::UnixEpoch();
        for (int i = 0; i < 60; ++i) {
          const HistogramKey key = {absl::StrCat("h", random.Below(3)), schema, half_life};
          const ProducerSequence producer = {absl::StrCat("a producer with a long name ", i), 1};
          now += absl::Minutes(20);
          if (random.Below(4) == 0) {
            const SizeHistogram addend = HistogramOf(random.Below(300), 5000, l, i);
            // The addend is the caller's.
            const auto counted = store.Merge(key, addend, producer, now);
            EXPECT_THAT(counted, IsOk());
          } else {
            const size_t n = random.Below(3000);
            std::vector<uint32_t> counts(n * l);
            for (uint32_t& count : counts) count = static_cast<uint32_t>(random.Below(5000));
            const SizeTable table = SizeTable::WithConsecutiveIds(n, l, counts, 0).value();
            EXPECT_THAT(store.Observe(key, table, producer, now), IsOk());
          }
          if (random.Below(8) == 0) store.Get(key.name, now).IgnoreError();
          if (random.Below(16) == 0) {
            EXPECT_THAT(store.Delete(key.name), IsOk());
          }
        }
        // What the callers have of their own: tables of 3000 sizes, addends of 300.
        EXPECT_LE(allocated.excess(), static_cast<int64_t>(2 * 3000 * l * sizeof(uint32_t) +
                                                           SizeHistogram::BytesFor(300, l)));
      }
      EXPECT_EQ(budget.held(), 0);
    }
  }
}

}  // namespace
}  // namespace packhouse
