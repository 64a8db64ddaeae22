#include "service/engine/epochs/epoch_plan.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/uncollate.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/request_check.h"
#include "service/stores/datasets/mixed_datasets.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Graph ids by batch, in order, checked for what must hold of every epoch: graphs are as they were
// appended, batches keep the usable limits of their shape and have its rows, summaries add up, and
// a batch has the same bytes when it is built again.
std::vector<std::vector<uint64_t>> CheckedBatches(const DatasetWorld& world,
                                                  const PreparedEpoch& epoch) {
  std::vector<std::vector<uint64_t>> all;
  const EpochPlan& plan = epoch.plan();
  uint64_t num_graphs = 0;
  for (size_t rank_group = 0; rank_group < plan.num_rank_groups(); ++rank_group) {
    std::vector<uint64_t> batches_of_shape(plan.shapes(rank_group).size());
    std::vector<std::vector<uint64_t>> rows_of_shape(plan.shapes(rank_group).size(),
                                                     std::vector<uint64_t>(3));
    for (uint64_t i = 0; i < plan.num_batches(rank_group); ++i) {
      const uint64_t number = all.size();
      const auto built = epoch.Build(number);
      EXPECT_THAT(built, IsOk());
      if (!built.ok()) return all;
      const Batch& batch = built->batch;
      const BatchShape& shape = plan.shapes(rank_group)[built->shape];
      EXPECT_TRUE(shape.Takes(batch.real_rows)) << "batch " << number;
      if (built->shape + 1 < plan.shapes(rank_group).size()) {
        EXPECT_FALSE(plan.shapes(rank_group)[built->shape + 1].Takes(batch.real_rows));
      }
      for (size_t k = 0; k < batch.rows.size(); ++k) {
        EXPECT_EQ(batch.rows[k], shape.layout.RowsFor(batch.real_rows)[k]);
        rows_of_shape[built->shape][k] += batch.real_rows[k];
      }
      ++batches_of_shape[built->shape];
      EXPECT_EQ(epoch.NumGraphs(number), batch.graph_ids.size());
      num_graphs += batch.graph_ids.size();
      // Drawn with replacement, a graph may be in a batch twice: places tell them apart.
      Batch by_place = batch;
      std::iota(by_place.graph_ids.begin(), by_place.graph_ids.end(), 0);
      const auto graphs = Uncollate(&world.schema(), by_place);
      EXPECT_THAT(graphs, IsOk());
      if (!graphs.ok()) return all;
      for (size_t g = 0; g < graphs->num_graphs(); ++g) {
        EXPECT_TRUE(world.IsAsAppended(batch.graph_ids[g], *graphs, g))
            << "batch " << number << " graph " << g;
      }
      const BuiltBatch again = epoch.Build(number).value();
      EXPECT_EQ(again.batch.graph_ids, batch.graph_ids);
      for (size_t t = 0; t < batch.tensors.size(); ++t) {
        EXPECT_EQ(again.batch.tensors[t].data, batch.tensors[t].data);
      }
      all.push_back(batch.graph_ids);
    }
    for (size_t shape = 0; shape < batches_of_shape.size(); ++shape) {
      const ShapeSummary& summary = epoch.summaries(rank_group)[shape];
      EXPECT_EQ(summary.num_batches, batches_of_shape[shape]);
      for (size_t k = 0; k < 3 && summary.num_batches != 0; ++k) {
        const uint64_t capacity = plan.shapes(rank_group)[shape].capacities[k];
        if (capacity == kUnlimited) continue;
        EXPECT_DOUBLE_EQ(summary.components[k].efficiency,
                         static_cast<double>(rows_of_shape[shape][k]) /
                             static_cast<double>(summary.num_batches * capacity));
      }
    }
  }
  EXPECT_EQ(all.size(), epoch.identity().num_batches());
  EXPECT_EQ(num_graphs, plan.num_graphs());
  return all;
}

std::vector<uint64_t> Flat(const std::vector<std::vector<uint64_t>>& batches) {
  std::vector<uint64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

std::vector<uint64_t> Sorted(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<uint64_t> IdsFrom(uint64_t first, size_t count) {
  std::vector<uint64_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = first + i;
  return ids;
}

KeptPlannerResult Kept(const PreparedEpoch& epoch) {
  const std::shared_ptr<const PlannerResult> planned = epoch.plan().planned();
  return {planned->receipt, planned->dataset_version, [planned] { return planned; }};
}

// Asks a new catalog each time: nothing is remembered from one call to the next.
absl::StatusOr<std::shared_ptr<const PreparedEpoch>> PrepareFresh(DatasetWorld& world,
                                                                  const EpochRequest& request,
                                                                  const EpochBounds& bounds = {}) {
  EpochCatalog catalog(&world.store(), bounds);
  return catalog.Prepare(request);
}

TEST(EpochPlanTest, EveryGraphIsInOneBatchWhateverTheSeedEpochAndPadding) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    DatasetWorld world(40 + 7 * seed, seed);
    world.Seal();
    EpochRequest request = DatasetWorld::Request({24, 30, 6}, seed % 3);
    request.seed = seed;
    request.padding = static_cast<Padding>(seed % 3);
    request.derived = {true, true, true, request.padding != Padding::kNone};
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
    EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *epoch))), IdsFrom(1000, world.num_graphs()));
    EXPECT_EQ(epoch->plan().num_oversize(), 0);
    EXPECT_GE(epoch->identity().num_batches(), epoch->plan().lower_bound());
    EXPECT_GT(epoch->plan().lower_bound(), 0);
  }
}

TEST(EpochPlanTest, SameRequestSameBatchesAnotherEpochAnotherComposition) {
  DatasetWorld world(90);
  world.Seal();
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, DatasetWorld::Request()));
  PH_ASSERT_OK_AND_ASSIGN(const auto same, PrepareFresh(world, DatasetWorld::Request()));
  EXPECT_EQ(CheckedBatches(world, *epoch), CheckedBatches(world, *same));
  EXPECT_EQ(epoch->identity(), same->identity());

  PH_ASSERT_OK_AND_ASSIGN(const auto next,
                          PrepareFresh(world, DatasetWorld::Request({24, 30, 6}, 1)));
  EXPECT_NE(CheckedBatches(world, *epoch), CheckedBatches(world, *next));
  EXPECT_EQ(epoch->identity().num_batches(), next->identity().num_batches());
  EpochRequest other_seed = DatasetWorld::Request();
  other_seed.seed = 4;
  PH_ASSERT_OK_AND_ASSIGN(const auto other, PrepareFresh(world, other_seed));
  EXPECT_NE(CheckedBatches(world, *epoch), CheckedBatches(world, *other));
}

TEST(EpochPlanTest, InOrderIsTheOrderOfTheDataSet) {
  DatasetWorld world(60);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.in_order = true;
  request.look_ahead = 1;
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  EXPECT_EQ(Flat(CheckedBatches(world, *epoch)), IdsFrom(1000, 60));
  request.look_ahead = 16;
  PH_ASSERT_OK_AND_ASSIGN(const auto ahead, PrepareFresh(world, request));
  EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *ahead))), IdsFrom(1000, 60));
  EXPECT_LE(ahead->identity().num_batches(), epoch->identity().num_batches());
  request.key.epoch = 5;
  PH_ASSERT_OK_AND_ASSIGN(const auto later, PrepareFresh(world, request));
  EXPECT_EQ(CheckedBatches(world, *ahead), CheckedBatches(world, *later));
}

