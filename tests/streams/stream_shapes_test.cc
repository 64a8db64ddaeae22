#include "service/engine/streams/stream_shapes.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/base/checksum.h"
#include "service/engine/streams/shape_routes.h"
#include "service/engine/streams/stream_profile.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/streams/profile_worlds.h"

namespace packhouse {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SizeHistogram HistogramOf(absl::Span<const uint32_t> sizes) {
  SizeHistogram histogram(2);
  for (size_t i = 0; i < sizes.size(); i += 2) {
    EXPECT_THAT(histogram.Add(sizes.subspan(i, 2)), IsOk());
  }
  return histogram;
}

class StreamShapesTest : public ::testing::Test {
 protected:
  StreamShapesTest() { search_.batches.whole_graphs = false; }

  static DeviceProfile Profile(uint64_t nodes, uint64_t edges, uint64_t multiple_of = 1) {
    DeviceProfile profile;
    profile.components = {{.max_rows = nodes, .multiple_of = multiple_of},
                          {.max_rows = edges, .multiple_of = multiple_of},
                          {.max_rows = 0, .relative_cost = 0}};
    return profile;
  }

  absl::StatusOr<StreamShapes> Choose(const SizeHistogram& histogram, DeviceProfile profile,
                                      Padding padding = Padding::kMasked) {
    search_.batches.padding = padding;
    PH_ASSIGN_OR_RETURN(profile, ProfileForStream(std::move(profile), *schema_, search_.batches));
    return ChooseStreamShapes(histogram, profile, *schema_, search_);
  }

  // The cost of a stream of these graphs under the shapes over that of its real rows, full batches
  // alone.
  double CostOfStream(absl::Span<const uint32_t> sizes, const StreamShapes& chosen) {
    StreamPackerOptions options;
    options.whole_graphs = false;
    options.padding = Padding::kMasked;
    options.calibration = CalibrationOptions{.profile = {}, .num_graphs = 0};
    auto packer =
        StreamPacker::Create(schema_, options, UnwatchedStreams().ForStream(schema_->sizes(), {}))
            .value();
    EXPECT_THAT(packer->SetShapes(chosen.shapes), IsOk());
    double rows = 0;
    double real_rows = 0;
    constexpr size_t kChunk = 1000;
    for (size_t begin = 0; begin < sizes.size(); begin += 2 * kChunk) {
      const auto chunk = sizes.subspan(begin, 2 * kChunk);
      EXPECT_THAT(packer->Offer(GraphChunk::OfSizes(
                      schema_.get(), SizeTable::WithConsecutiveIds(
                                         chunk.size() / 2, 2, {chunk.begin(), chunk.end()}, begin)
                                         .value())),
                  IsOk());
      while (auto batch = packer->Next(absl::UnixEpoch()).value()) {
        rows += static_cast<double>(batch->rows[0] + batch->rows[1]);
        real_rows += static_cast<double>(batch->real_rows[0] + batch->real_rows[1]);
      }
    }
    return rows / real_rows;
  }

