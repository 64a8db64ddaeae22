#include "service/engine/epochs/segmented_epoch.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/base/checksum.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/jobs/kept_plan.h"
#include "service/stores/datasets/reader_bytes.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/random.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<uint32_t> RandomCounts(Random& random, size_t count, uint64_t most) {
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < count; ++i) counts.push_back(static_cast<uint32_t>(random.Below(most)));
  return counts;
}

TEST(SegmentChunksTest, EveryChunkIsInOneSegmentAndSegmentsHaveAboutAsManyGraphs) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const std::vector<uint32_t> graphs = RandomCounts(random, random.Below(3000), 100);
    const uint64_t wanted = random.Between(1, 20'000);
    const SegmentChunks segments(graphs, wanted, seed, 7);
    uint64_t all = 0;
    for (const uint32_t of_chunk : graphs) all += of_chunk;
    std::vector<uint32_t> seen;
    uint64_t sum = 0;
    for (size_t s = 0; s < segments.num_segments(); ++s) {
      const auto chunks = segments.chunks(s);
      EXPECT_TRUE(std::is_sorted(chunks.begin(), chunks.end()));
      seen.insert(seen.end(), chunks.begin(), chunks.end());
      uint64_t of_segment = 0;
      for (const uint32_t chunk : chunks) of_segment += graphs[chunk];
      EXPECT_EQ(segments.num_graphs(s), of_segment);
      // To within a chunk at either end.
      EXPECT_LE(of_segment, all / segments.num_segments() + 200);
      EXPECT_GE(of_segment + 200, all / segments.num_segments());
      sum += of_segment;
    }
    EXPECT_EQ(sum, all);
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), graphs.size());
    for (uint32_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
    EXPECT_TRUE(segments.num_segments() == 1 ||
                graphs.size() / segments.num_segments() >= SegmentChunks::kMinChunks);
    EXPECT_LE(segments.num_segments(), std::max<uint64_t>(1, (all + wanted - 1) / wanted));
  }
}

TEST(SegmentChunksTest, SegmentsDependOnSeedAndVersionAlone) {
  const std::vector<uint32_t> graphs(1000, 10);
  const auto drawn = [&](uint64_t seed, uint64_t version) {
    const SegmentChunks segments(graphs, 1000, seed, version);
    std::vector<std::vector<uint32_t>> all;
    for (size_t s = 0; s < segments.num_segments(); ++s) {
      all.emplace_back(segments.chunks(s).begin(), segments.chunks(s).end());
    }
    return all;
  };
  EXPECT_EQ(drawn(1, 2).size(), 10U);
  EXPECT_EQ(drawn(1, 2), drawn(1, 2));
  EXPECT_NE(drawn(1, 2), drawn(2, 2));
  EXPECT_NE(drawn(1, 2), drawn(1, 3));
}

TEST(TrackOrderTest, EveryBatchComesOnceAndTracksAreEqual) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const std::vector<uint32_t> counts = RandomCounts(random, random.Between(1, 20), 50);
    const auto num_tracks = static_cast<uint32_t>(random.Between(1, 9));
    const TrackOrder order(counts, num_tracks, {seed, seed % 3});
    std::set<std::pair<uint32_t, uint32_t>> seen;
    std::vector<uint64_t> of_track(num_tracks);
    for (uint64_t b = 0; b < order.num_batches(); ++b) {
      const SegmentBatch at = order.At(b);
      EXPECT_LT(at.batch, counts[at.segment]);
      EXPECT_TRUE(seen.insert({at.segment, at.batch}).second);
      ++of_track[b % num_tracks];
    }
    uint64_t all = 0;
    for (const uint32_t count : counts) all += count;
    EXPECT_EQ(seen.size(), all);
    for (uint32_t t = 0; t < num_tracks; ++t) {
      EXPECT_EQ(order.num_batches(t), of_track[t]);
      EXPECT_LE(of_track[t], of_track[0]);
      EXPECT_GE(of_track[t] + 1, of_track[0]);
    }
  }
}

// So a rank of as many as there are tracks reads one segment after the other.
TEST(TrackOrderTest, ATrackGoesThroughItsPiecesOneAfterTheOther) {
  const std::vector<uint32_t> counts = {40, 30, 0, 50, 20, 60};
  const TrackOrder order(counts, 3, {5, 1});
  for (uint64_t track = 0; track < 3; ++track) {
    std::vector<uint32_t> segments;
    for (uint64_t b = track; b < order.num_batches(); b += 3) {
      const uint32_t segment = order.At(b).segment;
      const std::vector<uint32_t> after = order.After(b, 99);
      if (segments.empty() || segments.back() != segment) segments.push_back(segment);
      EXPECT_EQ(segments.size() + after.size(), order.pieces(static_cast<uint32_t>(track)).size());
    }
    EXPECT_EQ(segments.size(), order.pieces(static_cast<uint32_t>(track)).size());
  }
}

TEST(TrackOrderTest, EpochsOrderTheSamePieces) {
  const std::vector<uint32_t> counts(30, 10);
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    const TrackOrder order(counts, 2, {5, epoch});
    for (uint32_t track = 0; track < 2; ++track) {
      std::vector<uint32_t> segments;
      for (const SegmentPiece& piece : order.pieces(track)) segments.push_back(piece.segment);
      if (track == 0) orders.insert(segments);
      std::sort(segments.begin(), segments.end());
      for (uint32_t i = 0; i < 15; ++i) EXPECT_EQ(segments[i], 15 * track + i);
    }
  }
  EXPECT_EQ(orders.size(), 5U);
}

// The directory of 10^10 graphs: chunks of 10^5 in segments of 2^20.
TEST(TrackOrderTest, TenBillionGraphsTakeAFewMegabytes) {
  const std::vector<uint32_t> graphs(100'000, 100'000);
  const SegmentChunks segments(graphs, uint64_t{1} << 20, 1, 2);
  EXPECT_EQ(segments.num_segments(), 1562U);  // Of 64 chunks.
  std::vector<uint32_t> counts;
  for (size_t s = 0; s < segments.num_segments(); ++s) {
    counts.push_back(static_cast<uint32_t>(segments.num_graphs(s) / 20));
  }
  const TrackOrder order(counts, 64, {1, 2});
  EXPECT_GT(order.num_batches(), 490'000'000U);
  for (uint32_t t = 1; t < 64; ++t) EXPECT_LE(order.num_batches(0) - order.num_batches(t), 1U);
  EXPECT_LT(segments.bytes() + order.bytes(), 2'000'000U);
}