TEST(EpochPlanTest, ASubsetIsAllOfItAndNothingElse) {
  DatasetWorld world(60);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.subset = SubsetRequest{{1059, 1003, 1001}, {{1010, 5}, {1020, 1}, {5000, 3}}};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *epoch))),
            (std::vector<uint64_t>{1001, 1003, 1010, 1011, 1012, 1013, 1014, 1020, 1059}));
  // In other words, the same.
  EpochRequest reordered = request;
  reordered.subset = SubsetRequest{{1001, 1059, 1003}, {{5000, 3}, {1010, 5}, {1020, 1}}};
  EXPECT_EQ(request.Words(), reordered.Words());
  reordered.subset->ids.pop_back();
  EXPECT_NE(request.Words(), reordered.Words());

  request.subset = SubsetRequest{{1001, 2000}, {}};
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no graph with id 2000")));
  request.subset = SubsetRequest{{1001, 1001}, {}};
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1001 is listed twice")));
  for (const auto& ranges : std::vector<std::vector<std::pair<uint64_t, uint64_t>>>{
           {{5, 0}}, {{UINT64_MAX, 2}}, {{5, 10}, {14, 2}}}) {
    request.subset = SubsetRequest{{}, ranges};
    EXPECT_THAT(PrepareFresh(world, request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("range")));
  }
}

TEST(EpochPlanTest, SamplesAreDrawnAnewEachEpoch) {
  DatasetWorld world(50);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.subset = SubsetRequest{{}, {{1000, 20}}};
  request.draw = WeightedDraw{std::vector<double>(20, 1), 8, false};
  request.draw->weights[3] = 0;
  std::set<std::vector<uint64_t>> drawn;
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    request.key.epoch = epoch;
    PH_ASSERT_OK_AND_ASSIGN(const auto prepared, PrepareFresh(world, request));
    const std::vector<uint64_t> ids = Sorted(Flat(CheckedBatches(world, *prepared)));
    EXPECT_EQ(ids.size(), 8);
    EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), 8);
    for (const uint64_t id : ids) EXPECT_TRUE(id >= 1000 && id < 1020 && id != 1003) << id;
    drawn.insert(ids);
  }
  EXPECT_GT(drawn.size(), 4);

  request.draw = WeightedDraw{std::vector<double>(20, 0), 30, true};
  request.draw->weights[5] = 0.25;
  PH_ASSERT_OK_AND_ASSIGN(const auto one, PrepareFresh(world, request));
  EXPECT_EQ(Flat(CheckedBatches(world, *one)), std::vector<uint64_t>(30, 1005));

  request.draw->weights.pop_back();
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weights: 19, there are 20")));
}

TEST(EpochPlanTest, GroupsStayTogetherAndKeepTheirOrder) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    DatasetWorld world(70, seed, 5, 30);
    world.Seal();
    EpochRequest request = DatasetWorld::Request({40, 40, 12}, seed);
    request.grouped = true;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
    std::map<uint64_t, std::vector<uint64_t>> expected;
    for (size_t i = 0; i < 70; ++i) expected[world.group_ids()[i]].push_back(1000 + i);
    std::map<uint64_t, std::vector<uint64_t>> found;
    for (const std::vector<uint64_t>& batch : CheckedBatches(world, *epoch)) {
      for (size_t i = 0; i < batch.size(); ++i) {
        const uint64_t group = world.group_ids()[batch[i] - 1000];
        // Next to each other: a group begins once.
        if (i == 0 || world.group_ids()[batch[i - 1] - 1000] != group) {
          EXPECT_FALSE(found.contains(group)) << "group " << group << " is split";
        }
        found[group].push_back(batch[i]);
      }
    }
    uint64_t left_out = 0;
    for (const auto& [group, ids] : expected) {
      if (found.contains(group)) {
        EXPECT_EQ(found[group], ids);
      } else {
        left_out += ids.size();
      }
    }
    EXPECT_EQ(left_out, epoch->plan().num_oversize());
  }
}

// Graphs beyond the limits are cut: each row of each graph is owned by one piece in one batch, and
// other graphs come whole.
TEST(EpochPlanTest, PiecesAreItemsLikeGraphs) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    DatasetWorld world(60, seed, 30);
    world.Seal();
    EpochRequest request = DatasetWorld::Request({14, 12, 4}, seed);
    request.cuts_oversize = true;
    request.in_order = seed % 2 == 1;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
    PH_ASSERT_OK_AND_ASSIGN(const auto again, PrepareFresh(world, request));
    EXPECT_EQ(epoch->identity(), again->identity());
    EXPECT_GT(epoch->plan().num_cut_graphs(), 0);
    EXPECT_EQ(epoch->plan().num_oversize(), 0);
    std::map<uint64_t, std::set<uint32_t>> nodes;
    std::map<uint64_t, std::set<uint32_t>> edges;
    std::map<uint64_t, size_t> pieces;
    for (uint64_t number = 0; number < epoch->identity().num_batches(); ++number) {
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(number));
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch same, again->Build(number));
      PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, Uncollate(&epoch->schema(), built.batch));
      EXPECT_EQ(built.batch.graph_ids, same.batch.graph_ids);
      for (size_t t = 0; t < built.batch.tensors.size(); ++t) {
        EXPECT_EQ(built.batch.tensors[t].data, same.batch.tensors[t].data);
      }
      const auto tensor = [&](const char* name) { return *chunk.schema().TensorIndex(name); };
      for (size_t i = 0; i < chunk.num_graphs(); ++i) {
        const uint64_t id = chunk.sizes().graph_id(i);
        ++pieces[id];
        for (const auto& [set, component] : {std::pair(&nodes, "nodes"), {&edges, "edges"}}) {
          const std::string rows(chunk.rows(i, tensor((component + std::string(".#row")).c_str())));
          const auto inner = chunk.rows(i, tensor((component + std::string(".#inner")).c_str()));
          for (size_t r = 0; r < inner.size(); ++r) {
            uint32_t row;
            std::memcpy(&row, rows.data() + r * sizeof(row), sizeof(row));
            if (inner[r] == 0) continue;
            EXPECT_TRUE((*set)[id].insert(row).second) << id << " " << row;
          }
        }
      }
    }
    const auto reader = world.store().OpenReader("graphs").value();
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_EQ(nodes[1000 + i].size(), reader->counts()[2 * i]);
      EXPECT_EQ(edges[1000 + i].size(), reader->counts()[2 * i + 1]);
      const bool fits = reader->counts()[2 * i] <= 14 && reader->counts()[2 * i + 1] <= 12;
      EXPECT_EQ(pieces[1000 + i] == 1, fits);
    }
  }
}

TEST(EpochPlanTest, AGroupThatCannotFitIsNamed) {
  DatasetWorld world(30, 1, 5, 1);
  world.Seal();
  EpochRequest request = DatasetWorld::Request({400, 400, 12});
  request.grouped = true;
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  EXPECT_EQ(epoch->identity().num_batches(), 0);
  EXPECT_EQ(epoch->plan().num_oversize(), 30);
  ASSERT_EQ(epoch->plan().oversize().size(), 1);
  EXPECT_EQ(epoch->plan().oversize()[0], (OversizeItem{500, 2, 30, 12}));
  request.oversize_is_error = true;
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "group 500: 30 rows of 'graphs', at most 12 fit a batch"));
}