  const std::shared_ptr<const GraphSchema> schema_ = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  ShapeSearch search_;
};

// Whatever the schema, sizes and profile: every shape is one that the profile allows, none takes
// all that an earlier one takes, and none costs more than the one before.
TEST_F(StreamShapesTest, ShapesAreAllowedAndInOrder) {
  size_t chosen_times = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    ShapeSearch search;
    search.batches.padding = static_cast<Padding>(random.Below(4));
    search.batches.max_batch_bytes = random.Below(2) == 0 ? 1 << 20 : random.Between(500, 5000);
    const auto profile =
        ProfileForStream(RandomProfile(random, schema, search.batches), schema, search.batches);
    if (!profile.ok()) continue;
    SizeHistogram histogram(schema.num_components());
    const GraphChunk chunk = RandomChunk(random, &schema, random.Between(1, 40), 12, 0);
    for (size_t i = 0; i < chunk.num_graphs(); ++i) {
      ASSERT_THAT(histogram.Add(chunk.sizes().tuple(i)), IsOk());
    }
    const auto chosen = ChooseStreamShapes(histogram, *profile, schema, search);
    if (absl::IsFailedPrecondition(chosen.status())) {
      for (size_t row = 0; row < histogram.num_distinct(); ++row) {
        EXPECT_TRUE(ExcessOverProfile(histogram.tuple(row), *profile).has_value());
      }
      continue;
    }
    ASSERT_THAT(chosen, IsOk());
    ++chosen_times;
    EXPECT_LE(chosen->shapes.size(), profile->max_distinct_shapes);
    double shares = 0;
    double last_cost = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < chosen->shapes.size(); ++i) {
      const StreamShape& shape = chosen->shapes[i];
      std::vector<uint64_t> usable;
      for (size_t k = 0; k < shape.requested.size(); ++k) {
        const ComponentProfile& component = profile->components[k];
        usable.push_back(kUnlimited);
        if (shape.requested[k] == kUnlimited) continue;
        EXPECT_EQ(shape.requested[k] % component.multiple_of, 0U);
        EXPECT_LE(shape.requested[k], component.max_rows);
        EXPECT_GE(shape.requested[k], component.min_rows);
        usable.back() = shape.requested[k] - component.reserved_rows;
      }
      for (size_t before = 0; before < i; ++before) {
        EXPECT_FALSE(ShapeTakes(shape.requested, chosen->shapes[before].requested));
      }
      EXPECT_TRUE(FitsMemory(*profile, usable));
      EXPECT_EQ(chosen->memory_bytes[i], BytesOfShape(*profile, usable));
      const double cost = CostOfShape(*profile, usable);
      EXPECT_LE(cost, last_cost);
      for (size_t j = 0; j < i; ++j) EXPECT_NE(shape.requested, chosen->shapes[j].requested);
      last_cost = cost;
      shares += chosen->shares[i];
    }
    EXPECT_NEAR(shares, 1, 1e-9);
    for (const double efficiency : chosen->efficiencies) {
      EXPECT_GE(efficiency, 0);
      EXPECT_LE(efficiency, 1 + 1e-9);
    }
    EXPECT_GE(chosen->overhead, -1e-9);
    EXPECT_FALSE(chosen->reasons.empty());
  }
  EXPECT_GT(chosen_times, 100U);
}

// After 2,000 graphs of a stream its batches cost at most half a percent more than those of the
// best plan for the whole stream, under the limits that are best for it; and that is foretold.
// What is chosen, and what is told of it, of each of many worlds: no release changes it unawares.
TEST_F(StreamShapesTest, TheSameGraphsGiveTheSameShapesInEveryRelease) {
  std::string told;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    ShapeSearch search;
    search.steps = 1'000'000;
    search.batches.padding = static_cast<Padding>(seed % 4);
    search.batches.max_batch_bytes = seed % 3 == 0 ? 1 << 20 : random.Between(500, 5000);
    const auto profile =
        ProfileForStream(RandomProfile(random, schema, search.batches), schema, search.batches);
    absl::StrAppend(&told, seed, " ", profile.status().ToString(), "\n");
    if (!profile.ok()) continue;
    SizeHistogram histogram(schema.num_components());
    const GraphChunk chunk = RandomChunk(random, &schema, random.Between(1, 40), 12, 0);
    for (size_t i = 0; i < chunk.num_graphs(); ++i) {
      ASSERT_THAT(histogram.Add(chunk.sizes().tuple(i)), IsOk());
    }
    const auto chosen = ChooseStreamShapes(histogram, *profile, schema, search);
    absl::StrAppend(&told, chosen.status().ToString(), "\n");
    if (!chosen.ok()) continue;
    for (size_t i = 0; i < chosen->shapes.size(); ++i) {
      absl::StrAppend(&told, absl::StrJoin(chosen->shapes[i].requested, ","), " costs ",
                      absl::StrFormat("%.6g", chosen->shapes[i].cost), ", has ",
                      absl::StrFormat("%.6g", chosen->shares[i]), ", takes ",
                      chosen->memory_bytes[i], "\n");
    }
    for (const double efficiency : chosen->efficiencies) {
      absl::StrAppendFormat(&told, "%.6g ", efficiency);
    }
    for (const CapacityTerm term : chosen->terms) absl::StrAppend(&told, static_cast<int>(term));
    absl::StrAppendFormat(&told, " %.6g\n", chosen->overhead);
    absl::StrAppend(&told, absl::StrJoin(chosen->reasons, "\n"), "\n");
  }
  EXPECT_EQ(Crc32c(told), 2466037634U) << told;
}