// --- Epochs.

EpochBounds QuickBounds() {
  EpochBounds bounds;
  bounds.planner_steps = 20'000;
  return bounds;
}

EpochRequest InSegments(uint64_t graphs, uint32_t tracks = 1, uint64_t epoch = 0) {
  EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
  request.segments = SegmentsRequest{graphs, tracks};
  return request;
}

// What a batch is sent as.
std::string SentBytes(const BuiltBatch& built) {
  std::string bytes;
  const auto add = [&bytes](uint64_t number) { bytes += std::to_string(number) + " "; };
  for (const uint64_t id : built.batch.graph_ids) add(id);
  for (const uint32_t size : built.batch.sizes) add(size);
  for (const BatchTensor& tensor : built.batch.tensors)
    bytes.append(tensor.data.data(), tensor.data.size());
  return bytes;
}

std::vector<std::string> AllSentBytes(const LoadableEpoch& epoch) {
  std::vector<std::string> all;
  for (uint64_t b = 0; b < epoch.identity().num_batches(); ++b) {
    auto built = epoch.Build(b);
    EXPECT_THAT(built, IsOk());
    EXPECT_EQ(epoch.NumGraphs(b), built->batch.graph_ids.size());
    all.push_back(SentBytes(*built));
  }
  return all;
}

std::vector<uint64_t> AllIds(const LoadableEpoch& epoch) {
  std::vector<uint64_t> ids;
  for (uint64_t b = 0; b < epoch.identity().num_batches(); ++b) {
    const auto built = epoch.Build(b);
    EXPECT_THAT(built, IsOk());
    ids.insert(ids.end(), built->batch.graph_ids.begin(), built->batch.graph_ids.end());
  }
  return ids;
}

constexpr size_t kSegmentedGraphs = 3000;  // In some 750 chunks.

DatasetWorld& SegmentsWorld() {
  static DatasetWorld* const world = [] {
    auto* made = new DatasetWorld(kSegmentedGraphs);
    made->Seal();
    return made;
  }();
  return *world;
}

TEST(SegmentedEpochTest, EveryGraphComesOnceInEveryEpoch) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  std::set<std::vector<uint64_t>> orders;
  for (const uint32_t tracks : {1, 3}) {
    for (const uint64_t epoch : {0, 1}) {
      PH_ASSERT_OK_AND_ASSIGN(const auto segmented,
                              catalog.PrepareSegmented(InSegments(300, tracks, epoch)));
      EXPECT_EQ(segmented->plan().layout().num_segments(), 10U);
      std::vector<uint64_t> ids = AllIds(*segmented);
      EXPECT_TRUE(orders.insert(ids).second);
      std::sort(ids.begin(), ids.end());
      ASSERT_EQ(ids.size(), kSegmentedGraphs);
      for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], 1000 + i);
    }
  }
}

// So the numbers that are told before anything is loaded are those of the batches.
TEST(SegmentedEpochTest, RowsAreThoseOfTheBatches) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(InSegments(300, 2)));
  std::vector<uint64_t> rows(3);
  std::vector<uint64_t> fullest(3);
  for (uint64_t b = 0; b < epoch->identity().num_batches(); ++b) {
    PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(b));
    std::vector<uint64_t> of_batch(3);
    for (size_t i = 0; i < built.batch.sizes.size(); ++i) of_batch[i % 2] += built.batch.sizes[i];
    of_batch[2] = built.batch.graph_ids.size();
    for (size_t k = 0; k < 3; ++k) {
      rows[k] += of_batch[k];
      fullest[k] = std::max(fullest[k], of_batch[k]);
    }
  }
  EXPECT_EQ(epoch->plan().counts().rows, rows);
  EXPECT_EQ(epoch->plan().counts().fullest, fullest);
}

TEST(SegmentedEpochTest, EachSegmentIsDrawnByASeedOfItsOwn) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(InSegments(300)));
  std::set<uint64_t> seeds = {InSegments(300).seed};
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(seeds.insert(epoch->plan().RequestOf(i, {"job", 7}).seed).second);
    EXPECT_EQ(epoch->plan().RequestOf(i, {"job", 7}).key.epoch, 7U);
  }
}

// What decides besides the sizes: ids, an order, least rows.
using Change = std::function<void(EpochRequest&)>;
const std::map<std::string, Change>& Changes() {
  static const auto* const changes = new std::map<std::string, Change>{
      {"", [](EpochRequest&) {}},
      {"in order", [](EpochRequest& r) { r.in_order = true; }},
      {"in order of a subset",
       [](EpochRequest& r) {
         r.in_order = true;
         r.subset = SubsetRequest{{1007, 1003}, {{1900, 700}, {1100, 300}}};
       }},
      {"a subset",
       [](EpochRequest& r) {
         r.subset = SubsetRequest{{3999, 1003, 1007}, {{1100, 1500}}};
       }},
      {"a subset of one",
       [](EpochRequest& r) {
         r.subset = SubsetRequest{{1500}, {}};
       }},
      {"min_rows",
       [](EpochRequest& r) {
         r.padding = Padding::kTfgnn;
         r.min_rows = MinRows({3, 2});
       }},
      {"a subset with min_rows",
       [](EpochRequest& r) {
         r.subset = SubsetRequest{{}, {{1100, 1500}}};
         r.padding = Padding::kTfgnn;
         r.min_rows = MinRows({1, 2});
       }},
  };
  return *changes;
}

TEST(SegmentedEpochTest, OneSegmentWithOneTrackIsTheEpochWithoutSegments) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    const uint64_t epoch = name.size() % 6;
    EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
    EpochRequest request = InSegments(kSegmentedGraphs, 1, epoch);
    change(request);
    PH_ASSERT_OK_AND_ASSIGN(const auto segmented, catalog.PrepareSegmented(request));
    request.segments.reset();
    PH_ASSERT_OK_AND_ASSIGN(const auto whole, catalog.Prepare(request));
    EXPECT_EQ(segmented->plan().counts().num_graphs, whole->plan().num_graphs());
    EXPECT_EQ(segmented->plan().layout().num_segments(), 1U);
    EXPECT_EQ(AllSentBytes(*segmented), AllSentBytes(*whole));
    EXPECT_EQ(segmented->plan().lower_bound(), whole->plan().lower_bound());
    const auto& ours = segmented->plan().summary().components;
    const auto& theirs = whole->plan().summaries(0)[0].components;
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t k = 0; k < ours.size(); ++k) {
      EXPECT_DOUBLE_EQ(ours[k].efficiency, theirs[k].efficiency);
      EXPECT_EQ(ours[k].fullest_pack, theirs[k].fullest_pack);
      EXPECT_DOUBLE_EQ(ours[k].efficiency_of_fullest, theirs[k].efficiency_of_fullest);
    }
    PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch our_padding, segmented->BuildPadding(0));
    PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch their_padding, whole->BuildPadding(0));
    EXPECT_EQ(SentBytes(our_padding), SentBytes(their_padding));
  }
}