TEST(EpochPlanTest, SeveralShapesTakeWhatTheyCan) {
  DatasetWorld world(120, 5, 12);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.rank_groups[0].shapes = {{64, 64, 16}, {20, 24, 8}, {14, 10, 4}};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *epoch))), IdsFrom(1000, 120));
  // Padding costs least in the smallest.
  EXPECT_EQ(epoch->BuildPadding(0).value().batch.rows, (std::vector<uint64_t>{14, 10, 4}));

  request.rank_groups[0].shapes = {{20, 24, 8}, {64, 64, 16}};
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("shape 1 takes all that shape 0 takes, and has 64 rows of 'nodes' "
                                 "where that has 20: the larger one must come first")));
  // Neither takes all that the other takes, and a third is within one of them.
  request.rank_groups[0].shapes = {{64, 12, 16}, {12, 64, 16}, {8, 20, 4}};
  PH_ASSERT_OK_AND_ASSIGN(const auto crossing, PrepareFresh(world, request));
  EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *crossing))), IdsFrom(1000, 120));
  request.rank_groups[0].shapes = {{64, 12, 16}, {8, 20, 4}, {12, 64, 16}};
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("shape 2 takes all that shape 1 takes")));
}

// The memory takes graphs of many nodes or of many edges, and not both in one shape: with enough
// shapes every graph that fits some is in one batch, within its shape and within the memory; what
// fits none is told. With fewer shapes, what does not fit is told too.
TEST(EpochPlanTest, EveryGraphThatFitsAnAllowedShapeIsInOneBatch) {
  int several = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    DatasetWorld world(random.Between(20, 60), seed);
    world.Seal();
    EpochRequest request = DatasetWorld::Request();
    request.oversize_is_error = false;
    request.padding = random.Below(2) == 0 ? Padding::kMasked : Padding::kGraph;
    DeviceProfile device;
    device.components = {{1, 40, random.Between(1, 2), 1, 1},
                         {1, 40, random.Between(1, 2), random.Between(1, 2), 1},
                         {1, 0, 1, 0, 0}};
    device.memory_bytes = random.Between(12, 22);
    device.max_distinct_shapes = static_cast<uint32_t>(random.Between(2, 8));
    request.rank_groups = {{{}, device, 1}};
    const auto prepared = PrepareFresh(world, request);
    PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile padded,
                            ProfileForPadding(device, world.schema(), request.padding, 65536));
    ASSERT_THAT(prepared, IsOk());
    const EpochPlan& plan = (*prepared)->plan();
    std::vector<uint64_t> fitting;
    for (size_t i = 0; i < plan.reader().num_graphs(); ++i) {
      if (ExcessOverProfile(SizesOfGraphs(plan.reader()).tuple(i), padded)) continue;
      fitting.push_back(plan.reader().graph_ids()[i]);
    }
    const auto shapes = plan.shapes(0);
    several += shapes.size() > 1 && !shapes[0].Takes(shapes[1].usable.capacities()) ? 1 : 0;
    EXPECT_LE(shapes.size(), device.max_distinct_shapes);
    for (const BatchShape& shape : shapes) {
      EXPECT_LE(shape.capacities[0] * device.components[0].bytes_per_row +
                    shape.capacities[1] * device.components[1].bytes_per_row,
                device.memory_bytes);
    }
    const std::vector<uint64_t> delivered = Sorted(Flat(CheckedBatches(world, **prepared)));
    EXPECT_EQ(delivered.size() + plan.num_oversize(), world.num_graphs());
    EXPECT_TRUE(std::includes(fitting.begin(), fitting.end(), delivered.begin(), delivered.end()));
    // Sums of nodes and edges of at most 18 have at most 8 kinds that no other takes.
    if (device.max_distinct_shapes == 8) {
      EXPECT_EQ(delivered, fitting);
    }
    // The same plan, kept, is one for these shapes.
    EpochCatalog catalog(&world.store(), {});
    PH_ASSERT_OK_AND_ASSIGN(const auto again, catalog.Prepare(request, {}, Kept(**prepared)));
    EXPECT_EQ(again->identity(), (*prepared)->identity());
    if (HasFailure()) return;
  }
  EXPECT_GT(several, 15);
}

TEST(EpochPlanTest, ADeviceGetsLimitsItCanHold) {
  DatasetWorld world(150, 6);
  world.Seal();
  for (const Padding padding : {Padding::kMasked, Padding::kGraph}) {
    EpochRequest request = DatasetWorld::Request();
    request.padding = padding;
    DeviceProfile device;
    device.components = {{1, 128, 8, 4, 1}, {1, 256, 8, 8, 1}, {1, 16, 1, 0, 0}};
    device.memory_bytes = 4096;
    device.max_distinct_shapes = 2;
    request.rank_groups = {{{}, device, 1}};
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
    EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *epoch))), IdsFrom(1000, 150));
    for (const BatchShape& shape : epoch->plan().shapes(0)) {
      EXPECT_EQ(shape.capacities[0] % 8, 0);
      EXPECT_TRUE(FitsMemory(device, shape.capacities));
    }
  }
}

// Trainers compile anew for each shape: present limits stay unless others are better by more than a
// little. They go where the device no longer holds them, although they would cost less.
TEST(EpochPlanTest, PresentLimitsStayWhileTheDeviceHoldsThem) {
  DatasetWorld world(300);
  world.Seal();
  DeviceProfile device;
  device.components.resize(3);
  for (ComponentProfile& component : device.components) {
    component.max_rows = 64;
    component.relative_cost = 0;
  }
  device.components[0].bytes_per_row = 100;
  device.components[0].relative_cost = 1;
  device.fixed_cost = 1000;  // The larger the batches, the better.
  device.measured_as = "gin/sim";
  EpochRequest request = DatasetWorld::Request();
  request.rank_groups[0] = {{}, device, 1};
  request.adaptive = true;
  const auto prepared = [&](uint64_t memory_bytes, std::vector<uint64_t> present) {
    request.rank_groups[0].measured = device;
    request.rank_groups[0].measured->memory_bytes = memory_bytes;
    request.rank_groups[0].present = {std::move(present)};
    return PrepareFresh(world, request).value();
  };
  const std::vector<uint64_t> large = {62, 64, 64};
  for (const uint64_t memory_bytes : {6300, 6200}) {
    const auto epoch = prepared(memory_bytes, large);
    EXPECT_EQ(epoch->shapes(0)[0].capacities, large);
    EXPECT_THAT(epoch->plan().why_shapes(), HasSubstr("others save"));
  }
  const auto smaller = prepared(6199, large);
  EXPECT_LT(smaller->shapes(0)[0].capacities[0], 62U);
  EXPECT_THAT(smaller->plan().why_shapes(),
              "the limits before no longer fit what was measured as gin/sim");
  const auto better = prepared(0, large);
  EXPECT_GT(better->shapes(0)[0].capacities[0], 62U);
  EXPECT_THAT(better->plan().why_shapes(), HasSubstr("others save"));
}

TEST(EpochPlanTest, EachRankGroupGetsBatchesThatFitIt) {
  DatasetWorld world(200, 8);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.rank_groups = {{{{64, 64, 20}}, std::nullopt, 2}, {{{20, 24, 6}}, std::nullopt, 3}};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  EXPECT_EQ(Sorted(Flat(CheckedBatches(world, *epoch))), IdsFrom(1000, 200));
  EXPECT_EQ(epoch->identity().rank_groups[0].planned_ranks, 2);
  EXPECT_EQ(epoch->identity().rank_groups[1].planned_ranks, 3);
}

