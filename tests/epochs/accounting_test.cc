// What epochs and their plans reserve is what they hold, wherever memory runs out
// (tests/support/accounting.h).
#include "tests/support/accounting.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/epoch_items.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/gathered_rows.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/group_items.h"
#include "service/engine/epochs/made_dataset.h"
#include "service/engine/epochs/planning_room.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/epochs/segmented_plan.h"
#include "service/engine/epochs/size_classes.h"
#include "service/stores/datasets/reader_bytes.h"
#include "service/wings/graphs/epochs/sample_window.h"
#include "service/wings/graphs/epochs/sampled_dataset.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/graphs/epochs/size_estimate.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/partition/epochs/joined_epoch.h"
#include "service/wings/partition/epochs/part_graphs.h"
#include "service/wings/partition/epochs/part_links.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/epochs/parts_worlds.h"
#include "tests/support/source_graph_world.h"

namespace packhouse {
namespace {

// What the lists of a plan or an epoch are estimated to take beside what is counted: names, shapes.
constexpr AccountingOptions kEstimated = {.estimate_error = 24 << 10};
// An epoch does without its company.
constexpr AccountingOptions kWithCompany = {.may_do_without = true, .estimate_error = 24 << 10};

Making In(MemoryBudget* memory) { return Making(memory, nullptr); }

template <typename T>
uint64_t OwnBytes(const T& thing) {
  return thing.bytes();
}
template <typename T>
uint64_t PointeeBytes(const std::shared_ptr<const T>& thing) {
  return thing->bytes();
}

// Of what does not tell it itself: by another one, made with room for all.
template <typename Make>
uint64_t HeldBy(const Make& make) {
  MemoryBudget budget(UINT64_MAX);
  const auto made = make(&budget);
  EXPECT_THAT(made, IsOk());
  return budget.held();
}

// Each cache of a catalog keeps what nobody uses up to its bytes, and no more. `sums_of` an epoch:
// what it takes in each cache, the largest first. Returns what is held if none of them has room.
template <typename Prepare, typename Sums>
uint64_t ExpectKeptUpToItsBytes(const DatasetStore& store, const Prepare& prepare,
                                const Sums& sums_of) {
  EpochBounds bounds;
  bounds.planner_steps = 20'000;
  std::vector<uint64_t> sums;
  // Held with an epoch, and when it is gone, if each cache keeps so many bytes.
  const auto held_with = [&](uint64_t kept) {
    // All caches keep an eighth of the budget, and there are eight.
    MemoryBudget memory(64 * kept);
    EpochCatalog catalog(&store, bounds, &memory);
    auto epoch = prepare(catalog);
    EXPECT_THAT(epoch, IsOk()) << kept;
    if (epoch.ok()) sums = sums_of(**epoch);
    const uint64_t used = memory.held();
    epoch = absl::CancelledError("gone");
    return std::pair(used, memory.held());
  };
  uint64_t above = held_with(uint64_t{1} << 30).first;
  const std::vector<uint64_t> of_caches = sums;
  for (const uint64_t sum : of_caches) {
    EXPECT_EQ(held_with(sum).second, above) << sum;
    const uint64_t below = held_with(sum - 1).second;
    EXPECT_LT(below, above) << sum;
    above = below;
    EXPECT_EQ(sums, of_caches);
  }
  return above;
}

// More kinds of sizes, and more groups, than there is room for at first.
std::vector<uint32_t> ManySizes(size_t num_items) {
  Random random(3);
  std::vector<uint32_t> sizes;
  for (size_t i = 0; i < 2 * num_items; ++i) {
    sizes.push_back(static_cast<uint32_t>(random.Between(1, 60)));
  }
  return sizes;
}

TEST(EpochAccountingTest, SizeClasses) {
  const std::vector<uint32_t> sizes = ManySizes(6000);
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return SizeClasses::Create(NodesAndEdges(sizes), std::nullopt, In(memory));
      },
      OwnBytes<SizeClasses>);
}