uint32_t ChecksumOf(const std::vector<std::string>& batches) {
  uint32_t crc = 0;
  for (const std::string& batch : batches) crc = Crc32c(batch, crc);
  return crc;
}

// What is done for several shapes must not touch epochs that take one only: these are their bytes
// as of kPlannerVersion 8. Who raises that changes them, on purpose; nobody else does.
TEST(OneShapeTest, BatchesKeepTheirBytes) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  const auto checksum = [](const LoadableEpoch& epoch) { return ChecksumOf(AllSentBytes(epoch)); };
  EpochRequest request = DatasetWorld::Request({24, 30, 6}, 1);
  request.mixing.is_off = true;
  PH_ASSERT_OK_AND_ASSIGN(const auto shuffled, catalog.Prepare(request));
  EXPECT_EQ(checksum(*shuffled), 3264095474U);
  request.in_order = true;
  request.look_ahead = 64;
  PH_ASSERT_OK_AND_ASSIGN(const auto in_order, catalog.Prepare(request));
  EXPECT_EQ(checksum(*in_order), 2199312916U);
  EpochRequest in_segments = InSegments(300, 2, 1);
  in_segments.mixing.is_off = true;
  PH_ASSERT_OK_AND_ASSIGN(const auto segmented, catalog.PrepareSegmented(in_segments));
  EXPECT_EQ(checksum(*segmented), 1456409891U);
}

// An epoch of sub-graphs in windows of 70.
EpochRequest InWindows(const OneGraphStore& graphs, uint32_t seeds_per_graph = 1) {
  SubGraphsRequest sub_graphs;
  sub_graphs.graph = "g";
  sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(3, 2)).value();
  sub_graphs.seeds_per_graph = seeds_per_graph;
  EpochRequest request;
  request.key = {"job", 1};
  request.seed = 3;
  request.rank_groups.push_back({{{60, 80, 8}}, std::nullopt, 1});
  request.padding = Padding::kMasked;
  request.mixing.is_off = true;
  const auto samples = std::make_shared<SamplesRequest>();
  samples->source = SubGraphSource::Create(graphs.Open("g").value(), sub_graphs).value();
  samples->window = 70;
  request.kinds = {samples};
  return request;
}

// What the request asks for of sub-graphs, changed.
void ChangeSamples(EpochRequest& request, const std::function<void(SamplesRequest&)>& change) {
  auto samples = std::make_shared<SamplesRequest>(*request.Find<SamplesRequest>());
  change(*samples);
  request.kinds = {samples};
}

absl::StatusOr<std::shared_ptr<const SampledEpoch>> PrepareWindows(const EpochRequest& request) {
  return SampledEpoch::Prepare(request.Find<SamplesRequest>()->source, request, EpochBounds(),
                               Making(), nullptr, nullptr);
}

TEST(SampledEpochTest, WhatSubGraphsDoNotGoTogetherWithIsRefused) {
  OneGraphStore graphs{SmallSourceGraph(200)};
  const auto refused = [](const EpochRequest& request, const std::string& what) {
    EXPECT_THAT(PrepareWindows(request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  const auto refused_with = [&](const auto& change, const std::string& what) {
    EpochRequest request = InWindows(graphs);
    change(request);
    refused(request, "samples: not together with " + what);
  };
  refused_with([](EpochRequest& request) { request.dataset = "d"; }, "a data set");
  refused_with([](EpochRequest& request) { request.in_order = true; }, "in_order");
  refused_with([](EpochRequest& request) { request.grouped = true; }, "grouped");
  refused_with([](EpochRequest& request) { request.subset.emplace(); }, "subset");
  refused_with([](EpochRequest& request) { request.draw.emplace(); }, "draw");
  refused_with([](EpochRequest& request) { request.min_rows = MinRows({2, 2}); }, "min_rows");
  refused_with([](EpochRequest& request) { request.cost_balanced.emplace(); },
               "order.cost_balanced");
  EpochRequest request = InWindows(graphs);
  ChangeSamples(request,
                [](SamplesRequest& samples) { samples.window = SampledEpoch::kMaxWindow + 1; });
  refused(request, "samples.window: 65537, at most 65536");
  // Times are for sub-graphs of one seed; and for those they must be of use.
  for (const uint32_t seeds_per_graph : {1, 2}) {
    request = InWindows(graphs, seeds_per_graph);
    ChangeSamples(request, [&](SamplesRequest& samples) {
      samples.seeds.times.assign(200 / seeds_per_graph, 5);
    });
    refused(request, seeds_per_graph == 1 ? "seeds.times: given, but neither"
                                          : "seeds.times: not with seeds_per_graph above 1");
  }
}

// The same of sub-graphs, whose windows are planned one by one.
TEST(OneShapeTest, BatchesOfWindowsKeepTheirBytes) {
  OneGraphStore graphs{SmallSourceGraph(200)};
  EpochRequest request = InWindows(graphs);
  const auto prepare = [&] { return PrepareWindows(request); };
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, prepare());
  ASSERT_EQ(epoch->num_windows(), 3U);
  std::vector<std::string> batches;
  for (uint64_t window = 0; window < epoch->num_windows(); ++window) {
    ASSERT_THAT(epoch->Plan(window, Making()), IsOk());
    const std::vector<uint32_t> counts = epoch->Counts();
    for (uint32_t of_window = 0; of_window < counts[window]; ++of_window) {
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(batches.size()));
      batches.push_back(SentBytes(built));
    }
  }
  EXPECT_EQ(ChecksumOf(batches), 3246446970U);
  ExpectOneShapeOnly("samples", request, [&] { return prepare().status(); });
}

TEST(SegmentedEpochTest, TwoServersGiveTheSameBytes) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    EpochCatalog one(&SegmentsWorld().store(), QuickBounds());
    EpochCatalog other(&SegmentsWorld().store(), QuickBounds());
    EpochRequest request = InSegments(300);
    change(request);
    if (!request.in_order) request.segments->tracks = 2;
    PH_ASSERT_OK_AND_ASSIGN(const auto ours, one.PrepareSegmented(request));
    PH_ASSERT_OK_AND_ASSIGN(const auto theirs, other.PrepareSegmented(request));
    EXPECT_EQ(ours->identity(), theirs->identity());
    // In another order, so that segments are made anew.
    const std::vector<std::string> all = AllSentBytes(*ours);
    for (uint64_t b = all.size(); b-- != 0;) {
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, theirs->Build(b));
      EXPECT_EQ(SentBytes(built), all[b]);
    }
  }
}