TEST(EpochPlanTest, WhatDoesNotFitIsCountedOrAnError) {
  DatasetWorld world(80, 2);
  world.Seal();
  EpochRequest request = DatasetWorld::Request({5, 5, 3});
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  const std::vector<uint64_t> ids = Flat(CheckedBatches(world, *epoch));
  EXPECT_EQ(ids.size() + epoch->plan().num_oversize(), 80);
  EXPECT_EQ(epoch->plan().oversize().size(), std::min<uint64_t>(epoch->plan().num_oversize(), 100));
  for (const OversizeItem& item : epoch->plan().oversize()) EXPECT_GT(item.value, item.bound);
  request.oversize_is_error = true;
  const OversizeItem& first = epoch->plan().oversize()[0];
  EXPECT_EQ(PrepareFresh(world, request).status(),
            absl::OutOfRangeError(absl::StrCat("graph ", first.id, ": ", first.value, " rows of '",
                                               first.component == 0 ? "nodes" : "edges",
                                               "', at most 5 fit a batch")));
  // Below a least number of rows, too.
  request = DatasetWorld::Request({24, 30, 6});
  request.min_rows = MinRows({3, 3});
  request.padding = Padding::kTfgnn;
  request.oversize_is_error = true;
  EXPECT_THAT(
      PrepareFresh(world, request),
      StatusIs(absl::StatusCode::kOutOfRange, testing::EndsWith("', at least 3 are needed")));
}

// What is told of a graph that is left out is the graph's own size, not what it counts as, and on
// which side of its bound it lies.
TEST(EpochPlanTest, WhatIsLeftOutIsToldWithItsOwnSize) {
  DatasetWorld world(80, 2);
  world.Seal();
  const auto reader = world.store().OpenReader("graphs").value();
  EpochRequest above = DatasetWorld::Request({24, 30, 6});
  above.min_rows = MinRows({3, 3});
  above.padding = Padding::kTfgnn;
  // Two nodes that an edge joins are in one piece.
  EpochRequest cut = DatasetWorld::Request({1, 12, 4});
  cut.cuts_oversize = true;
  const EpochRequest beyond = DatasetWorld::Request({5, 5, 3});
  for (const EpochRequest& request : {above, cut, beyond}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
    EXPECT_GT(epoch->plan().oversize().size(), 4U);
    for (const OversizeItem& item : epoch->plan().oversize()) {
      ASSERT_LT(item.component, 2U);
      EXPECT_EQ(item.value, reader->counts()[2 * (item.id - 1000) + item.component]) << item.id;
      EXPECT_EQ(item.is_too_small, item.value < item.bound) << item.id;
      EXPECT_NE(item.value, item.bound) << item.id;
    }
  }
}

TEST(EpochPlanTest, NoBatchOutgrowsAMessage) {
  DatasetWorld world(80, 2);
  world.Seal();
  EpochBounds bounds;
  bounds.max_batch_bytes = 200;
  EXPECT_THAT(PrepareFresh(world, DatasetWorld::Request(), bounds),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 200")));
  // Ragged: real batches count, not what they could be.
  EpochRequest request = DatasetWorld::Request({kUnlimited, 30, kUnlimited});
  request.padding = Padding::kNone;
  EXPECT_THAT(PrepareFresh(world, request, bounds),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 200")));
  bounds.max_batch_bytes = 1000;
  EXPECT_THAT(PrepareFresh(world, request, bounds), IsOk());
}

TEST(EpochPlanTest, SizesOnlyHaveNoTensors) {
  DatasetWorld world(20);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.whole_graphs = false;
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  const BuiltBatch built = epoch->Build(0).value();
  EXPECT_TRUE(built.batch.tensors.empty());
  EXPECT_FALSE(built.batch.graph_ids.empty());
}

TEST(EpochPlanTest, AnEmptyDataSetHasNoBatches) {
  DatasetWorld world(0);
  world.Seal();
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, DatasetWorld::Request()));
  EXPECT_EQ(epoch->identity().num_batches(), 0);
}