TEST_F(StreamShapesTest, TwoThousandGraphsSuffice) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const uint64_t multiple_of : {1, 8, 64}) {
      SCOPED_TRACE(testing::Message() << "seed=" << seed << " multiple_of=" << multiple_of);
      const std::vector<uint32_t> sizes = MoleculeSizes(20'000, seed);
      const DeviceProfile profile = Profile(2048, 6144, multiple_of);
      PH_ASSERT_OK_AND_ASSIGN(const TuneResult whole,
                              TuneLimits(HistogramOf(sizes), profile, schema_->sizes(), {}));
      PH_ASSERT_OK_AND_ASSIGN(
          const StreamShapes chosen,
          Choose(HistogramOf(absl::MakeConstSpan(sizes).subspan(0, 4000)), profile));
      const double best = whole.epoch_cost / whole.least_cost;
      const double stream = CostOfStream(sizes, chosen);
      EXPECT_LT(stream, 1.005 * best);
      EXPECT_NEAR(1 + chosen.overhead, stream, 0.005);
      EXPECT_FALSE(chosen.oversize.has_value());
    }
  }
}

// The sizes are shares of a stream without an end: 8 graphs fill 80 rows, while 4 alone would have
// been one batch of 48.
TEST_F(StreamShapesTest, PartFilledBatchesDoNotCount) {
  PH_ASSERT_OK_AND_ASSIGN(
      const StreamShapes chosen,
      Choose(HistogramOf({10, 10, 10, 10, 10, 10, 10, 10}), Profile(100, 100, 16)));
  EXPECT_EQ(chosen.shapes[0].requested[0], 80U);
  EXPECT_EQ(chosen.overhead, 0);
}

TEST_F(StreamShapesTest, LargerGraphsThanThoseSoFarFit) {
  const SizeHistogram histogram = HistogramOf(MoleculeSizes(500, 5));
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes chosen, Choose(histogram, Profile(4096, 16384, 8)));
  EXPECT_GE(chosen.shapes[0].requested[0], 4 * uint64_t{histogram.maximum(0)});
  // As far as the profile has room.
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes small, Choose(histogram, Profile(256, 16384)));
  EXPECT_GE(small.shapes[0].requested[0], 200U);
}

TEST_F(StreamShapesTest, SmallerShapesAreUsedOrAreForWhatIsNotFull) {
  // Dense graphs and sparse ones, few to a batch: some batches have many edges.
  Random random(3);
  std::vector<uint32_t> sizes;
  for (int i = 0; i < 2000; ++i) {
    const uint32_t nodes = static_cast<uint32_t>(random.Between(20, 40));
    sizes.insert(sizes.end(), {nodes, nodes * (random.Below(2) == 0 ? 2 : 20)});
  }
  DeviceProfile profile = Profile(128, 4000);
  const SizeHistogram histogram = HistogramOf(sizes);
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes one, Choose(histogram, profile));
  ASSERT_EQ(one.shapes.size(), 1U);
  profile.max_distinct_shapes = 8;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes eight, Choose(histogram, profile));
  EXPECT_EQ(eight.shapes.size(), 8U);
  EXPECT_LT(eight.overhead, 0.9 * one.overhead);
  // The figures are those of the stream itself.
  EXPECT_NEAR(CostOfStream(sizes, eight), 1 + eight.overhead, 0.05);
  EXPECT_NEAR(CostOfStream(sizes, one), 1 + one.overhead, 0.05);
}