// The graphs that are asked for, each once; what is told of them is true; and no plan of them all
// has fewer batches than the bound.
TEST(SegmentedEpochTest, WhatIsAskedForComesOnceInSegments) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
    EpochRequest request = InSegments(300);
    change(request);
    PH_ASSERT_OK_AND_ASSIGN(const auto segmented, catalog.PrepareSegmented(request));
    EXPECT_EQ(segmented->plan().layout().num_segments(), 10U);
    request.segments.reset();
    PH_ASSERT_OK_AND_ASSIGN(const auto whole, catalog.Prepare(request));
    std::vector<uint64_t> ids = AllIds(*segmented);
    std::vector<uint64_t> expected = AllIds(*whole);
    EXPECT_EQ(segmented->plan().counts().num_graphs, expected.size());
    std::sort(ids.begin(), ids.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(ids, expected);
    EXPECT_LE(segmented->plan().lower_bound(), whole->identity().num_batches());
    EXPECT_EQ(segmented->plan().lower_bound() == 0, request.in_order);
    const auto& counts = segmented->plan().counts();
    uint64_t num_batches = 0;
    for (const uint32_t of_segment : counts.num_batches) num_batches += of_segment;
    EXPECT_EQ(num_batches, segmented->identity().num_batches());
    EXPECT_EQ(counts.rows.back(), ids.size());
  }
}

// Steps go on from segment to segment. Those of one segment are of like cost: no batch of another
// such step costs something between their cheapest and dearest.
TEST(SegmentedEpochTest, StepsOfLikeCostGoThroughTheSegments) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  std::vector<uint64_t> all;
  for (const uint32_t num_ranks : {1, 4, 7}) {
    for (const uint64_t epoch : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(num_ranks, " ranks, epoch ", epoch));
      EpochRequest request = InSegments(300, 1, epoch);
      request.rank_groups[0].num_ranks = num_ranks;
      request.cost_balanced.emplace().cost =
          BatchCost::Create({{CostForm::kRows, 1, 1}}, 2).value();
      PH_ASSERT_OK_AND_ASSIGN(const auto segmented, catalog.PrepareSegmented(request));
      EXPECT_EQ(segmented->identity().rank_groups[0].planned_ranks, num_ranks);
      std::vector<uint64_t> ids = AllIds(*segmented);
      std::sort(ids.begin(), ids.end());
      if (all.empty()) all = ids;
      EXPECT_EQ(ids, all);
      // By segment, the cheapest and the dearest batch of each of its steps.
      std::map<const PreparedEpoch*, std::vector<std::pair<uint64_t, uint64_t>>> steps;
      std::map<uint32_t, SegmentedEpoch::Pins> pinned;
      size_t num_within = 0;
      const uint64_t num_steps = segmented->identity().num_batches() / num_ranks;
      for (uint64_t step = 0; step < num_steps; ++step) {
        std::set<std::shared_ptr<const PreparedEpoch>> segments;
        std::vector<uint64_t> costs;
        for (uint64_t b = step * num_ranks; b < (step + 1) * num_ranks; ++b) {
          PH_ASSERT_OK_AND_ASSIGN(const auto of_batch, segmented->SegmentOf(b));
          segments.insert(of_batch.first);
          PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, segmented->Build(b));
          costs.push_back(built.batch.real_rows[1]);
        }
        if (segments.size() != 1) continue;
        ++num_within;
        // A segment that comes back would be another object.
        segmented->Pin({{step * num_ranks}}, pinned[static_cast<uint32_t>(step)]);
        const auto [least, most] = std::minmax_element(costs.begin(), costs.end());
        steps[segments.begin()->get()].emplace_back(*least, *most);
      }
      EXPECT_GE(num_within + 9, num_steps);
      EXPECT_EQ(steps.size(), 10U);
      for (auto& [segment, of_segment] : steps) {
        std::sort(of_segment.begin(), of_segment.end());
        for (size_t i = 1; i < of_segment.size(); ++i) {
          EXPECT_LE(of_segment[i - 1].second, of_segment[i].first);
        }
      }
    }
  }
}

// Segment by segment, and within each as far apart as the look-ahead allows; the same in all
// epochs.
TEST(SegmentedEpochTest, InOrderIsTheOrderOfTheDataSet) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  std::optional<std::vector<std::string>> first;
  for (const uint64_t epoch : {0, 1}) {
    EpochRequest request = InSegments(300, 1, epoch);
    request.in_order = true;
    request.look_ahead = 10;
    request.seed = 3 + epoch;
    PH_ASSERT_OK_AND_ASSIGN(const auto segmented, catalog.PrepareSegmented(request));
    ASSERT_EQ(segmented->plan().layout().num_segments(), 10U);
    const std::vector<uint64_t> ids = AllIds(*segmented);
    uint64_t at = 0;
    for (size_t segment = 0; segment < 10; ++segment) {
      const uint64_t end = at + segmented->plan().layout().num_graphs(segment);
      for (; at < end; ++at) {
        EXPECT_LT(ids[at], 1000 + end);
        EXPECT_GE(ids[at], 1000 + end - segmented->plan().layout().num_graphs(segment));
        EXPECT_LE(ids[at], 1000 + at + 16);
      }
    }
    const std::vector<std::string> all = AllSentBytes(*segmented);
    if (!first) first = all;
    EXPECT_EQ(all, *first);
  }
}