TEST(EpochAccountingTest, DrawnBatches) {
  const std::vector<uint32_t> sizes = FewSizes(300, 1);
  const SizeClasses classes = SizeClasses::Create(NodesAndEdges(sizes)).value();
  const std::vector<Pattern> all = QuickPlan(classes, Limits::Create({20, 25, 9}).value()).patterns;
  // For several rank groups, the patterns of the one are dealt out.
  for (const size_t num_rank_groups : {1, 2, 5}) {
    SCOPED_TRACE(num_rank_groups);
    std::vector<std::vector<Pattern>> patterns(num_rank_groups);
    for (size_t i = 0; i < all.size(); ++i) patterns[i % num_rank_groups].push_back(all[i]);
    std::vector<uint64_t> ids(300);
    std::iota(ids.begin(), ids.end(), uint64_t{7});
    for (const bool is_grouped : {false, true}) {
      ExpectAccounted(
          [&](MemoryBudget* memory) {
            return DrawEpoch(classes, patterns, {3, 1},
                             is_grouped ? std::optional(absl::MakeConstSpan(ids)) : std::nullopt,
                             In(memory));
          },
          OwnBytes<EpochBatches>);
    }
  }
}

TEST(EpochAccountingTest, BatchesInOrder) {
  const std::vector<uint32_t> sizes = FewSizes(300, 1);
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return PackInOrder(NodesAndEdges(sizes), std::nullopt, Limits::Create({20, 25, 9}).value(),
                           4, In(memory));
      },
      OwnBytes<EpochBatches>);
}

TEST(EpochAccountingTest, Groups) {
  const std::vector<uint32_t> sizes = ManySizes(6000);
  std::vector<uint64_t> ids(6000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i % 2500;
  // With and without groups that are too large.
  for (const uint64_t nodes : {70, 100'000}) {
    ExpectAccounted(
        [&](MemoryBudget* memory) {
          return GroupItems::Create(NodesAndEdges(sizes), ids,
                                    Limits::Create({nodes, kUnlimited, kUnlimited}).value(),
                                    std::nullopt, 10, In(memory));
        },
        OwnBytes<GroupItems>);
  }
}

TEST(EpochAccountingTest, SelectionsAndTheirItems) {
  DatasetWorld world(60, 1, 9, /*num_groups=*/20);
  world.Seal();
  const auto reader = world.store().OpenReader("graphs").value();
  SubsetRequest subset;
  subset.ranges = {{1000, 40}};
  ExpectAccounted(
      [&](MemoryBudget* memory) { return GraphSelection::Create(*reader, subset, In(memory)); },
      [&](const GraphSelection&) { return sizeof(uint32_t) * reader->num_graphs(); });
  const GraphSelection selection = GraphSelection::Create(*reader, subset, Making()).value();
  const EpochRequest request = DatasetWorld::Request({100, 100, 60});
  PH_ASSERT_OK_AND_ASSIGN(const auto plan, EpochPlan::Make(reader, request, EpochBounds()));
  const auto bytes_of = [](const EpochItems& items) {
    return sizeof(uint32_t) * items.numbers.capacity() + (items.groups ? items.groups->bytes() : 0);
  };
  const std::vector<Limits> limits = {plan->shapes(0)[0].packed};
  const auto fitting = [&](MemoryBudget* memory) {
    return GraphsThatFit(*reader, SizesOfGraphs(*reader), selection, limits, plan->shapes(0)[0],
                         false, In(memory));
  };
  ExpectAccounted(fitting, bytes_of);
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return GroupsThatFit(*reader, selection, limits[0], false, In(memory));
      },
      bytes_of);
  for (const bool with_replacement : {false, true}) {
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<EpochItems> {
          PH_ASSIGN_OR_RETURN(EpochItems items, fitting(memory));
          PH_RETURN_IF_ERROR(DrawItems(
              WeightedDraw{std::vector<double>(selection.num_graphs(), 1.5), 30, with_replacement},
              {1, 2}, selection, In(memory), items));
          return items;
        },
        bytes_of);
  }
}