// Graphs with many nodes, and others with many edges: no batch has the memory for both.
TEST_F(StreamShapesTest, OfGroupsTheFiguresAreThoseOfTheStream) {
  Random random(3);
  std::vector<uint32_t> sizes;
  for (int i = 0; i < 1000; ++i) {
    sizes.insert(sizes.end(), {static_cast<uint32_t>(random.Between(60, 100)), 5, 5, 100});
  }
  DeviceProfile profile = Profile(100, 100);
  profile.components[0].bytes_per_row = profile.components[1].bytes_per_row = 1;
  profile.memory_bytes = 120;
  profile.max_distinct_shapes = 2;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes chosen, Choose(HistogramOf(sizes), profile));
  ASSERT_EQ(chosen.shapes.size(), 2U);
  EXPECT_THAT(chosen.reasons, Contains(HasSubstr("there are 2 groups of them")));
  EXPECT_NEAR(CostOfStream(sizes, chosen), 1 + chosen.overhead, 0.02);
  // Nodes vary, and edges do not.
  EXPECT_LT(chosen.efficiencies[0], 0.9);
  EXPECT_GT(chosen.efficiencies[1], 0.99);
}

TEST_F(StreamShapesTest, WithoutPaddingThereIsOneShape) {
  DeviceProfile profile = Profile(512, 2048);
  profile.max_distinct_shapes = 8;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes chosen,
                          Choose(HistogramOf(MoleculeSizes(100, 1)), profile, Padding::kNone));
  EXPECT_EQ(chosen.shapes.size(), 1U);
  EXPECT_EQ(chosen.terms.back(), CapacityTerm::kNone);
}

TEST_F(StreamShapesTest, TermsSayWhatBinds) {
  const SizeHistogram squares = HistogramOf({10, 10, 20, 20, 30, 30});
  // As many nodes as edges: nodes are at their most, edges follow.
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes by_rows, Choose(squares, Profile(60, 600)));
  EXPECT_THAT(by_rows.terms,
              ElementsAre(CapacityTerm::kMaxRows, CapacityTerm::kSizes, CapacityTerm::kSizes));
  EXPECT_THAT(by_rows.reasons, Contains(HasSubstr("nodes 60 is the most that max_rows 60 allows")));

  DeviceProfile profile = Profile(1000, 1000);
  profile.components[0].bytes_per_row = 3;
  profile.components[1].bytes_per_row = 3;
  profile.components[0].min_rows = profile.components[1].min_rows = 60;
  profile.memory_bytes = 362;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes by_memory, Choose(squares, profile));
  EXPECT_THAT(by_memory.terms,
              ElementsAre(CapacityTerm::kMemory, CapacityTerm::kMemory, CapacityTerm::kSizes));
  EXPECT_THAT(by_memory.reasons, Contains(HasSubstr("a batch takes 360 of 362 bytes")));
}

TEST_F(StreamShapesTest, TheServersBoundOfABatchIsKept) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {16}, 0, {}, {}}})
          .value();
  for (const uint64_t memory_bytes : {0, 1'000'000}) {
    ShapeSearch search;
    search.batches.padding = Padding::kGraph;
    search.batches.max_batch_bytes = 64 * 1000;
    DeviceProfile profile = Profile(100'000, 400'000);
    profile.components[0].min_rows = 700;
    profile.components[0].bytes_per_row = 1;
    profile.memory_bytes = memory_bytes;
    PH_ASSERT_OK_AND_ASSIGN(profile, ProfileForStream(profile, schema, search.batches));
    PH_ASSERT_OK_AND_ASSIGN(
        const StreamShapes chosen,
        ChooseStreamShapes(HistogramOf(MoleculeSizes(300, 1)), profile, schema, search));
    EXPECT_LE(chosen.shapes[0].requested[0], 1000U);
    EXPECT_GE(chosen.shapes[0].requested[0], 700U);
  }
}