// In the words that an epoch without segments has for it.
TEST(SegmentedEpochTest, ASubsetThatIsNotThereIsRefused) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  const std::vector<SubsetRequest> wrong = {{{1003, 999}, {}},
                                            {{1003, 1000 + kSegmentedGraphs}, {{1100, 9}}},
                                            {{1003, 1007, 1003}, {}},
                                            {{}, {{1003, 0}}},
                                            {{}, {{1003, 9}, {1011, 5}}}};
  for (const SubsetRequest& subset : wrong) {
    EpochRequest request = InSegments(300);
    request.subset = subset;
    const absl::Status refused = catalog.PrepareSegmented(request).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("subset: ")));
    request.segments.reset();
    EXPECT_EQ(refused, catalog.Prepare(request).status());
  }
}

// A reader of all graphs alone would take more.
TEST(SegmentedEpochTest, MemoryIsThatOfAFewSegments) {
  constexpr size_t kMany = 120'000;
  DatasetWorld world(kMany);
  world.Seal();
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, world.store().Get("graphs"));
  const uint64_t bound = BytesOfReader(info) / 2;
  MemoryBudget memory(bound);
  EpochCatalog catalog(&world.store(), QuickBounds(), &memory);
  EXPECT_THAT(
      catalog.Prepare(DatasetWorld::Request({100, 100, 30})),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a reader of 120000 graphs")));
  EpochRequest request = DatasetWorld::Request({100, 100, 30});
  request.segments = SegmentsRequest{kMany / 20, 1};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  EXPECT_EQ(epoch->plan().layout().num_segments(), 20U);
  const std::vector<uint64_t> ids = AllIds(*epoch);
  EXPECT_EQ(ids.size(), kMany);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kMany);
  // Segments go when others need room.
  EXPECT_GT(memory.held(), epoch->plan().BytesOfSegment());
  EXPECT_THAT(memory.Hold("something", bound - epoch->plan().BytesOfSegment()), IsOk());
  EXPECT_LT(memory.held(), epoch->plan().BytesOfSegment());
}

TEST(SegmentedEpochTest, PinnedSegmentsStay) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(InSegments(300)));
  SegmentedEpoch::Pins pins;
  const auto missing = epoch->Pin({0}, pins);
  ASSERT_TRUE(missing.has_value());
  EXPECT_THAT(epoch->MakeSegment(*missing, false, Making()), IsOk());
  EXPECT_EQ(epoch->Pin({0}, pins), std::nullopt);
  // The next one of the track is not there yet.
  const auto next = epoch->NextMissing(0);
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(epoch->MakeSegment(*next, true, Making()), IsOk());
  EXPECT_EQ(epoch->NextMissing(0), std::nullopt);
  while (epoch->ForgetOldest()) {
  }
  // It is not made ahead again before there was room for another.
  EXPECT_EQ(epoch->NextMissing(0), std::nullopt);
  EXPECT_THAT(epoch->MakeSegment(*next, false, Making()), IsOk());
  EXPECT_TRUE(epoch->ForgetOldest());
  EXPECT_EQ(epoch->Pin({0}, pins), std::nullopt);
  pins.clear();
  EXPECT_EQ(epoch->Pin({0}, pins), missing);
}

TEST(SegmentedEpochTest, AKeptPlanGivesTheSameEpochWithoutCounting) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    EpochRequest request = InSegments(300);
    change(request);
    EpochCatalog first(&SegmentsWorld().store(), QuickBounds());
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, first.PrepareSegmented(request));
    const auto planned = epoch->plan().planned();
    EpochCatalog later(&SegmentsWorld().store(), QuickBounds());
    const KeptPlannerResult result = {
        planned->receipt, planned->dataset_version,
        [&]() -> absl::StatusOr<std::shared_ptr<const PlannerResult>> {
          PH_ASSIGN_OR_RETURN(PlannerResult read, ReadPlan(*KeepPlan(*planned), [](uint64_t) {
                                return absl::OkStatus();
                              }));
          return std::make_shared<const PlannerResult>(std::move(read));
        }};
    PH_ASSERT_OK_AND_ASSIGN(const auto again, later.PrepareSegmented(request, {}, result));
    EXPECT_EQ(again->identity(), epoch->identity());
    EXPECT_EQ(AllSentBytes(*again), AllSentBytes(*epoch));
  }
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(InSegments(300, 2)));
  const auto kept = KeepPlan(*epoch->plan().planned());
  ASSERT_NE(kept, nullptr);
  PH_ASSERT_OK_AND_ASSIGN(PlannerResult read,
                          ReadPlan(*kept, [](uint64_t) { return absl::OkStatus(); }));
  EXPECT_EQ(read, *epoch->plan().planned());
  const auto made_of = [&](const PlannerResult& given) {
    // Other steps would give other plans.
    EpochCatalog later(&SegmentsWorld().store(), QuickBounds());
    const KeptPlannerResult result = {
        given.receipt, given.dataset_version,
        [&given]() -> absl::StatusOr<std::shared_ptr<const PlannerResult>> {
          return std::make_shared<const PlannerResult>(given);
        }};
    return later.PrepareSegmented(InSegments(300, 2), {}, result);
  };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto again, made_of(read));
    EXPECT_EQ(again->identity(), epoch->identity());
    EXPECT_EQ(AllSentBytes(*again), AllSentBytes(*epoch));
    EXPECT_EQ(again->plan().loss(), epoch->plan().loss());
  }
  PlannerResult of_others = read;
  of_others.shapes[0][0][0] += 1;
  EXPECT_THAT(made_of(of_others),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is for other limits")));
  // A planner that finds another plan is not gone on with.
  for (uint64_t& digest : read.segments.digests) ++digest;
  PH_ASSERT_OK_AND_ASSIGN(const auto other, made_of(read));
  EXPECT_THAT(other->Build(0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("this release plans it otherwise")));
  read.segments.num_batches.pop_back();
  read.segments.digests.pop_back();
  EXPECT_THAT(made_of(read),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is for 9 segments, there are 10")));
}

TEST(SegmentedEpochTest, GraphsBeyondTheLimitsAreCountedOrNamed) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  EpochRequest request = InSegments(300);
  request.rank_groups[0].shapes = {{6, 7, 4}};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  EXPECT_GT(epoch->plan().counts().num_oversize, 0U);
  EXPECT_EQ(AllIds(*epoch).size(), epoch->plan().counts().num_graphs);
  EXPECT_EQ(epoch->plan().counts().num_graphs + epoch->plan().counts().num_oversize,
            kSegmentedGraphs);
  request.oversize_is_error = true;
  EXPECT_THAT(catalog.PrepareSegmented(request),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("graph 1")));
}