// All kinds of epochs of a data set: the plan, and an epoch of it.
TEST(EpochAccountingTest, PlansAndEpochs) {
  DatasetWorld world(80, 1, 12, /*num_groups=*/30);
  world.Seal();
  const auto reader = world.store().OpenReader("graphs").value();
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](std::string name, std::vector<uint64_t> capacities = {24, 30, 6}) {
    requests.emplace_back(std::move(name), DatasetWorld::Request(std::move(capacities)));
    return &requests.back().second;
  };
  add("shuffled");
  add("in order")->in_order = true;
  add("grouped", {80, 90, 20})->grouped = true;
  add("cut", {8, 8, 6})->cuts_oversize = true;
  EpochRequest* const above = add("above minimums");
  above->min_rows = MinRows({2, 2});
  above->padding = Padding::kTfgnn;
  add("drawn")->draw = WeightedDraw{{}, 200, true};
  add("several shapes")->rank_groups[0].shapes.push_back({12, 15, 6});
  EpochRequest* const ranks = add("unequal ranks");
  ranks->rank_groups.push_back({{{20, 26, 6}}, std::nullopt, 2});
  EpochRequest* const steps = add("in steps of like cost");
  steps->rank_groups[0].num_ranks = 3;
  steps->cost_balanced.emplace().cost =
      BatchCost::Create({{CostForm::kSumOfSquares, 0, 1}}, 2).value();
  add("by score")->by_score = ByScoreRequest{/*tensor=*/2};
  EpochRequest* const device = add("a device");
  device->rank_groups[0].shapes.clear();
  device->rank_groups[0].device.emplace();
  device->rank_groups[0].device->components = {
      {.max_rows = 30}, {.max_rows = 40}, {.max_rows = 8, .relative_cost = 0}};
  for (const auto& [name, request] : requests) {
    SCOPED_TRACE(name);
    EpochBounds bounds;
    bounds.planner_steps = 20'000;
    ExpectAccounted(
        [&](MemoryBudget* memory) { return EpochPlan::Make(reader, request, bounds, In(memory)); },
        PointeeBytes<EpochPlan>, kEstimated);
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<std::shared_ptr<const PreparedEpoch>> {
          PH_ASSIGN_OR_RETURN(auto plan, EpochPlan::Make(reader, request, bounds, In(memory)));
          return PreparedEpoch::Prepare(std::move(plan), request, bounds, In(memory));
        },
        PointeeBytes<PreparedEpoch>, kEstimated);
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<std::shared_ptr<const PreparedEpoch>> {
          PH_ASSIGN_OR_RETURN(auto plan, EpochPlan::Make(reader, request, bounds, In(memory)));
          PH_ASSIGN_OR_RETURN(auto epoch,
                              PreparedEpoch::Prepare(std::move(plan), request, bounds, In(memory)));
          PH_RETURN_IF_ERROR(epoch->MeasureCompany(In(memory)).status());
          return epoch;
        },
        PointeeBytes<PreparedEpoch>, kWithCompany);
    if (HasFailure()) return;
  }
}

TEST(EpochAccountingTest, Segments) {
  DatasetWorld world(600);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.segments = SegmentsRequest{300, 2};
  EpochBounds bounds;
  bounds.planner_steps = 20'000;
  const auto chunks = world.store().OpenChunks("graphs").value();
  // Without the sizes of all graphs together, the bound is a weaker one.
  AccountingOptions options = kEstimated;
  options.may_do_without = true;
  const auto plan_of = [&](MemoryBudget* memory) {
    return SegmentedPlan::Make(chunks, request, bounds, In(memory));
  };
  ExpectAccounted(plan_of, PointeeBytes<SegmentedPlan>, options);
  // Where the graphs are read to count the batches.
  request.subset = SubsetRequest{{1003, 1500}, {{1100, 400}}};
  ExpectAccounted(plan_of, PointeeBytes<SegmentedPlan>, options);
  request.segments->tracks = 1;
  request.in_order = true;
  ExpectAccounted(plan_of, PointeeBytes<SegmentedPlan>, options);
  request.in_order = false;
  request.draw = WeightedDraw{std::vector<double>(402, 1), 100, true};
  ExpectAccounted(plan_of, PointeeBytes<SegmentedPlan>, options);
  request = DatasetWorld::Request();
  request.segments = SegmentsRequest{300, 2};
  DeviceProfile device;
  device.components = {{1, 48, 4, 1, 1}, {1, 60, 4, 1, 1}, {1, 16, 1, 0, 0}};
  request.rank_groups = {{{}, device, 1}};
  ExpectAccounted(plan_of, PointeeBytes<SegmentedPlan>, options);
  request = DatasetWorld::Request();
  request.segments = SegmentsRequest{300, 2};
  PH_ASSERT_OK_AND_ASSIGN(const auto plan, plan_of(nullptr));
  ASSERT_GT(plan->layout().num_segments(), 1);
  ExpectAccounted([&](MemoryBudget* memory) { return plan->PlanOf(1, In(memory)); },
                  [&](const std::shared_ptr<const EpochPlan>& of_segment) {
                    return of_segment->bytes() + BytesOfReader(world.store().Get("graphs").value(),
                                                               of_segment->reader().num_graphs(),
                                                               plan->layout().chunks(1).size());
                  },
                  kEstimated);
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return SegmentedEpoch::Prepare(plan, request, bounds, In(memory), {});
      },
      [&](const std::shared_ptr<const SegmentedEpoch>&) {
        const uint64_t pieces = plan->counts().num_batches.size() + plan->num_tracks();
        return pieces * (3 * sizeof(SegmentPiece) + 4 * sizeof(uint64_t));
      });
}