TEST_F(StreamShapesTest, WhatCannotWorkIsNamed) {
  search_.batches.whole_graphs = true;
  search_.batches.max_batch_bytes = 100;
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {16}, 0, {}, {}}})
          .value();
  DeviceProfile profile = Profile(512, 512);
  profile.components[0].min_rows = 512;
  search_.batches.padding = Padding::kMasked;
  EXPECT_THAT(ProfileForStream(profile, schema, search_.batches),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("profile: the smallest allowed batch: limits: a padded batch "
                                 "would take 32768 bytes, at most 100 are allowed")));
  EXPECT_THAT(Choose(HistogramOf({600, 1}), Profile(512, 512)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("max_rows 600 of nodes would take all")));
  search_.is_cancelled = [] { return true; };
  EXPECT_THAT(Choose(HistogramOf({60, 1}), Profile(512, 512)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
}

// Whichever question is answered "the caller is gone", it is not asked another, and is told so; and
// so it is where memory is refused. Of one group of sizes, of several, and within the server's
// bound.
TEST_F(StreamShapesTest, AtEachQuestionTheSearchIsGivenUp) {
  const GraphSchema rows =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {16}, 0, {}, {}}})
          .value();
  DeviceProfile two_groups = Profile(100, 100);
  two_groups.components[0].bytes_per_row = two_groups.components[1].bytes_per_row = 1;
  two_groups.memory_bytes = 120;
  two_groups.max_distinct_shapes = 3;
  std::vector<uint32_t> apart;
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    apart.insert(apart.end(), {static_cast<uint32_t>(random.Between(60, 100)), 5, 5, 100});
  }
  struct World {
    const GraphSchema* schema;
    DeviceProfile profile;
    uint64_t max_batch_bytes;
    std::vector<uint32_t> sizes;
  };
  const std::string by_caller = "shapes: given up by the caller";
  const std::string by_tuner = "tune: given up by the caller";
  const std::string by_planner = "plan: given up by the caller";
  DeviceProfile several = Profile(256, 768);
  several.max_distinct_shapes = 4;
  for (const World& world : {World{schema_.get(), several, 1 << 30, MoleculeSizes(30, 1)},
                             World{&rows, Profile(1000, 4000), 16'000, MoleculeSizes(30, 1)},
                             World{schema_.get(), two_groups, 1 << 30, apart}}) {
    ShapeSearch search;
    search.batches.padding = Padding::kGraph;
    search.batches.max_batch_bytes = world.max_batch_bytes;
    PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile profile,
                            ProfileForStream(world.profile, *world.schema, search.batches));
    const SizeHistogram histogram = HistogramOf(world.sizes);
    uint64_t questions = 0;
    uint64_t gone_at = UINT64_MAX;
    search.is_cancelled = [&] { return questions++ == gone_at; };
    const auto choose = [&] {
      return ChooseStreamShapes(histogram, profile, *world.schema, search);
    };
    PH_ASSERT_OK_AND_ASSIGN(const StreamShapes chosen, choose());
    const uint64_t all = questions;
    EXPECT_GE(all, 1U);
    // Few of many: those that a search asks follow one another.
    const uint64_t stride = std::max<uint64_t>(1, all / 6);
    for (gone_at = 0; gone_at < all; gone_at += gone_at + stride < all ? stride : 1 + stride / 6) {
      SCOPED_TRACE(testing::Message() << gone_at << " of " << all);
      questions = 0;
      const auto given_up =
          StatusIs(absl::StatusCode::kCancelled, AnyOf(by_caller, by_planner, by_tuner));
      EXPECT_THAT(choose().status(), given_up);
      EXPECT_EQ(questions, gone_at + 1);
    }
    search.is_cancelled = nullptr;
    uint64_t refusals = 0;
    for (uint64_t budget = 0;; budget += 1 + budget / 2) {
      uint64_t left = budget;
      PlanMemory memory([&](uint64_t) { return left-- != 0; });
      search.memory = &memory;
      const auto within = choose();
      if (within.ok()) {
        EXPECT_EQ(within->reasons, chosen.reasons);
        break;
      }
      ++refusals;
      EXPECT_THAT(within.status(),
                  StatusIs(absl::StatusCode::kCancelled,
                           AnyOf("shapes: no memory for groups of sizes", by_tuner, by_planner)));
    }
    search.memory = nullptr;
  }
}