TEST(SegmentedEpochTest, WhatDoesNotGoWithSegmentsIsRefusedByName) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  const auto refused = [&](const char* what, auto change) {
    EpochRequest request = InSegments(300);
    change(request);
    EXPECT_THAT(catalog.PrepareSegmented(request),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("segments"), HasSubstr(what))));
  };
  refused("in_order", [](EpochRequest& r) {
    r.in_order = true;
    r.segments->tracks = 2;
  });
  refused("order.cost_balanced", [](EpochRequest& r) {
    r.cost_balanced.emplace();
    r.segments->tracks = 2;
  });
  refused("grouped", [](EpochRequest& r) { r.grouped = true; });
  refused("draw", [](EpochRequest& r) { r.draw = WeightedDraw{}; });
  refused("PARTITION", [](EpochRequest& r) { r.cuts_oversize = true; });
  refused("one shape", [](EpochRequest& r) { r.rank_groups[0].shapes.push_back({9, 9, 3}); });
  refused("one rank group", [](EpochRequest& r) { r.rank_groups.push_back(r.rank_groups[0]); });
  refused("tracks: 65", [](EpochRequest& r) { r.segments->tracks = 65; });
  refused("tracks: 0", [](EpochRequest& r) { r.segments->tracks = 0; });
  refused("graphs: 0", [](EpochRequest& r) { r.segments->graphs = 0; });
}

// In the words that an epoch without segments has for them.
TEST(SegmentedEpochTest, LimitsThatGiveNoShapeAreRefused) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  const std::vector<std::pair<std::vector<uint64_t>, Padding>> no_shapes = {
      {{24}, Padding::kNone},
      {{24, 30, 6, 1}, Padding::kNone},
      {{kUnlimited, 30, 6}, Padding::kMasked}};
  for (const auto& [limits, padding] : no_shapes) {
    EpochRequest request = InSegments(300);
    request.rank_groups[0].shapes = {limits};
    request.padding = padding;
    const absl::Status refused = catalog.PrepareSegmented(request).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limits")));
    request.segments.reset();
    EXPECT_EQ(refused, catalog.Prepare(request).status());
  }
}

// --- Stores that refuse, and memory that is short.

// Chunks of which few readers can be open at a time, and some cannot be read.
class ScarceChunks final : public DatasetChunks {
 public:
  explicit ScarceChunks(DatasetWorld& world) : chunks_(world.store().OpenChunks("graphs").value()) {
    dataset = chunks_->info();
    graphs.assign(chunks_->num_graphs().begin(), chunks_->num_graphs().end());
  }

  const DatasetInfo& info() const override { return dataset; }
  absl::Span<const uint32_t> num_graphs() const override { return graphs; }
  uint64_t bytes() const override { return chunks_->bytes(); }
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
    return add_sizes ? add_sizes(chunk, histogram) : chunks_->AddSizes(chunk, histogram);
  }
  std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> chunks) const override {
    return read_sizes ? read_sizes() : DatasetChunks::ReadSizes(chunks);
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> chunks) const override {
    if (on_open) on_open();
    if (*num_open_ >= most_open) return absl::ResourceExhaustedError("the cache is full");
    for (const uint32_t chunk : chunks) {
      if (damaged.contains(chunk)) return absl::DataLossError("a damaged chunk");
    }
    const auto opened = std::make_shared<Opened>(num_open_);
    PH_ASSIGN_OR_RETURN(opened->reader, chunks_->Open(chunks));
    return std::shared_ptr<const DatasetReader>(opened, opened->reader.get());
  }

  DatasetInfo dataset;
  std::vector<uint32_t> graphs;
  int most_open = 1000;
  int num_open() const { return *num_open_; }
  std::set<uint32_t> damaged;
  std::function<void()> on_open;
  std::function<absl::Status(uint32_t chunk, SizeHistogram& histogram)> add_sizes;
  std::function<std::unique_ptr<ChunkSizes>()> read_sizes;

 private:
  struct Opened {
    explicit Opened(std::shared_ptr<std::atomic<int>> counted) : num_open(std::move(counted)) {
      ++*num_open;
    }
    ~Opened() { --*num_open; }
    const std::shared_ptr<std::atomic<int>> num_open;
    std::shared_ptr<const DatasetReader> reader;
  };

  const std::shared_ptr<const DatasetChunks> chunks_;
  const std::shared_ptr<std::atomic<int>> num_open_ = std::make_shared<std::atomic<int>>(0);
};

absl::StatusOr<std::shared_ptr<const SegmentedEpoch>> EpochOf(
    const std::shared_ptr<const ScarceChunks>& chunks, const EpochRequest& request,
    const std::shared_ptr<const MakeRoom>& make_room = nullptr) {
  PH_ASSIGN_OR_RETURN(auto plan, SegmentedPlan::Make(chunks, request, QuickBounds()));
  return SegmentedEpoch::Prepare(std::move(plan), request, QuickBounds(), {}, make_room);
}

// Two tracks keep four segments.
TEST(SegmentedEpochTest, SegmentsThatNobodyUsesMakeRoomInTheStore) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300, 2)));
  chunks->most_open = 2;
  EXPECT_EQ(AllIds(*epoch).size(), kSegmentedGraphs);
  // Those that are in use stay.
  SegmentedEpoch::Pins pins;
  chunks->most_open = 1;
  EXPECT_THAT(epoch->Build(0), IsOk());
  EXPECT_EQ(epoch->Pin({0}, pins), std::nullopt);
  EXPECT_THAT(epoch->Build(1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the cache is full")));
  EXPECT_THAT(epoch->Build(0), IsOk());
  pins.clear();
  EXPECT_THAT(epoch->Build(1), IsOk());
}

TEST(SegmentedEpochTest, OthersMakeRoomInTheStoreForSegmentsThatAreNeeded) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  std::vector<std::shared_ptr<const DatasetReader>> others;
  auto make_room = std::make_shared<const MakeRoom>([&](absl::FunctionRef<bool()> done) {
    while (!others.empty()) {
      others.pop_back();
      if (done()) return;
    }
  });
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300), make_room));
  chunks->most_open = 2;
  for (int i = 0; i < 2; ++i) others.push_back(chunks->Open({0}).value());
  const uint32_t first = *epoch->NextMissing(0);
  EXPECT_THAT(epoch->MakeSegment(first, /*is_ahead=*/true, Making()), IsOk());
  EXPECT_EQ(others.size(), 2U);
  EXPECT_THAT(epoch->MakeSegment(first, /*is_ahead=*/false, Making()), IsOk());
  EXPECT_EQ(others.size(), 1U);
  // Who has it may be gone.
  make_room = nullptr;
  while (epoch->ForgetOldest()) {
  }
  others.push_back(chunks->Open({0}).value());
  EXPECT_THAT(epoch->Build(0),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the cache is full")));
}