TEST(EpochAccountingTest, WhatACatalogKeeps) {
  DatasetWorld world(600);
  world.Seal();
  const uint64_t of_reader = BytesOfReader(world.store().Get("graphs").value());
  const uint64_t left = ExpectKeptUpToItsBytes(
      world.store(), [](EpochCatalog& catalog) { return catalog.Prepare(DatasetWorld::Request()); },
      [&](const PreparedEpoch& epoch) {
        return std::vector{epoch.bytes() + of_reader, epoch.plan().bytes() + of_reader, of_reader};
      });
  EXPECT_EQ(left, 0U);
  EpochRequest request = DatasetWorld::Request();
  request.segments = SegmentsRequest{300, 2};
  // Where there is enough to make its plan, the plan has room.
  const uint64_t of_plan = ExpectKeptUpToItsBytes(
      world.store(), [&](EpochCatalog& catalog) { return catalog.PrepareSegmented(request); },
      [](const SegmentedEpoch& epoch) {
        return std::vector{epoch.bytes() + epoch.plan().bytes()};
      });
  EXPECT_GT(of_plan, 0U);
}

TEST(EpochAccountingTest, Windows) {
  const std::vector<uint32_t> sizes = FewSizes(300, 1);
  const auto schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  EpochRequest as_drawn;
  as_drawn.rank_groups.push_back({{{20, 25, 9}}, std::nullopt, 4});
  as_drawn.mixing.is_off = true;
  std::vector<EpochRequest> requests(6, as_drawn);
  requests[1].mixing.is_off = false;
  requests[2].in_order = true;
  requests[3].cost_balanced.emplace().cost =
      BatchCost::Create({{CostForm::kSumOfSquares, 0, 1}}, 2).value();
  requests[4].by_score.emplace();
  requests[5].rank_groups.push_back({{{40, 40, 9}}, std::nullopt, 2});
  for (const EpochRequest& request : requests) {
    const bool has_smaller = !request.mixing.is_off;
    ExpectAccounted(
        [&](MemoryBudget* memory) {
          return PlanWindow(
              300, schema, request, EpochBounds(), In(memory),
              [&](size_t item) -> absl::StatusOr<DrawnSize> {
                const uint32_t level = has_smaller && item % 7 == 0 ? 2 : 0;
                return DrawnSize{absl::MakeConstSpan(sizes).subspan(2 * item, 2), level};
              });
        },
        [](const SampleWindow& window) {
          return window.batches().bytes() +
                 sizeof(std::pair<uint32_t, uint32_t>) * window.levels.capacity();
        });
  }
}