// A batch takes more graphs than a rehearsal draws, so no batch of it is full: what is told follows
// from the limits and the sizes alone.
TEST_F(StreamShapesTest, WhereNoBatchIsFullWhatIsToldIsWhatIsPlanned) {
  search_.batches.max_graphs_per_batch = 4'000'000;
  // Of 10 nodes and 5 edges: 400,000 of them fill the nodes, and half of the edges.
  DeviceProfile profile = Profile(4'000'000, 4'000'000);
  profile.components[0].min_rows = profile.components[1].min_rows = 4'000'000;
  profile.components[1].relative_cost = 3;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes chosen, Choose(HistogramOf({10, 5}), profile));
  ASSERT_EQ(chosen.shapes.size(), 1U);
  EXPECT_EQ(chosen.shapes[0].requested[0], 4'000'000);
  EXPECT_THAT(chosen.shares, ElementsAre(1));
  // What the padding keeps free may be a graph less.
  EXPECT_NEAR(chosen.efficiencies[0], 1, 1e-3);
  EXPECT_NEAR(chosen.efficiencies[1], 0.5, 1e-3);
  EXPECT_NEAR(chosen.overhead, (1.0 + 3) / (1 + 3 * 0.5) - 1, 2e-3);
  // Rows count as many times as there are.
  profile.components[1].max_rows = profile.components[1].min_rows = 8'000'000;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes wider, Choose(HistogramOf({10, 5}), profile));
  EXPECT_NEAR(wider.efficiencies[1], 0.25, 1e-3);
  // One that is full counts as all of them.
  profile.components[0].max_rows = profile.components[0].min_rows = 1'000'000;
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes full, Choose(HistogramOf({10, 5}), profile));
  EXPECT_THAT(full.shares, ElementsAre(1));
  EXPECT_NEAR(wider.overhead, (1.0 + 2 * 3) / (1 + 2 * 3 * 0.25) - 1, 2e-3);
}

// A graph goes where its largest share of a capacity, times what a batch costs, is least; also
// where that is not the cheapest batch.
TEST(ShapeRoutesTest, AGraphGoesWhereItsShareOfABatchCostsLeast) {
  const ShapeRoutes routes(
      {{Limits::Create({100, 100, 10}).value(), 1}, {Limits::Create({1000, 1000, 10}).value(), 2}});
  EXPECT_EQ(routes.RouteOf({50, 1}), 1U);   // 0.5 of 1, and a tenth of 2, as the graph that it is.
  EXPECT_EQ(routes.RouteOf({1, 1}), 0U);    // A tenth of 1, and a tenth of 2.
  EXPECT_EQ(routes.RouteOf({1, 100}), 1U);  // 1 of 1.
  EXPECT_EQ(routes.RouteOf({101, 1}), 1U);
  EXPECT_EQ(routes.RouteOf({1001, 1}), std::nullopt);
}

// Bytes of rows count where there is a bound of bytes.
TEST(ProfileWithRoomTest, WithoutABoundOfMemoryBytesTakeNoRoom) {
  const SizeHistogram histogram = HistogramOf({10, 5, 20, 9});
  DeviceProfile profile;
  profile.components = {
      {.max_rows = 1000}, {.max_rows = 1000}, {.max_rows = 0, .relative_cost = 0}};
  const auto without_bytes = ProfileWithRoom(histogram, profile, {30, 30, 8});
  ASSERT_TRUE(without_bytes);
  for (ComponentProfile& component : profile.components) component.bytes_per_row = 4;
  const auto with_bytes = ProfileWithRoom(histogram, profile, {30, 30, 8});
  ASSERT_TRUE(with_bytes);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(with_bytes->components[k].min_rows, without_bytes->components[k].min_rows);
  }
}

// An index tensor of int8 numbers 127 rows: no profile leads to a shape that it cannot number.
TEST_F(StreamShapesTest, IndexTensorsBoundTheRowsThatTheyPointTo) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"to", DType::kInt8, {}, 1, 0, {}}})
          .value();
  ShapeSearch search;
  search.batches.padding = Padding::kGraph;
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile profile,
                          ProfileForStream(Profile(512, 512), schema, search.batches));
  PH_ASSERT_OK_AND_ASSIGN(const StreamShapes chosen,
                          ChooseStreamShapes(HistogramOf({9, 9, 7, 5}), profile, schema, search));
  EXPECT_LE(chosen.shapes[0].requested[0], 127U);
}

}  // namespace
}  // namespace packhouse