TEST(EpochPlanTest, RefusesWhatExcludesItself) {
  DatasetWorld open(20);
  EXPECT_THAT(PrepareFresh(open, DatasetWorld::Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not sealed")));
  DatasetWorld world(20);
  world.Seal();
  EpochRequest request = DatasetWorld::Request();
  request.grouped = true;
  EXPECT_THAT(PrepareFresh(world, request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no group ids")));
  request = DatasetWorld::Request();
  request.dataset = "nothing";
  EXPECT_THAT(PrepareFresh(world, request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  const auto refused = [&world](EpochRequest wrong, absl::string_view why) {
    EXPECT_THAT(PrepareFresh(world, wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(why))));
  };
  request = DatasetWorld::Request();
  request.rank_groups.clear();
  refused(request, "rank_groups: 0");
  request = DatasetWorld::Request();
  request.rank_groups[0].shapes.clear();
  refused(request, "either shapes or a device");
  request = DatasetWorld::Request();
  request.in_order = true;
  request.draw.emplace();
  refused(request, "in_order: not together with draw");
  request = DatasetWorld::Request();
  request.in_order = true;
  request.rank_groups.push_back(request.rank_groups[0]);
  refused(request, "in_order: not together with several shapes");
  request = DatasetWorld::Request();
  request.rank_groups.push_back(request.rank_groups[0]);
  request.rank_groups[1].num_ranks = 0;
  refused(request, "number 1 has 0 ranks");
  request = DatasetWorld::Request();
  request.rank_groups[0].shapes[0].pop_back();
  refused(request, "limits: 2 capacities for 3");
  DatasetWorld in_groups(20, 1, 9, 3);
  in_groups.Seal();
  request = DatasetWorld::Request();
  request.grouped = true;
  EXPECT_THAT(PrepareFresh(in_groups, request), IsOk());
  request.cuts_oversize = true;
  EXPECT_THAT(PrepareFresh(in_groups, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("OVERSIZE_POLICY_PARTITION: not together with grouped")));
}

// Words are part of an epoch's identity, in ledgers and cursors: a release that changes them
// refuses the epochs of those before it.
TEST(EpochRequestTest, WordsStayFromReleaseToRelease) {
  EpochRequest request = DatasetWorld::Request({24, kUnlimited, 6});
  EXPECT_EQ(request.Words(),
            "(24, -, 6); shuffled; padded with masks; whole graphs; mixed by v1 to 1.1 times a "
            "shuffle");
  request.rank_groups[0].shapes.push_back({12, 15, 3});
  request.rank_groups.push_back({{{1, 2, 3}}, std::nullopt, 2});
  request.in_order = true;
  request.look_ahead = 7;
  request.grouped = true;
  request.adaptive = true;
  request.subset = SubsetRequest{{7, 5}, {{20, 3}, {10, 2}}};
  request.draw = WeightedDraw{{}, 0, true};
  request.segments = SegmentsRequest{300, 2};
  request.cuts_oversize = true;
  request.min_rows = MinRows({3, 2});
  request.padding = Padding::kTfgnn;
  request.derived = {true, true, true, true};
  request.integer_width = IntegerWidth::kCompact;
  EXPECT_EQ(request.Words(),
            "(24, -, 6) (12, 15, 3); (1, 2, 3); in order within 7; grouped; adaptive; subset of 2 "
            "ids and 2 ranges (88353b8eeedcc98b); sample of all with replacement; segments of 300 "
            "graphs in 2 tracks; oversize graphs cut by cut-v1; at least (3, 2) rows; padded as by "
            "TF-GNN; whole graphs counts graph offsets masks; compact integers");
  request = DatasetWorld::Request();
  request.padding = Padding::kNone;
  request.whole_graphs = false;
  request.mixing.is_off = true;
  request.draw = WeightedDraw{{0.5, 2}, 9, false};
  EXPECT_EQ(request.Words(),
            "(24, 30, 6); shuffled; sample of 9 without replacement, weights 20ba818bfc78b9c3; "
            "ragged; sizes");
  request.draw = std::nullopt;
  request.padding = Padding::kGraph;
  request.whole_graphs = true;
  request.derived.masks = true;
  request.rank_groups[0] = {{}, DeviceProfile(), 1};
  request.rank_groups[0].device->components = {{1, 128, 8, 4, 1}, {1, 16, 1, 0, 0}};
  EXPECT_EQ(request.Words(),
            "for device 2f7532b2f130437f; shuffled; padded with a graph; whole graphs masks");
  request.rank_groups[0].device->measured_as = "gin/sim";
  EXPECT_EQ(
      request.Words(),
      "for device e7a4864d4916bfb7 as gin/sim; shuffled; padded with a graph; whole graphs masks");
}

// Whatever differs of a subset, of weights, of a device or of its measurement, tells requests
// apart.
TEST(EpochRequestTest, WhatDiffersHasOtherWords) {
  EpochRequest plain = DatasetWorld::Request();
  plain.subset = SubsetRequest{{7, 5}, {{20, 3}, {10, 2}}};
  plain.draw = WeightedDraw{{0.5, 2}, 9, false};
  plain.rank_groups[0] = {{}, DeviceProfile(), 1};
  plain.rank_groups[0].device->components = {{1, 128, 8, 4, 1}, {1, 16, 1, 0, 0}};
  plain.rank_groups[0].device->measured_as = "gin/sim";
  plain.rank_groups[0].present = {{8, 8}};
  plain.rank_groups[0].measured = plain.rank_groups[0].device;
  using Changes = std::vector<std::function<void(EpochRequest&)>>;
  const auto expect_all_differ = [&](const Changes& changes, const auto& words) {
    std::set<std::string> seen = {words(plain)};
    for (size_t i = 0; i < changes.size(); ++i) {
      EpochRequest changed = plain;
      changes[i](changed);
      EXPECT_TRUE(seen.insert(words(changed)).second) << i;
    }
  };
  // The same change, of what is declared or of what is measured.
  const auto of_device = [](auto of) {
    return Changes{[of](EpochRequest& r) { of(r).components[0].min_rows = 2; },
                   [of](EpochRequest& r) { of(r).components[0].max_rows = 64; },
                   [of](EpochRequest& r) { of(r).components[1].multiple_of = 2; },
                   [of](EpochRequest& r) { of(r).components[1].bytes_per_row = 1; },
                   [of](EpochRequest& r) { of(r).components[0].relative_cost = 2; },
                   [of](EpochRequest& r) { of(r).memory_bytes = 100; },
                   [of](EpochRequest& r) { of(r).fixed_bytes = 101; },
                   [of](EpochRequest& r) { of(r).max_distinct_shapes = 2; },
                   [of](EpochRequest& r) { of(r).fixed_cost = 1; },
                   [of](EpochRequest& r) { of(r).measured_as = "gin"; }};
  };
  Changes of_words =
      of_device([](EpochRequest& r) -> DeviceProfile& { return *r.rank_groups[0].device; });
  for (const Changes& more : {Changes{[](EpochRequest& r) { r.subset->ids[0] = 8; },
                                      [](EpochRequest& r) { r.subset->ids.push_back(9); },
                                      [](EpochRequest& r) { r.subset->ranges[0].first = 21; },
                                      [](EpochRequest& r) { r.subset->ranges[1].second = 3; },
                                      [](EpochRequest& r) { r.subset->ranges.pop_back(); },
                                      [](EpochRequest& r) { r.draw->weights[1] = 3; },
                                      [](EpochRequest& r) { r.draw->weights.push_back(1); },
                                      [](EpochRequest& r) { r.draw->num_graphs = 0; },
                                      [](EpochRequest& r) { r.draw->with_replacement = true; },
                                      [](EpochRequest& r) { r.derived.masks = true; },
                                      [](EpochRequest& r) { r.derived.row_counts = true; },
                                      [](EpochRequest& r) { r.derived.row_offsets = true; },
                                      [](EpochRequest& r) { r.derived.graph_index = true; }}}) {
    of_words.insert(of_words.end(), more.begin(), more.end());
  }
  expect_all_differ(of_words, [](const EpochRequest& request) { return request.Words(); });

  Changes of_measured =
      of_device([](EpochRequest& r) -> DeviceProfile& { return *r.rank_groups[0].measured; });
  const auto bytes_of = [](const std::function<void(MeasuredBytes&)>& change) {
    return [change](EpochRequest& r) {
      auto bytes = std::make_shared<MeasuredBytes>();
      bytes->fitted = {{{8, 8}, 100}};
      bytes->too_large = {{16, 16}};
      change(*bytes);
      r.rank_groups[0].measured->measured_bytes = bytes;
    };
  };
  for (const Changes& more :
       {Changes{[](EpochRequest& r) { r.rank_groups[0].present[0][0] = 9; },
                [](EpochRequest& r) { r.rank_groups[0].present.clear(); },
                [](EpochRequest& r) { r.rank_groups[0].measured = std::nullopt; },
                [](EpochRequest& r) { r.rank_groups[0].measured->components[0].reserved_rows = 1; },
                [](EpochRequest& r) { r.rank_groups[0].measured->components[1].fits_packs = true; },
                [](EpochRequest& r) { r.rank_groups[0].measured->least_cost = 1; },
                bytes_of([](MeasuredBytes&) {}),
                bytes_of([](MeasuredBytes& bytes) { bytes.fitted[0].capacities[1] = 9; }),
                bytes_of([](MeasuredBytes& bytes) { bytes.fitted[0].bytes = 101; }),
                bytes_of([](MeasuredBytes& bytes) { bytes.fitted.clear(); }),
                bytes_of([](MeasuredBytes& bytes) { bytes.too_large[0][0] = 17; }),
                bytes_of([](MeasuredBytes& bytes) { bytes.fixed_bytes = 1; }),
                bytes_of([](MeasuredBytes& bytes) { bytes.most_bytes = 1; })}}) {
    of_measured.insert(of_measured.end(), more.begin(), more.end());
  }
  expect_all_differ(of_measured, MeasuredWords);
  // What is not measured has none.
  plain.rank_groups[0].device->measured_as.clear();
  EXPECT_EQ(MeasuredWords(plain), "");
  EXPECT_EQ(MeasuredWords(DatasetWorld::Request()), "");
}

// What is told of rank groups that cannot be.
TEST(EpochRequestTest, SaysWhatIsWrongWithRankGroups) {
  const auto refused = [](const std::function<void(EpochRequest&)>& change) {
    EpochRequest request = DatasetWorld::Request();
    change(request);
    const absl::Status status = CheckRankGroups(request);
    EXPECT_EQ(status.ok() || status.code() == absl::StatusCode::kInvalidArgument, true);
    return std::string(status.message());
  };
  const auto groups = [](size_t count) {
    return [count](EpochRequest& r) { r.rank_groups.resize(count, r.rank_groups[0]); };
  };
  EXPECT_EQ(refused(groups(1)), "");
  EXPECT_EQ(refused(groups(0)), "rank_groups: 0, must be 1 to 16");
  EXPECT_EQ(refused(groups(16)), "");
  EXPECT_EQ(refused(groups(17)), "rank_groups: 17, must be 1 to 16");
  const std::string either = "rank_groups: number 0 must have either shapes or a device profile";
  EXPECT_EQ(refused([](EpochRequest& r) { r.rank_groups[0].shapes.clear(); }), either);
  EXPECT_EQ(refused([](EpochRequest& r) { r.rank_groups[0].device.emplace(); }), either);
  const auto shapes = [](size_t count) {
    return [count](EpochRequest& r) { r.rank_groups[0].shapes.resize(count, {1, 1, 1}); };
  };
  EXPECT_EQ(refused(shapes(8)), "");
  EXPECT_EQ(refused(shapes(9)), "rank_groups: number 0 has 9 shapes, at most 8");
  EXPECT_EQ(refused([&](EpochRequest& r) {
              groups(2)(r);
              shapes(2)(r);
            }),
            "rank_groups: number 0 has 2 shapes, at most 1 if there are several rank groups");
  EXPECT_EQ(refused([&](EpochRequest& r) {
              groups(2)(r);
              r.rank_groups[1].num_ranks = 0;
            }),
            "rank_groups: number 1 has 0 ranks");
  EXPECT_EQ(refused([](EpochRequest& r) { r.rank_groups[0].num_ranks = 0; }), "");
}

TEST(EpochCatalogTest, WorkersShareWhatIsMadeOnce) {
  DatasetWorld world(40);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto first, catalog.Prepare(DatasetWorld::Request()));
  PH_ASSERT_OK_AND_ASSIGN(const auto second, catalog.Prepare(DatasetWorld::Request()));
  EXPECT_EQ(first, second);
  PH_ASSERT_OK_AND_ASSIGN(const auto next, catalog.Prepare(DatasetWorld::Request({24, 30, 6}, 1)));
  EXPECT_NE(first, next);
  EXPECT_EQ(&first->plan(), &next->plan());
  PH_ASSERT_OK_AND_ASSIGN(const auto other, catalog.Prepare(DatasetWorld::Request({25, 30, 6}, 1)));
  EXPECT_NE(&first->plan(), &other->plan());
}

// Whatever a plan depends on tells it from others: nobody gets what was planned for other words.
TEST(EpochCatalogTest, WhatDecidesAPlanMakesAnother) {
  DatasetWorld world(60, 2);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  using Change = std::function<void(EpochRequest&)>;
  const auto two_groups = [](EpochRequest& r) { r.rank_groups.push_back(r.rank_groups[0]); };
  const auto by_cost = [](EpochRequest& r) {
    r.cost_balanced.emplace().cost = BatchCost::Create({{CostForm::kRows, 0, 1}}, 2).value();
  };
  // What is asked for, and how it differs then.
  const std::vector<std::pair<Change, Change>> cases = {
      {two_groups, [](EpochRequest& r) { r.rank_groups[1].num_ranks = 3; }},
      {by_cost, [](EpochRequest& r) { r.rank_groups[0].num_ranks = 2; }},
      {by_cost,
       [](EpochRequest& r) {
         r.cost_balanced->cost = BatchCost::Create({{CostForm::kRows, 1, 1}}, 2).value();
       }},
      {[](EpochRequest& r) {
         r.draw = WeightedDraw{{}, 9, false};
       },
       [](EpochRequest& r) { ++r.key.epoch; }},
      {[](EpochRequest& r) {
         r.draw = WeightedDraw{{}, 9, false};
       },
       [](EpochRequest& r) { ++r.seed; }},
      {[](EpochRequest&) {}, [](EpochRequest& r) { r.padding = Padding::kNone; }},
      {[](EpochRequest&) {}, [](EpochRequest& r) { r.whole_graphs = false; }},
      {[](EpochRequest& r) { r.in_order = true; }, [](EpochRequest& r) { ++r.look_ahead; }},
      {[](EpochRequest& r) { r.by_score.emplace().component = 0; },
       [](EpochRequest& r) { r.by_score->descending = true; }},
      {[](EpochRequest& r) { r.by_score.emplace().component = 0; },
       [](EpochRequest& r) { r.by_score->num_buckets = 3; }},
      {[](EpochRequest&) {}, [](EpochRequest& r) { r.mixing.most_company = 3; }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    EpochRequest request = DatasetWorld::Request();
    cases[i].first(request);
    PH_ASSERT_OK_AND_ASSIGN(const auto first, catalog.Prepare(request));
    PH_ASSERT_OK_AND_ASSIGN(const auto same, catalog.Prepare(request));
    EXPECT_EQ(first, same);
    cases[i].second(request);
    PH_ASSERT_OK_AND_ASSIGN(const auto other, catalog.Prepare(request));
    EXPECT_NE(&first->plan(), &other->plan());
  }
  // One number of ranks is not in the words of one rank group, whose batches do not depend on it.
  EpochRequest request = DatasetWorld::Request({5, 5, 3});
  PH_ASSERT_OK_AND_ASSIGN(const auto one, catalog.Prepare(request));
  request.rank_groups[0].num_ranks = 2;
  ++request.key.epoch;
  PH_ASSERT_OK_AND_ASSIGN(const auto two, catalog.Prepare(request));
  EXPECT_EQ(&one->plan(), &two->plan());
  // Who wants an error gets one, though others have left these graphs out.
  EXPECT_GT(one->plan().num_oversize(), 0U);
  request.oversize_is_error = true;
  EXPECT_THAT(catalog.Prepare(request),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("graph")));
}

// Whoever opens an epoch that is being made for another job waits for that, also where it is made
// in the background: then it hurries.
TEST(EpochCatalogTest, JobsThatOpenOneEpochTogetherDrawItOnce) {
  DatasetWorld world(40);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  EpochRequest request = DatasetWorld::Request({24, 30, 6}, 1);
  for (const bool in_background : {false, true}) {
    SCOPED_TRACE(in_background);
    // The plan is there.
    PH_ASSERT_OK_AND_ASSIGN(const auto before, catalog.Prepare(DatasetWorld::Request()));
    std::atomic<int> num_asked = 0;
    absl::Notification is_drawing;
    absl::Notification is_waited_for;
    // Asked once before anything is drawn.
    const auto ask = [&] {
      if (++num_asked < 2) return false;
      if (!is_drawing.HasBeenNotified()) is_drawing.Notify();
      is_waited_for.WaitForNotification();
      return false;
    };
    int num_hurried = 0;
    const auto hurry = [&] { ++num_hurried; };
    request.key.job = "first";
    std::thread first([&] {
      if (in_background) {
        EXPECT_THAT(catalog.PrepareAhead(request, Cancellation(ask), std::nullopt, hurry), IsOk());
      } else {
        EXPECT_THAT(catalog.Prepare(request, Cancellation(ask)), IsOk());
      }
    });
    is_drawing.WaitForNotification();
    EpochRequest others = request;
    others.key.job = "second";
    int num_drawing = 0;
    const auto drawing = [&] {
      // It draws itself.
      if (++num_drawing == 2 && !is_waited_for.HasBeenNotified()) is_waited_for.Notify();
      return false;
    };
    const auto waiting = [&] {
      if (!is_waited_for.HasBeenNotified()) is_waited_for.Notify();
      return false;
    };
    EXPECT_THAT(catalog.Prepare(others, Cancellation(drawing, waiting)), IsOk());
    first.join();
    EXPECT_EQ(num_drawing, 1);
    EXPECT_EQ(num_hurried, in_background ? 1 : 0);
    ++request.key.epoch;
  }
}

TEST(EpochCatalogTest, ADataSetThatIsMadeAnewIsAnother) {
  DatasetWorld world(40);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto first, catalog.Prepare(DatasetWorld::Request()));
  EXPECT_THAT(world.store().Delete("graphs"), IsOk());
  catalog.Forget("graphs");
  EXPECT_THAT(catalog.Prepare(DatasetWorld::Request()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  // Loads that are under way go on.
  EXPECT_THAT(first->Build(0), IsOk());
  EXPECT_THAT(world.store().Create("graphs", world.schema(), DatasetOptions()), IsOk());
  EXPECT_THAT(world.store().Seal("graphs"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto second, catalog.Prepare(DatasetWorld::Request()));
  EXPECT_EQ(second->identity().num_batches(), 0);
  EXPECT_NE(first->identity().dataset_version, second->identity().dataset_version);
}

TEST(EpochCatalogTest, NothingIsKeptOfAMixtureOnceOneOfItsDataSetsIsDeleted) {
  DatasetWorld world(40);
  world.Seal();
  ASSERT_THAT(world.store().Create("others", world.schema(), DatasetOptions()), IsOk());
  ASSERT_THAT(world.store().Seal("others"), IsOk());
  MemoryBudget budget(uint64_t{1} << 30);
  const MixedDatasets mixed(&world.store(), &budget);
  EpochCatalog catalog(&mixed, EpochBounds(), &budget);
  EpochRequest request = DatasetWorld::Request();
  request.dataset = "graphs+others";
  for (const std::string gone : {"graphs", "others"}) {
    EXPECT_THAT(catalog.Prepare(request), IsOk());
    const uint64_t held = budget.held();
    EXPECT_GT(held, 0U);
    catalog.Forget("other");
    EXPECT_EQ(budget.held(), held);
    catalog.Forget(gone);
    EXPECT_EQ(budget.held(), 0U);
  }
}

// Whoever deletes a data set, or replaces it: nothing of it is kept, of any kind, and what is there
// stays.
TEST(EpochCatalogTest, NothingIsKeptOfWhatIsGone) {
  const auto no_graphs = [](absl::string_view) { return absl::NotFoundError("no graphs"); };
  for (const bool is_replaced : {false, true}) {
    SCOPED_TRACE(is_replaced);
    DatasetWorld world(300);
    world.Seal();
    MemoryBudget budget(uint64_t{64} << 20);
    EpochCatalog catalog(&world.store(), EpochBounds(), &budget);
    ASSERT_THAT(catalog.Prepare(DatasetWorld::Request()), IsOk());
    // The second time a copy of its graphs is made.
    {
      PH_ASSERT_OK_AND_ASSIGN(const auto second,
                              catalog.Prepare(DatasetWorld::Request({24, 30, 6}, 1)));
      EXPECT_THAT(second->Build(0), IsOk());
    }
    EpochRequest in_segments = DatasetWorld::Request();
    in_segments.segments = SegmentsRequest{100, 1};
    ASSERT_THAT(catalog.PrepareSegmented(in_segments), IsOk());
    const uint64_t held = budget.held();
    EXPECT_NE(held, 0U);
    catalog.ForgetGone(no_graphs);
    EXPECT_EQ(budget.held(), held);
    ASSERT_THAT(world.store().Delete("graphs"), IsOk());
    if (is_replaced) {
      ASSERT_THAT(world.store().Create("graphs", world.schema(), DatasetOptions()), IsOk());
      ASSERT_THAT(world.store().Seal("graphs"), IsOk());
    }
    catalog.ForgetGone(no_graphs);
    EXPECT_EQ(budget.held(), 0U);
  }
}

// A store whose readers take their time: others get a turn before and after one is opened.
class InterruptedStore final : public DatasetStore {
 public:
  explicit InterruptedStore(DatasetStore* store) : store_(store) {}

  std::function<void()> before_open = [] {};
  std::function<void()> after_open = [] {};
  // The latest that was opened.
  mutable std::weak_ptr<const DatasetReader> opened;
  // Whether it has room for one reader at a time.
  bool has_room_for_one = false;

  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    before_open();
    if (has_room_for_one && !opened.expired()) return absl::ResourceExhaustedError("one reader");
    PH_ASSIGN_OR_RETURN(auto reader, store_->OpenReader(name));
    opened = reader;
    after_open();
    return reader;
  }
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override {
    before_open();
    return store_->OpenChunks(name);
  }
  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override {
    return store_->Create(name, schema, options);
  }
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override {
    return store_->AppendTo(target, chunk, group_ids, producer);
  }
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override {
    return store_->GetProducer(target, producer);
  }
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override { return store_->Seal(target); }
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
    return store_->Get(name);
  }
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override {
    return store_->GetHistogram(name);
  }
  absl::StatusOr<DatasetList> List(size_t page_size, absl::string_view page_token) const override {
    return store_->List(page_size, page_token);
  }
  absl::Status Delete(const Target& target) override { return store_->Delete(target); }
  absl::StatusOr<VerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const VerifyProgress&)> progress) const override {
    return store_->Verify(name, progress);
  }

 private:
  DatasetStore* const store_;
};

// A data set that is deleted while an epoch of it is planned: nothing keeps its bytes once who
// asked for the epoch has let go of it, however few plans are made afterwards.
TEST(EpochCatalogTest, WhatIsDeletedWhileItIsPlannedIsNotKept) {
  for (const bool reader_was_open : {false, true}) {
    SCOPED_TRACE(reader_was_open);
    DatasetWorld world(40);
    world.Seal();
    InterruptedStore store(&world.store());
    EpochCatalog catalog(&store, EpochBounds());
    const auto remove = [&] {
      EXPECT_THAT(store.Delete("graphs"), IsOk());
      catalog.Forget("graphs");
    };
    (reader_was_open ? store.after_open : store.before_open) = remove;
    {
      const auto epoch = catalog.Prepare(DatasetWorld::Request());
      if (reader_was_open) {
        ASSERT_THAT(epoch, IsOk());
        EXPECT_THAT((*epoch)->Build(0), IsOk());
      } else {
        EXPECT_THAT(epoch, StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
      }
    }
    EXPECT_TRUE(store.opened.expired());
  }
}

// What is asked for is of one version; whoever asks again gets the new one.
TEST(EpochCatalogTest, WhatIsReplacedWhileItIsOpenedIsNotMixedUp) {
  DatasetWorld world(40);
  world.Seal();
  InterruptedStore store(&world.store());
  EpochCatalog catalog(&store, EpochBounds());
  EpochRequest in_segments = DatasetWorld::Request();
  in_segments.segments = SegmentsRequest{100, 1};
  const auto was_replaced =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("'graphs' was replaced"));
  store.before_open = [&] {
    ASSERT_THAT(store.Delete("graphs"), IsOk());
    ASSERT_THAT(store.Create("graphs", world.schema(), DatasetOptions()), IsOk());
    ASSERT_THAT(store.Seal("graphs"), IsOk());
  };
  EXPECT_THAT(catalog.Prepare(DatasetWorld::Request()), was_replaced);
  EXPECT_THAT(catalog.PrepareSegmented(in_segments), was_replaced);
  store.before_open = [] {};
  EXPECT_THAT(catalog.Prepare(DatasetWorld::Request()), IsOk());
  EXPECT_THAT(catalog.PrepareSegmented(in_segments), IsOk());
}

// A reader that is kept though nobody uses it makes room for another one; one that is used does
// not.
TEST(EpochCatalogTest, ReadersThatNobodyUsesMakeRoomInTheStore) {
  DatasetWorld world(40);
  world.Seal();
  InterruptedStore store(&world.store());
  store.has_room_for_one = true;
  EpochCatalog catalog(&store, EpochBounds());
  const auto make_anew = [&] {
    ASSERT_THAT(store.Delete("graphs"), IsOk());
    ASSERT_THAT(store.Create("graphs", world.schema(), DatasetOptions()), IsOk());
    ASSERT_THAT(store.Seal("graphs"), IsOk());
  };
  ASSERT_THAT(catalog.Prepare(DatasetWorld::Request()), IsOk());
  EXPECT_FALSE(store.opened.expired());
  make_anew();
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto used, catalog.Prepare(DatasetWorld::Request()));
    make_anew();
    EXPECT_THAT(catalog.Prepare(DatasetWorld::Request()),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("one reader")));
    // Nothing is left to be let go of: it is tried once more, for room that others made.
    int tries = 0;
    store.before_open = [&tries] { ++tries; };
    EXPECT_THAT(catalog.Prepare(DatasetWorld::Request()),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("one reader")));
    EXPECT_EQ(tries, 2);
    store.before_open = [] {};
  }
  EXPECT_THAT(catalog.Prepare(DatasetWorld::Request()), IsOk());
}