TEST(SegmentedEpochTest, ASegmentThatCannotBeMadeFailsWhenItIsNeeded) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300)));
  EXPECT_THAT(epoch->Build(0), IsOk());
  const auto next = epoch->NextMissing(0);
  ASSERT_TRUE(next.has_value());
  chunks->damaged.insert(epoch->plan().layout().chunks(*next)[0]);
  EXPECT_THAT(epoch->MakeSegment(*next, /*is_ahead=*/true, Making()), IsOk());
  EXPECT_EQ(epoch->NextMissing(0), std::nullopt);
  EXPECT_THAT(epoch->Build(0), IsOk());
  EXPECT_THAT(epoch->MakeSegment(*next, /*is_ahead=*/false, Making()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a damaged chunk")));
}

// Those that it keeps are the present ones of each track, and the next.
TEST(SegmentedEpochTest, NoMoreSegmentsAreKeptThanTwoForEachTrack) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  for (const uint32_t tracks : {1, 3}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300, tracks)));
    for (uint64_t b = 0; b < epoch->identity().num_batches(); ++b) {
      EXPECT_THAT(epoch->Build(b), IsOk());
      EXPECT_LE(chunks->num_open(), static_cast<int>(2 * tracks));
    }
    EXPECT_EQ(chunks->num_open(), static_cast<int>(2 * tracks));
  }
}

TEST(SegmentedEpochTest, TheSegmentThatWasNotUsedForLongestGoes) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300)));
  EXPECT_THAT(epoch->Build(0), IsOk());
  const uint32_t next = *epoch->NextMissing(0);
  EXPECT_THAT(epoch->MakeSegment(next, /*is_ahead=*/true, Making()), IsOk());
  EXPECT_EQ(epoch->NextMissing(0), std::nullopt);
  // The first is used once more.
  SegmentedEpoch::Pins pins;
  EXPECT_EQ(epoch->Pin({0}, pins), std::nullopt);
  pins.clear();
  EXPECT_TRUE(epoch->ForgetOldest());
  EXPECT_EQ(epoch->Pin({0}, pins), std::nullopt);
}

TEST(SegmentedEpochTest, WhatFailedAheadIsMadeAheadAgainAfterAnother) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300)));
  const uint32_t next = *epoch->NextMissing(0);
  chunks->most_open = 0;
  EXPECT_THAT(epoch->MakeSegment(next, /*is_ahead=*/true, Making()), IsOk());
  EXPECT_EQ(epoch->NextMissing(0), std::nullopt);
  chunks->most_open = 1000;
  EXPECT_THAT(epoch->Build(0), IsOk());
  EXPECT_EQ(epoch->NextMissing(0), next);
}

TEST(SegmentedEpochTest, ASegmentTakesNoMoreMemoryThanIsSaid) {
  constexpr size_t kMany = 60'000;
  DatasetWorld world(kMany);
  world.Seal();
  MemoryBudget memory(uint64_t{1} << 30);
  EpochCatalog catalog(&world.store(), QuickBounds(), &memory);
  EpochRequest request = DatasetWorld::Request({100, 100, 30});
  request.segments = SegmentsRequest{kMany / 20, 1};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  const uint64_t before = memory.held();
  EXPECT_THAT(epoch->Build(0), IsOk());
  EXPECT_LE(memory.held() - before, epoch->plan().BytesOfSegment());
}

TEST(SegmentedEpochTest, TwoWhoMakeASegmentKeepItOnce) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, InSegments(300)));
  std::atomic<int> num_makers = 0;
  absl::Notification both;
  chunks->on_open = [&] {
    if (++num_makers == 2) both.Notify();
    both.WaitForNotification();
  };
  std::vector<std::thread> makers;
  for (int i = 0; i < 2; ++i) {
    makers.emplace_back([&epoch] { EXPECT_THAT(epoch->Build(0), IsOk()); });
  }
  for (std::thread& maker : makers) maker.join();
  EXPECT_TRUE(epoch->ForgetOldest());
  EXPECT_FALSE(epoch->ForgetOldest());
}

// As a planner of another release may.
TEST(SegmentedPlanTest, APlannerThatFindsTheSameGoesOn) {
  EpochRequest request = InSegments(300, 2);
  request.rank_groups[0].shapes = {{24, 30, 1}};
  const auto chunks = std::make_shared<const ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto first, SegmentedPlan::Make(chunks, request, QuickBounds()));
  EpochBounds other;
  other.planner_steps = 30'000;
  PH_ASSERT_OK_AND_ASSIGN(const auto anew, SegmentedPlan::Make(chunks, request, other));
  EXPECT_NE(anew->receipt(), first->receipt());
  const KeptPlannerResult kept = {first->receipt(), first->dataset().version,
                                  [&first] { return first->planned(); }};
  PH_ASSERT_OK_AND_ASSIGN(auto plan, SegmentedPlan::Make(chunks, request, other, {}, kept));
  EXPECT_EQ(plan->receipt(), first->receipt());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch,
                          SegmentedEpoch::Prepare(std::move(plan), request, other));
  EXPECT_EQ(AllIds(*epoch).size(), kSegmentedGraphs);
}

TEST(SegmentedPlanTest, ASegmentHasNoMoreGraphsThanAnEpoch) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  chunks->graphs.assign(SegmentChunks::kMinChunks, uint32_t{1} << 27);
  EXPECT_THAT(SegmentedPlan::Make(chunks, InSegments(300), QuickBounds()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("segments.graphs: 300"), HasSubstr("8589934592 graphs"),
                             HasSubstr("at most 4294967295"))));
}