class SampledAccountingTest : public ::testing::Test {
 protected:
  SampledAccountingTest() {
    SubGraphsRequest sub_graphs;
    sub_graphs.graph = "g";
    sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(3, 2)).value();
    source_ = SubGraphSource::Create(graphs_.Open("g").value(), sub_graphs).value();
    request_.key = {"job", 0};
    request_.seed = 3;
    request_.rank_groups.push_back({{{60, 80, 8}}, std::nullopt, 1});
    request_.padding = Padding::kMasked;
    SetSamples(/*exact_steps=*/false);
  }

  void SetSamples(bool exact_steps) {
    const auto samples = std::make_shared<SamplesRequest>();
    samples->source = source_;
    samples->window = 20;
    samples->exact_steps = exact_steps;
    request_.kinds = {samples};
  }

  OneGraphStore graphs_{SmallSourceGraph(60)};
  std::shared_ptr<const SubGraphSource> source_;
  EpochRequest request_;
};

TEST_F(SampledAccountingTest, Drawers) {
  ExpectAccounted(
      [&](MemoryBudget* memory) { return SubGraphDrawer::Create(source_, memory, nullptr); },
      [&](const SubGraphDrawer&) {
        const Sampler& sampler = source_->sampler();
        return sampler.DrawBytes(sampler.UpperBound(source_->nodes_per_graph()));
      });
}

TEST_F(SampledAccountingTest, Epochs) {
  // Before its windows are planned.
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return SampledEpoch::Prepare(
            source_, request_, EpochBounds(), In(memory), nullptr,
            [](const std::shared_ptr<const LoadableEpoch>&) { return absl::OkStatus(); });
      },
      PointeeBytes<SampledEpoch>, kEstimated);
  // With them, it keeps what draws: the same whoever makes it.
  for (const bool exact_steps : {false, true}) {
    SetSamples(exact_steps);
    const auto prepare = [&](MemoryBudget* memory) {
      return SampledEpoch::Prepare(source_, request_, EpochBounds(), In(memory), nullptr, nullptr);
    };
    ExpectAccounted(prepare,
                    [&](const std::shared_ptr<const SampledEpoch>&) { return HeldBy(prepare); });
  }
}

TEST_F(SampledAccountingTest, Batches) {
  // The memory of a batch's sub-graphs is held while it is made.
  for (const bool whole_graphs : {false, true}) {
    request_.whole_graphs = whole_graphs;
    SetSamples(/*exact_steps=*/true);
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<uint64_t> {
          PH_ASSIGN_OR_RETURN(const auto epoch,
                              SampledEpoch::Prepare(source_, request_, EpochBounds(), In(memory),
                                                    nullptr, nullptr));
          const uint64_t before = memory->held();
          for (uint64_t number = 0; number < epoch->Counts()[0]; ++number) {
            PH_RETURN_IF_ERROR(epoch->Build(number).status());
          }
          EXPECT_EQ(memory->held(), before);
          return 0;
        },
        [](uint64_t none) { return none; });
  }
}

TEST_F(SampledAccountingTest, Estimates) {
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return EstimateSizes(source_, SeedList(), {3, 1}, 40, In(memory), nullptr);
      },
      [](const SizeEstimate&) { return SizeHistogram::BytesFor(40, 2) + 40 * 40; });
}

TEST_F(SampledAccountingTest, DataSets) {
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<uint64_t> {
        MemoryDatasetStore store(uint64_t{1} << 30);
        SampledDatasetRequest request;
        request.dataset = "drawn";
        PH_RETURN_IF_ERROR(MakeSampledDataset(source_, request, store, In(memory), nullptr,
                                              [](const SampledDatasetProgress&) {})
                               .status());
        // A second call looks at what is there.
        PH_RETURN_IF_ERROR(MakeSampledDataset(source_, request, store, In(memory), nullptr,
                                              [](const SampledDatasetProgress&) {})
                               .status());
        return 0;
      },
      [](uint64_t none) { return none; });
}

class PartsAccountingTest : public ::testing::Test {
 protected:
  PartsWorld world_{/*seed=*/0};
  std::shared_ptr<const DatasetReader> reader_ = world_.store().OpenReader("parts").value();
  PartsSchema schema_ = PartsSchema::Of(*reader_->info().schema).value();
};

TEST_F(PartsAccountingTest, Links) {
  ExpectAccounted(
      [&](MemoryBudget* memory) { return PartLinks::Read(*reader_, schema_, In(memory)); },
      OwnBytes<PartLinks>);
}