// Whatever plans now, what was planned before gives the batches that it gave then.
TEST(EpochPlanTest, AKeptPlanGivesTheSameBatchesWhateverThePlanner) {
  const auto request_of = [](uint64_t kind) {
    EpochRequest request = DatasetWorld::Request();
    if (kind == 1) request.grouped = true;
    if (kind == 2) request.draw = WeightedDraw{{}, 40, true};
    if (kind == 3) request.rank_groups.push_back({{{12, 20, 4}}, std::nullopt, 2});
    if (kind == 4) request.rank_groups[0].shapes.push_back({12, 20, 4});
    if (kind == 5) {
      request.rank_groups[0].shapes.clear();
      DeviceProfile device;
      device.components = {{1, 128, 8, 4, 1}, {1, 256, 8, 8, 1}, {1, 16, 1, 0, 0}};
      device.memory_bytes = 4096;
      device.max_distinct_shapes = 2;
      request.rank_groups[0].device = device;
    }
    if (kind == 6) request.in_order = true;
    if (kind == 7) request.rank_groups[0].shapes = {{30, 9, 4}, {9, 40, 4}};
    return request;
  };
  for (uint64_t kind = 0; kind < 8; ++kind) {
    SCOPED_TRACE(testing::Message() << "kind=" << kind);
    DatasetWorld world(90, 5, 9, /*num_groups=*/30);
    world.Seal();
    const EpochRequest request = request_of(kind);
    EpochBounds other;
    other.planner_steps = 0;
    PH_ASSERT_OK_AND_ASSIGN(const auto before, PrepareFresh(world, request, other));
    const auto batches = CheckedBatches(world, *before);
    PH_ASSERT_OK_AND_ASSIGN(const auto now, PrepareFresh(world, request));
    if (kind < 5 || kind == 7) {
      EXPECT_FALSE(now->identity() == before->identity());
    }

    EpochCatalog catalog(&world.store(), {});
    PH_ASSERT_OK_AND_ASSIGN(const auto again, catalog.Prepare(request, {}, Kept(*before)));
    EXPECT_EQ(CheckedBatches(world, *again), batches);
    EXPECT_EQ(again->identity(), before->identity());
    EXPECT_EQ(again->plan().planned()->patterns, before->plan().planned()->patterns);
    EXPECT_EQ(again->plan().lower_bound(), before->plan().lower_bound());
    // Others are planned as ever.
    PH_ASSERT_OK_AND_ASSIGN(const auto fresh, catalog.Prepare(request));
    EXPECT_EQ(fresh->identity(), now->identity());
    EXPECT_EQ(CheckedBatches(world, *fresh), CheckedBatches(world, *now));
    if (kind == 6) continue;
    // One that this catalog has made itself is not read.
    KeptPlannerResult unread = Kept(*now);
    unread.read = [] { return absl::InternalError("was read"); };
    PH_ASSERT_OK_AND_ASSIGN(const auto same, catalog.Prepare(request, {}, unread));
    EXPECT_EQ(same, fresh);
  }
}