TEST(SegmentedPlanTest, ASegmentsMemoryIsThatOfItsRecords) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  PH_ASSERT_OK_AND_ASSIGN(const auto one,
                          SegmentedPlan::Make(chunks, InSegments(300), QuickBounds()));
  const uint64_t of_one = one->BytesOfSegment();
  const auto many = std::make_shared<ScarceChunks>(SegmentsWorld());
  many->dataset.num_records *= 10;
  PH_ASSERT_OK_AND_ASSIGN(const auto ten,
                          SegmentedPlan::Make(many, InSegments(300), QuickBounds()));
  size_t most = 0;
  for (size_t i = 0; i < ten->layout().num_segments(); ++i) {
    most = std::max(most, ten->layout().chunks(i).size());
  }
  const DatasetInfo& info = many->dataset;
  EXPECT_EQ(ten->BytesOfSegment() - of_one,
            BytesOfReader(info, 0, 10 * most) - BytesOfReader(info, 0, most));
}

// A chunk may be large, and its sizes may be a round trip away.
TEST(SegmentedPlanTest, CountingEndsSoonWhenNobodyWantsItAnyMore) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  int num_read = 0;
  chunks->add_sizes = [&](uint32_t, SizeHistogram& histogram) {
    ++num_read;
    return histogram.Add(std::vector<uint32_t>{1, 1});
  };
  const auto is_unwanted = [&] { return num_read != 0; };
  EXPECT_THAT(
      SegmentedPlan::Make(chunks, InSegments(300), QuickBounds(), Making(nullptr, is_unwanted)),
      StatusIs(absl::StatusCode::kCancelled, testing::_));
  EXPECT_EQ(num_read, 1);
}

// Sizes that are read ahead.
class LargeSizes final : public ChunkSizes {
 public:
  uint64_t bytes() const override { return uint64_t{1} << 30; }
  absl::Status AddNext(SizeHistogram& /*histogram*/) override {
    return absl::InternalError("is not to be read");
  }
};

TEST(SegmentedPlanTest, MemoryForReadingSizesIsReserved) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  chunks->read_sizes = [] { return std::make_unique<LargeSizes>(); };
  MemoryBudget memory(uint64_t{1} << 28);
  EXPECT_THAT(SegmentedPlan::Make(chunks, InSegments(300), QuickBounds(), Making(&memory, nullptr)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("sizes that are read of the store")));
  EXPECT_EQ(memory.held(), 0U);
}

// Sizes of a store that has no memory from some chunk on.
class EndingSizes final : public ChunkSizes {
 public:
  EndingSizes(int num_chunks, int* num_failed) : num_chunks_(num_chunks), num_failed_(num_failed) {}
  uint64_t bytes() const override { return 0; }
  absl::Status AddNext(SizeHistogram& histogram) override {
    if (num_chunks_-- > 0) return histogram.Add(std::vector<uint32_t>{1, 1});
    ++*num_failed_;
    return absl::ResourceExhaustedError("the store's memory");
  }

 private:
  int num_chunks_;
  int* const num_failed_;
};

// Room in the plan's memory does not help there.
TEST(SegmentedPlanTest, SizesThatCouldNotBeReadAreNotReadAgain) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  int num_begun = 0;
  int num_failed = 0;
  chunks->read_sizes = [&] {
    ++num_begun;
    return std::make_unique<EndingSizes>(5, &num_failed);
  };
  EXPECT_THAT(SegmentedPlan::Make(chunks, InSegments(300), QuickBounds()),
              StatusIs(absl::StatusCode::kResourceExhausted, "the store's memory"));
  EXPECT_EQ(num_begun, 1);
  EXPECT_EQ(num_failed, 1);
}

// The sizes of all graphs are for the bound alone. Here no two graphs have the same.
TEST(SegmentedPlanTest, MemoryForOneSegmentAfterTheOtherIsEnough) {
  constexpr uint32_t kGraphs = 99'000;
  constexpr uint32_t kGraphsOfChunk = 3;
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  chunks->graphs.assign(kGraphs / kGraphsOfChunk, kGraphsOfChunk);
  size_t num_read = 0;
  std::function<void()> on_read;
  chunks->add_sizes = [&](uint32_t chunk, SizeHistogram& histogram) -> absl::Status {
    ++num_read;
    if (on_read) on_read();
    const uint32_t first = kGraphsOfChunk * chunk;
    for (uint32_t graph = first; graph < first + kGraphsOfChunk; ++graph) {
      PH_RETURN_IF_ERROR(histogram.Add(std::vector<uint32_t>{graph % 1000 + 1, graph / 1000 + 1}));
    }
    return absl::OkStatus();
  };
  EpochRequest request = InSegments(192);
  request.rank_groups[0].shapes = {{2000, 2000, 30}};
  EpochBounds bounds;
  bounds.planner_steps = 0;
  const auto make = [&](MemoryBudget* memory) {
    return SegmentedPlan::Make(chunks, request, bounds, Making(memory, nullptr));
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto ample, make(nullptr));
  EXPECT_GT(ample->layout().num_segments(), 100U);
  MemoryBudget memory(SizeHistogram::BytesFor(kGraphs, 2));
  num_read = 0;
  PH_ASSERT_OK_AND_ASSIGN(const auto tight, make(&memory));
  EXPECT_EQ(num_read, chunks->graphs.size());
  EXPECT_EQ(tight->counts(), ample->counts());
  EXPECT_EQ(tight->receipt(), ample->receipt());
  EXPECT_GT(tight->lower_bound(), 0U);
  EXPECT_LE(tight->lower_bound(), ample->lower_bound());
  // Others have all that is left for a while, when a segment's first chunk was read.
  size_t chunk_of_others = 1;
  for (uint32_t i = 0; i < 100; ++i) chunk_of_others += ample->layout().chunks(i).size();
  MemoryBudget shared(uint64_t{1} << 30);
  MemoryHold of_others;
  on_read = [&] {
    if (num_read == chunk_of_others) {
      of_others = shared.Hold("others", shared.bound() - shared.held()).value();
    } else if (num_read == chunk_of_others + 30) {
      of_others.Reset();
    }
  };
  num_read = 0;
  PH_ASSERT_OK_AND_ASSIGN(const auto taken, make(&shared));
  EXPECT_EQ(num_read, chunks->graphs.size());
  EXPECT_EQ(taken->receipt(), ample->receipt());
  EXPECT_EQ(taken->lower_bound(), tight->lower_bound());
}

}  // namespace
}  // namespace packhouse