TEST_F(PartsAccountingTest, JoinedEpochs) {
  const EpochRequest request = world_.Request(world_.HalfOfAll());
  const auto prepare = [&](MemoryBudget* memory) {
    return JoinedEpoch::Prepare(
        reader_, request, EpochBounds(), In(memory),
        [&](const PartsSchema& schema) -> absl::StatusOr<std::shared_ptr<const PartLinks>> {
          PH_ASSIGN_OR_RETURN(PartLinks links, PartLinks::Read(*reader_, schema, In(memory)));
          return std::make_shared<const PartLinks>(std::move(links));
        });
  };
  ExpectAccounted(prepare, PointeeBytes<JoinedEpoch>, kEstimated);
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<std::shared_ptr<const JoinedEpoch>> {
        PH_ASSIGN_OR_RETURN(auto epoch, prepare(memory));
        const uint64_t before = memory->held();
        PH_RETURN_IF_ERROR(epoch->Build(0).status());
        EXPECT_EQ(memory->held(), before);
        return epoch;
      },
      PointeeBytes<JoinedEpoch>, kEstimated);
}

TEST_F(PartsAccountingTest, WhatACatalogKeeps) {
  const EpochRequest request = world_.Request(world_.HalfOfAll());
  const uint64_t left = ExpectKeptUpToItsBytes(
      world_.store(), [&](EpochCatalog& catalog) { return catalog.PrepareKind(request); },
      [&](const LoadableEpoch& epoch) {
        const auto& joined = static_cast<const JoinedEpoch&>(epoch);
        const uint64_t of_reader = BytesOfReader(reader_->info());
        std::vector<uint64_t> sums = {joined.bytes() + of_reader, joined.links().bytes(),
                                      of_reader};
        std::sort(sums.rbegin(), sums.rend());
        return sums;
      });
  EXPECT_EQ(left, 0U);
}

TEST_F(PartsAccountingTest, PartsOfASourceGraph) {
  for (const bool halo : {false, true}) {
    PartGraphsOptions options;
    options.halo = halo;
    const std::shared_ptr<const SourceGraph> source = RandomSourceGraph(0);
    const auto create = [&](MemoryBudget* memory) {
      return PartGraphs::Create(source, world_.part(), kParts, options, In(memory));
    };
    ExpectAccounted(create, [&](const std::unique_ptr<PartGraphs>&) { return HeldBy(create); });
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<uint64_t> {
          PH_ASSIGN_OR_RETURN(const auto parts, create(nullptr));
          MemoryDatasetStore store(uint64_t{1} << 30);
          PH_RETURN_IF_ERROR(
              MakePartDataset(*parts, {"parts", 0, "parts"}, store, In(memory), [](uint64_t) {
              }).status());
          return 0;
        },
        [](uint64_t none) { return none; });
  }
}

// The pieces of a batch are held as long as they are there.
TEST(EpochAccountingTest, PiecesOfABatch) {
  DatasetWorld world(40, 1, 12);
  world.Seal();
  const auto reader = world.store().OpenReader("graphs").value();
  EpochRequest request = DatasetWorld::Request({8, 8, 6});
  request.cuts_oversize = true;
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<std::shared_ptr<const PreparedEpoch>> {
        PH_ASSIGN_OR_RETURN(auto plan, EpochPlan::Make(reader, request, EpochBounds(), In(memory)));
        PH_ASSIGN_OR_RETURN(auto epoch, PreparedEpoch::Prepare(std::move(plan), request,
                                                               EpochBounds(), In(memory)));
        const uint64_t before = memory->held();
        PH_RETURN_IF_ERROR(epoch->Build(0).status());
        EXPECT_EQ(memory->held(), before);
        return epoch;
      },
      PointeeBytes<PreparedEpoch>, kWithCompany);
}

// More than was reserved to look for it.
TEST(EpochAccountingTest, APlanThatIsKept) {
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<MemoryHold> {
        const Making making = In(memory);
        PlanningRoom room(making, /*num_distinct=*/10, /*num_components=*/2);
        PH_RETURN_IF_ERROR(room.HoldPlans());
        return room.Keep(kBytes);
      },
      [&](const MemoryHold&) { return kBytes; });
}

}  // namespace
}  // namespace packhouse