TEST(EpochPlanTest, AKeptPlanThatIsNotOfTheseGraphsIsRefused) {
  DatasetWorld world(60);
  world.Seal();
  const EpochRequest request = DatasetWorld::Request();
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareFresh(world, request));
  const auto expect_refused = [&](const std::function<void(PlannerResult&)>& change,
                                  absl::string_view why) {
    PlannerResult changed = *epoch->plan().planned();
    change(changed);
    EpochCatalog catalog(&world.store(), {});
    const KeptPlannerResult kept = {changed.receipt, changed.dataset_version,
                                    [&] { return std::make_shared<const PlannerResult>(changed); }};
    EXPECT_THAT(catalog.Prepare(request, {}, kept),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr(changed.receipt), HasSubstr(std::string(why)))));
  };
  expect_refused([](PlannerResult& plan) { ++plan.tuples[0]; }, "other sizes");
  expect_refused([](PlannerResult& plan) { plan.shapes.emplace_back(); }, "2 rank groups");
  expect_refused([](PlannerResult& plan) { plan.shapes[0].clear(); }, "no shapes");
  expect_refused([](PlannerResult& plan) { plan.patterns.clear(); }, "0 rank groups");
  expect_refused([](PlannerResult& plan) { plan.patterns[0].pop_back(); }, "has places for");
  expect_refused([](PlannerResult& plan) { plan.patterns[0][0].repeats = 0; }, "without graphs");
  expect_refused([](PlannerResult& plan) { plan.patterns[0][0].repeats = ~uint64_t{0}; },
                 "graphs of size");
  expect_refused([](PlannerResult& plan) { plan.patterns[0][0].entries[0].tuple = 1 << 30; },
                 "copies of size number 1073741824");
  expect_refused([](PlannerResult& plan) { plan.shapes[0][0] = {9, 9, 1}; }, "at most");
  // The plan is of a data set that was replaced since. It is made anew, and the epoch differs.
  PlannerResult older = *epoch->plan().planned();
  ++older.dataset_version;
  EpochCatalog catalog(&world.store(), {});
  const KeptPlannerResult kept = {older.receipt, older.dataset_version,
                                  [&] { return absl::InternalError("was read"); }};
  EXPECT_THAT(catalog.Prepare(request, {}, kept), IsOk());
}

}  // namespace
}  // namespace packhouse
