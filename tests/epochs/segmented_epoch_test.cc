#include "service/engine/epochs/segmented_epoch.h"

#include <algorithm>
#include <atomic>
#include <cmath>
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
#include "service/engine/epochs/cost_order.h"
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

// Each batch of a rank group is one of that rank group in the segment, where the batches of one
// rank group follow those of another; and rank groups go through the same segments in the same
// order.
TEST(TrackOrderTest, RankGroupsGoThroughTheSegmentsTogether) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const size_t num_segments = random.Between(1, 20);
    const size_t num_groups = random.Between(1, 4);
    const auto num_tracks = static_cast<uint32_t>(random.Between(1, 5));
    const std::vector<uint32_t> counts = RandomCounts(random, num_segments * num_groups, 30);
    const TrackOrder order(counts, num_tracks, {seed, 1}, /*in_order=*/false, num_groups);
    std::set<std::pair<uint32_t, uint32_t>> seen;
    std::vector<uint32_t> firsts(num_segments);
    uint64_t batch = 0;
    std::map<std::pair<uint32_t, uint32_t>, size_t> places;
    for (size_t group = 0; group < num_groups; ++group) {
      uint64_t of_group = 0;
      for (size_t i = 0; i < num_segments; ++i) of_group += counts[group * num_segments + i];
      for (const uint64_t end = batch + of_group; batch < end; ++batch) {
        const SegmentBatch at = order.At(batch);
        EXPECT_GE(at.batch, firsts[at.segment]);
        EXPECT_LT(at.batch - firsts[at.segment], counts[group * num_segments + at.segment]);
        EXPECT_TRUE(seen.insert({at.segment, at.batch}).second);
      }
      for (size_t i = 0; i < num_segments; ++i) firsts[i] += counts[group * num_segments + i];
      for (uint32_t track = 0; track < num_tracks; ++track) {
        std::optional<uint32_t> last;
        for (const SegmentPiece& piece : order.pieces(track, group)) {
          if (group == 0) {
            places[{track, piece.segment}] = places.size();
          } else if (last && places.contains({track, *last}) &&
                     places.contains({track, piece.segment})) {
            EXPECT_LT(places.at({track, *last}), places.at({track, piece.segment}));
          }
          last = piece.segment;
        }
      }
    }
    EXPECT_EQ(batch, order.num_batches());
    EXPECT_EQ(seen.size(), batch);
  }
}

// As one draw of all graphs would: the numbers of all draws there are, and those that are expected.
TEST(DrawSharesTest, SharesHaveTheLawOfOneDraw) {
  struct Case {
    std::vector<uint64_t> weights;
    uint64_t count;
    bool with_replacement;
    std::map<std::vector<uint64_t>, double> chances;
  };
  const std::vector<Case> cases = {
      {{2, 0, 3}, 2, false, {{{0, 0, 2}, 0.3}, {{1, 0, 1}, 0.6}, {{2, 0, 0}, 0.1}}},
      {{2, 3}, 4, false, {{{1, 3}, 0.4}, {{2, 2}, 0.6}}},
      {{2, 3}, 5, false, {{{2, 3}, 1}}},
      {{1, 3, 0}, 2, true, {{{2, 0, 0}, 1 / 16.0}, {{1, 1, 0}, 6 / 16.0}, {{0, 2, 0}, 9 / 16.0}}},
      {{0, 0}, 0, true, {{{0, 0}, 1}}},
      {{}, 0, false, {{{}, 1}}},
  };
  constexpr int kDraws = 20'000;
  for (const Case& each : cases) {
    std::map<std::vector<uint64_t>, int> drawn;
    for (uint64_t epoch = 0; epoch < kDraws; ++epoch) {
      PH_ASSERT_OK_AND_ASSIGN(const auto shares, DrawShares(each.weights, each.count,
                                                            each.with_replacement, {9, epoch}, {}));
      ++drawn[shares];
    }
    EXPECT_EQ(drawn.size(), each.chances.size());
    for (const auto& [shares, chance] : each.chances) {
      const double deviation = std::sqrt(kDraws * chance * (1 - chance));
      EXPECT_NEAR(drawn[shares], kDraws * chance, 5 * deviation) << chance;
    }
  }
}

TEST(DrawSharesTest, EndsSoonWhenNobodyWantsItAnyMore) {
  EXPECT_THAT(DrawShares({9, 9}, 10'000, true, {1, 2}, Making(nullptr, [] { return true; })),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
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

TEST(SegmentedEpochTest, EachSegmentIsDrawnByASeedOfItsOwn) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(InSegments(300)));
  std::set<uint64_t> seeds = {InSegments(300).seed};
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(seeds.insert(epoch->plan().RequestOf(i, {"job", 7}).seed).second);
    EXPECT_EQ(epoch->plan().RequestOf(i, {"job", 7}).key.epoch, 7U);
  }
}

// A device of two shapes.
RankGroupRequest OfDevice(absl::string_view measured_as = "") {
  DeviceProfile device;
  device.components = {{1, 48, 4, 1, 1}, {1, 60, 4, 1, 1}, {1, 16, 1, 0, 0}};
  device.memory_bytes = 72;
  device.max_distinct_shapes = 2;
  device.measured_as = std::string(measured_as);
  return {{}, device, 1};
}

// What decides besides the sizes: ids, an order, least rows, scores, chance, pieces; and what there
// is besides one shape.
using Change = std::function<void(EpochRequest&)>;
using ChangesByName = std::map<std::string, Change>;
ChangesByName ChangesOfOneShape() {
  return {
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
      {"a draw",
       [](EpochRequest& r) {
         r.draw = WeightedDraw{{}, 900, false};
       }},
      {"a draw of most, with least rows",
       [](EpochRequest& r) {
         r.draw = WeightedDraw{{}, 2100, false};
         r.padding = Padding::kTfgnn;
         r.min_rows = MinRows({2, 1});
       }},
      {"a draw of one",
       [](EpochRequest& r) {
         r.draw = WeightedDraw{{}, 1, false};
       }},
      {"a draw with replacement",
       [](EpochRequest& r) {
         r.draw = WeightedDraw{{}, 0, true};
       }},
      {"a draw by weights from a subset, for rank groups",
       [](EpochRequest& r) {
         r.rank_groups = {{{{24, 30, 6}}, std::nullopt, 1}, {{{12, 15, 3}}, std::nullopt, 1}};
         r.subset = SubsetRequest{{1007}, {{1100, 1500}}};
         r.draw = WeightedDraw{std::vector<double>(1501, 0.75), 2000, true};
         for (size_t i = 0; i < 1501; i += 3) r.draw->weights[i] = 0.1 * static_cast<double>(i);
       }},
      {"a draw by weights without replacement",
       [](EpochRequest& r) {
         r.subset = SubsetRequest{{1007}, {{1100, 1500}}};
         r.draw = WeightedDraw{std::vector<double>(1501, 0.75), 700, false};
         for (size_t i = 0; i < 1501; i += 3) r.draw->weights[i] = 0.1 * static_cast<double>(i);
       }},
      {"a draw of all that have a weight",
       [](EpochRequest& r) {
         r.subset = SubsetRequest{{}, {{1100, 1500}}};
         r.draw = WeightedDraw{std::vector<double>(1500), 0, false};
         for (size_t i = 0; i < 1500; i += 4) r.draw->weights[i] = 2;
       }},
      {"cut into pieces",
       [](EpochRequest& r) {
         r.rank_groups[0].shapes = {{6, 30, 6}};
         r.cuts_oversize = true;
       }},
      {"by score of a tensor", [](EpochRequest& r) { r.by_score.emplace().tensor = 2; }},
      {"by score of a component",
       [](EpochRequest& r) {
         r.by_score = ByScoreRequest{std::nullopt, 1, true, 5};
       }},
  };
}
ChangesByName ChangesOfShapes() {
  return {
      {"several shapes",
       [](EpochRequest& r) {
         r.rank_groups[0].shapes = {{24, 30, 6}, {16, 12, 3}, {8, 12, 2}};
       }},
      {"shapes of which none takes all that another takes, with min_rows",
       [](EpochRequest& r) {
         r.rank_groups[0].shapes = {{40, 12, 6}, {12, 40, 6}};
         r.padding = Padding::kTfgnn;
         r.min_rows = MinRows({1, 1});
       }},
      {"rank groups",
       [](EpochRequest& r) {
         r.rank_groups = {{{{24, 30, 6}}, std::nullopt, 1}, {{{7, 12, 3}}, std::nullopt, 3}};
       }},
      {"rank groups in steps of a subset",
       [](EpochRequest& r) {
         r.rank_groups = {{{{24, 30, 6}}, std::nullopt, 2}, {{{12, 15, 3}}, std::nullopt, 3}};
         r.cost_balanced.emplace().cost = BatchCost::Create({{CostForm::kRows, 1, 1}}, 2).value();
         r.subset = SubsetRequest{{}, {{1100, 1500}}};
       }},
      {"a device", [](EpochRequest& r) { r.rank_groups = {OfDevice()}; }},
      {"a device in steps, of a subset",
       [](EpochRequest& r) {
         r.rank_groups = {OfDevice("gin/sim")};
         r.rank_groups[0].num_ranks = 2;
         r.rank_groups[0].measured = OfDevice("gin/sim").device;
         r.rank_groups[0].measured->components[1].relative_cost = 3;
         r.cost_balanced.emplace();
         r.subset = SubsetRequest{{1007}, {{1900, 700}}};
       }},
      {"a device as it is measured",
       [](EpochRequest& r) {
         r.rank_groups = {OfDevice("gin/sim")};
         r.adaptive = true;
         r.rank_groups[0].measured = OfDevice("gin/sim").device;
         r.rank_groups[0].measured->memory_bytes = 60;
         r.rank_groups[0].present = {{8, 8, 3}};
       }},
  };
}
const ChangesByName& Changes() {
  static const auto* const changes = [] {
    auto* const all = new ChangesByName(ChangesOfOneShape());
    all->merge(ChangesOfShapes());
    return all;
  }();
  return *changes;
}

// So the numbers that are told before anything is loaded are those of the batches.
TEST(SegmentedEpochTest, FiguresAreThoseOfTheBatches) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
    EpochRequest request = InSegments(300);
    change(request);
    request.mixing.is_off = true;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
    const EpochIdentity& identity = epoch->identity();
    uint64_t b = 0;
    for (size_t group = 0; group < identity.rank_groups.size(); ++group) {
      const auto summaries = epoch->plan().summaries(group);
      std::vector<ShapeSummary> seen(summaries.size(),
                                     {0, {0, 0, 0}, std::vector<ComponentEfficiency>(3)});
      for (const uint64_t end = b + identity.rank_groups[group].num_batches; b < end; ++b) {
        PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(b));
        ShapeSummary& of_shape = seen.at(built.shape);
        ++of_shape.num_batches;
        std::vector<uint64_t> of_batch(3);
        for (size_t i = 0; i < built.batch.sizes.size(); ++i) {
          of_batch[i % 2] += built.batch.sizes[i];
        }
        of_batch[2] = built.batch.graph_ids.size();
        for (size_t k = 0; k < 3; ++k) {
          EXPECT_LE(built.batch.rows[k], epoch->shapes(group)[built.shape].capacities[k]);
          of_shape.rows[k] += of_batch[k];
          uint64_t& fullest = of_shape.components[k].fullest_pack;
          fullest = std::max(fullest, of_batch[k]);
        }
      }
      for (size_t i = 0; i < seen.size(); ++i) {
        EXPECT_EQ(summaries[i].num_batches, seen[i].num_batches);
        EXPECT_EQ(summaries[i].rows, seen[i].rows);
        for (size_t k = 0; k < 3; ++k) {
          EXPECT_EQ(summaries[i].components[k].fullest_pack, seen[i].components[k].fullest_pack);
        }
      }
    }
  }
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
    ASSERT_EQ(segmented->plan().num_rank_groups(), whole->plan().num_rank_groups());
    for (size_t group = 0; group < whole->plan().num_rank_groups(); ++group) {
      ASSERT_EQ(segmented->shapes(group).size(), whole->shapes(group).size());
      for (size_t i = 0; i < whole->shapes(group).size(); ++i) {
        EXPECT_EQ(segmented->shapes(group)[i].capacities, whole->shapes(group)[i].capacities);
        const ShapeSummary& ours = segmented->plan().summaries(group)[i];
        const ShapeSummary& theirs = whole->plan().summaries(group)[i];
        EXPECT_EQ(ours.num_batches, theirs.num_batches);
        ASSERT_EQ(ours.components.size(), theirs.components.size());
        for (size_t k = 0; k < ours.components.size(); ++k) {
          EXPECT_DOUBLE_EQ(ours.components[k].efficiency, theirs.components[k].efficiency);
          EXPECT_EQ(ours.components[k].fullest_pack, theirs.components[k].fullest_pack);
          EXPECT_DOUBLE_EQ(ours.components[k].efficiency_of_fullest,
                           theirs.components[k].efficiency_of_fullest);
        }
      }
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch our_padding, segmented->BuildPadding(group));
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch their_padding, whole->BuildPadding(group));
      EXPECT_EQ(SentBytes(our_padding), SentBytes(their_padding));
      EXPECT_EQ(our_padding.shape, their_padding.shape);
    }
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

// The same of all that is drawn in segments, or shared among them.
TEST(OneShapeTest, GraphsOfSegmentsStayWhereTheyAre) {
  std::map<std::string, uint32_t> checksums;
  for (const auto& [name, change] : Changes()) {
    EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
    EpochRequest request = InSegments(300, 1, 1);
    change(request);
    if (!request.in_order && !request.cost_balanced) request.segments->tracks = 2;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
    checksums[name] = ChecksumOfGraphs(*epoch);
  }
  const std::map<std::string, uint32_t> expected = {
      {"", 1576539442U},
      {"a device", 21599774U},
      {"a device as it is measured", 3795883253U},
      {"a device in steps, of a subset", 4061694766U},
      {"a draw", 2616183472U},
      {"a draw by weights from a subset, for rank groups", 198245061U},
      {"a draw by weights without replacement", 1285112779U},
      {"a draw of all that have a weight", 3135860586U},
      {"a draw of most, with least rows", 3974076414U},
      {"a draw of one", 2355034530U},
      {"a draw with replacement", 1490828851U},
      {"a subset", 2323485891U},
      {"a subset of one", 183688362U},
      {"a subset with min_rows", 1757773694U},
      {"by score of a component", 2649207331U},
      {"by score of a tensor", 1524934444U},
      {"cut into pieces", 3165897336U},
      {"in order", 3964387228U},
      {"in order of a subset", 1435225182U},
      {"min_rows", 1934406124U},
      {"rank groups", 4071953705U},
      {"rank groups in steps of a subset", 2898058527U},
      {"several shapes", 2200906408U},
      {"shapes of which none takes all that another takes, with min_rows", 3648239925U}};
  EXPECT_EQ(checksums, expected);
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
  refused_with([](EpochRequest& request) { request.grouped = true; }, "grouped");
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
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PrepareWindows(InWindows(graphs)));
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
}

TEST(SegmentedEpochTest, TwoServersGiveTheSameBytes) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    EpochCatalog one(&SegmentsWorld().store(), QuickBounds());
    EpochCatalog other(&SegmentsWorld().store(), QuickBounds());
    EpochRequest request = InSegments(300);
    change(request);
    if (!request.in_order && !request.cost_balanced) request.segments->tracks = 2;
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
    if (request.draw) {
      EXPECT_EQ(ids.size(), expected.size());
      const bool comes_twice = std::adjacent_find(ids.begin(), ids.end()) != ids.end();
      EXPECT_EQ(comes_twice, request.draw->with_replacement);
      // By weights without replacement it is the same draw.
      if (!comes_twice && !request.draw->weights.empty()) {
        EXPECT_EQ(ids, expected);
      }
    } else {
      EXPECT_EQ(ids, expected);
      EXPECT_LE(segmented->plan().lower_bound(), whole->identity().num_batches());
    }
    const bool has_one_shape = whole->shapes(0).size() == 1 && request.rank_groups.size() == 1;
    EXPECT_EQ(segmented->plan().lower_bound() == 0, request.in_order || !has_one_shape);
    EXPECT_EQ(whole->plan().num_oversize(), segmented->plan().counts().num_oversize);
  }
}

// Steps go on from segment to segment. Those of one segment are of like cost: no batch of another
// such step costs something between their cheapest and dearest.
TEST(SegmentedEpochTest, StepsOfLikeCostGoThroughTheSegments) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  std::vector<uint64_t> all;
  for (const uint32_t num_ranks : {1, 4, 7}) {
    for (const uint64_t epoch : {0, 1, 2}) {
      SCOPED_TRACE(absl::StrCat(num_ranks, " ranks, epoch ", epoch));
      EpochRequest request = InSegments(300, 1, epoch);
      request.rank_groups[0].num_ranks = num_ranks;
      const RankGroupRequest smaller = {{{12, 15, 3}}, std::nullopt, num_ranks + 1};
      if (epoch != 0) {
        request.rank_groups.insert(request.rank_groups.begin() + (epoch == 1 ? 1 : 0), smaller);
      }
      request.cost_balanced.emplace().cost =
          BatchCost::Create({{CostForm::kRows, 1, 1}}, 2).value();
      PH_ASSERT_OK_AND_ASSIGN(const auto segmented, catalog.PrepareSegmented(request));
      EXPECT_EQ(segmented->identity().rank_groups[epoch == 2 ? 1 : 0].planned_ranks, num_ranks);
      std::vector<uint64_t> ids = AllIds(*segmented);
      std::sort(ids.begin(), ids.end());
      if (all.empty()) all = ids;
      EXPECT_EQ(ids, all);
      // By segment, of the steps that are of it alone: the cheapest and the dearest batch of each
      // rank group.
      std::map<const PreparedEpoch*, std::vector<std::vector<std::pair<uint64_t, uint64_t>>>> steps;
      // A segment that comes back would be another object.
      std::vector<SegmentedEpoch::Pins> pinned(segmented->identity().num_batches());
      uint64_t num_steps = UINT64_MAX;
      for (const IdentityRankGroup& group : segmented->identity().rank_groups) {
        num_steps = std::min(num_steps, group.num_batches / group.planned_ranks);
      }
      size_t num_within = 0;
      for (uint64_t step = 0; step < num_steps; ++step) {
        std::set<std::shared_ptr<const PreparedEpoch>> segments;
        std::vector<std::pair<uint64_t, uint64_t>> costs;
        for (size_t group = 0; group < request.rank_groups.size(); ++group) {
          const uint64_t of_step = request.rank_groups[group].num_ranks;
          costs.emplace_back(UINT64_MAX, 0);
          const uint64_t first = segmented->identity().first_batches()[group] + step * of_step;
          for (uint64_t b = first; b < first + of_step; ++b) {
            PH_ASSERT_OK_AND_ASSIGN(const auto of_batch, segmented->SegmentOf(b));
            segments.insert(of_batch.first);
            segmented->Pin({b}, pinned[b]);
            PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, segmented->Build(b));
            auto& [least, most] = costs.back();
            least = std::min(least, built.batch.real_rows[1]);
            most = std::max(most, built.batch.real_rows[1]);
          }
        }
        if (segments.size() != 1) continue;
        ++num_within;
        steps[segments.begin()->get()].push_back(std::move(costs));
      }
      EXPECT_GE(num_within + (request.rank_groups.size() == 1 ? 9 : 30), num_steps);
      EXPECT_EQ(steps.size(), 10U);
      // The dearer of two steps is it for each rank group.
      for (const auto& [segment, of_segment] : steps) {
        for (const auto& one : of_segment) {
          for (const auto& other : of_segment) {
            const auto is_before = [&](size_t group) {
              return one[group].second <= other[group].first;
            };
            const auto is_after = [&](size_t group) {
              return other[group].second <= one[group].first;
            };
            bool all_before = true;
            bool all_after = true;
            for (size_t group = 0; group < one.size(); ++group) {
              all_before = all_before && is_before(group);
              all_after = all_after && is_after(group);
            }
            EXPECT_TRUE(&one == &other || all_before || all_after);
          }
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

// As a draw of all graphs at once: by their weights, whichever segment has them.
TEST(SegmentedEpochTest, DrawsAreByTheWeights) {
  DatasetWorld world(600);
  world.Seal();
  EpochCatalog catalog(&world.store(), QuickBounds());
  EpochRequest request = InSegments(300);
  request.mixing.is_off = true;
  const auto draws_of = [&] {
    std::vector<int> draws(600);
    for (request.key.epoch = 0; request.key.epoch < 60; ++request.key.epoch) {
      const auto epoch = catalog.PrepareSegmented(request);
      EXPECT_THAT(epoch, IsOk());
      EXPECT_GT((*epoch)->plan().layout().num_segments(), 1);
      for (const uint64_t id : AllIds(**epoch)) ++draws[id - 1000];
    }
    return draws;
  };
  // One graph makes up half of all weights, so segments differ in their sums.
  request.draw = WeightedDraw{std::vector<double>(600), 400, true};
  for (size_t i = 0; i < 600; ++i) request.draw->weights[i] = static_cast<double>(i % 3);
  request.draw->weights[7] = 601;
  std::vector<int> weighted = draws_of();
  EXPECT_NEAR(weighted[7], 24'000 * 601 / 1200.0, 5 * std::sqrt(24'000 / 4.0));
  weighted[7] = 0;
  std::vector<double> of_weight(3);
  for (size_t i = 0; i < 600; ++i) of_weight[i % 3] += weighted[i];
  EXPECT_EQ(of_weight[0], 0);
  EXPECT_NEAR(of_weight[1], 24'000 * 199 / 1200.0, 5 * std::sqrt(24'000 / 6.0));
  // Also where a segment has none that could be drawn.
  request.draw = WeightedDraw{std::vector<double>(600), 10, true};
  request.draw->weights[7] = 1;
  EXPECT_EQ(draws_of()[7], 60 * 10);
  // Each graph in as many epochs as any other: chi-squared of 599 degrees of freedom.
  request.draw = WeightedDraw{{}, 240, false};
  double deviation = 0;
  for (const int draws : draws_of()) {
    EXPECT_LE(draws, 60);
    deviation += (draws - 24.0) * (draws - 24.0) / (60 * 0.4 * 0.6);
  }
  EXPECT_NEAR(deviation, 599, 5 * std::sqrt(2 * 599.0));
}

// In the words that an epoch without segments has for it.
TEST(SegmentedEpochTest, WhatCannotBeDrawnIsRefused) {
  EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds());
  const std::vector<double> none(kSegmentedGraphs);
  for (const WeightedDraw& draw :
       {WeightedDraw{{}, kSegmentedGraphs + 1, false}, WeightedDraw{{1, 2, 3}, 9, true},
        WeightedDraw{none, 9, true}, WeightedDraw{{}, uint64_t{1} << 32, true}}) {
    EpochRequest request = InSegments(300);
    request.draw = draw;
    const absl::Status refused = catalog.PrepareSegmented(request).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
    request.segments.reset();
    EXPECT_EQ(refused, catalog.Prepare(request).status());
  }
}

// What another epoch has found spares work, and changes nothing: neither what is drawn, nor limits
// that are measured anew.
TEST(SegmentedEpochTest, AnotherEpochsPlanChangesNothing) {
  for (const auto& [name, change] : Changes()) {
    SCOPED_TRACE(name);
    EpochRequest request = InSegments(300);
    change(request);
    EpochRequest before = request;
    for (RankGroupRequest& rank_group : before.rank_groups) rank_group.measured = std::nullopt;
    EpochCatalog first(&SegmentsWorld().store(), QuickBounds());
    PH_ASSERT_OK_AND_ASSIGN(const auto near, first.PrepareSegmented(before));
    const auto planned = near->plan().planned();
    KeptPlannerResult kept = {planned->receipt, planned->dataset_version, [&] { return planned; }};
    kept.is_of_other_epoch = true;
    request.key.epoch = 1;
    EpochCatalog with(&SegmentsWorld().store(), QuickBounds());
    EpochCatalog without(&SegmentsWorld().store(), QuickBounds());
    PH_ASSERT_OK_AND_ASSIGN(const auto ours, with.PrepareSegmented(request, {}, kept));
    PH_ASSERT_OK_AND_ASSIGN(const auto theirs, without.PrepareSegmented(request));
    EXPECT_EQ(ours->identity(), theirs->identity());
    EXPECT_EQ(AllSentBytes(*ours), AllSentBytes(*theirs));
    EXPECT_EQ(ours->plan().planned() == planned, !request.draw && !request.adaptive);
    // Who comes later, with what was kept when it was opened, finds it.
    for (size_t i = 0; i < request.rank_groups.size(); ++i) {
      if (!request.rank_groups[i].measured) continue;
      request.rank_groups[i].measured = std::nullopt;
      request.rank_groups[i].present = ours->plan().planned()->shapes[i];
    }
    KeepCosts(ours->identity(), request);
    const auto own = ours->plan().planned();
    kept = {own->receipt, own->dataset_version, [&] { return own; }};
    PH_ASSERT_OK_AND_ASSIGN(const auto again, with.PrepareSegmented(request, {}, kept));
    EXPECT_EQ(again, ours);
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

// Its plan too, which the catalog knows by two names.
TEST(SegmentedEpochTest, NothingIsHeldOnceTheCatalogIsGone) {
  MemoryBudget memory(uint64_t{1} << 30);
  {
    EpochCatalog catalog(&SegmentsWorld().store(), QuickBounds(), &memory);
    ASSERT_THAT(catalog.PrepareSegmented(InSegments(300)), IsOk());
    EXPECT_GT(memory.held(), 0U);
  }
  EXPECT_EQ(memory.held(), 0U);
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
  // Also what differs from a plan that is there in its use alone.
  EpochRequest cut = InSegments(300);
  cut.cuts_oversize = true;
  EXPECT_THAT(catalog.PrepareSegmented(cut), IsOk());
  cut.use = EpochUse::kExport;
  EXPECT_THAT(catalog.PrepareSegmented(cut),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pieces are not exported")));
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
      {{kUnlimited, 30, 6}, Padding::kMasked},
      {{}, Padding::kNone}};
  for (const auto& [limits, padding] : no_shapes) {
    EpochRequest request = InSegments(300);
    request.rank_groups[0].shapes = {limits};
    if (limits.empty()) request.rank_groups.clear();
    request.padding = padding;
    const absl::Status refused = catalog.PrepareSegmented(request).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr(limits.empty() ? "rank_groups" : "limits")));
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

// However far apart they are, each rank group makes each segment of a track once at most, ahead.
TEST(SegmentedEpochTest, TracksAndRankGroupsDoNotPushEachOthersSegmentsOut) {
  const auto chunks = std::make_shared<ScarceChunks>(SegmentsWorld());
  for (const uint32_t tracks : {1, 2, 3}) {
    for (const uint64_t lag : {0, 100}) {
      SCOPED_TRACE(absl::StrCat(tracks, " tracks, ", lag, " steps apart"));
      EpochRequest request = InSegments(150, tracks);
      request.rank_groups = {{{{24, 30, 6}}, std::nullopt, 1}, {{{12, 15, 3}}, std::nullopt, 1}};
      chunks->on_open = nullptr;
      PH_ASSERT_OK_AND_ASSIGN(const auto epoch, EpochOf(chunks, request));
      const TrackOrder order(epoch->plan().counts().num_batches, tracks,
                             {request.seed, request.key.epoch}, false, 2);
      size_t num_pieces = 0;
      for (uint32_t track = 0; track < tracks; ++track) {
        num_pieces += order.pieces(track, 0).size() + order.pieces(track, 1).size();
      }
      size_t num_made = 0;
      chunks->on_open = [&] { ++num_made; };
      const std::vector<uint64_t> firsts = epoch->identity().first_batches();
      std::vector<SegmentedEpoch::Pins> pins(2);
      for (uint64_t tick = 0; tick < firsts[2] + lag; ++tick) {
        for (size_t group = 0; group < 2; ++group) {
          std::vector<uint64_t> needed;
          for (uint64_t i = 0; i < tracks && tick >= lag * group; ++i) {
            const uint64_t batch = firsts[group] + (tick - lag * group) * tracks + i;
            if (batch < firsts[group + 1]) needed.push_back(batch);
          }
          while (const auto missing = epoch->Pin(needed, pins[group])) {
            ASSERT_THAT(epoch->MakeSegment(*missing, /*is_ahead=*/false, Making()), IsOk());
          }
          for (const uint64_t batch : needed) {
            const auto next = epoch->NextMissing(batch);
            if (!next) continue;
            ASSERT_THAT(epoch->MakeSegment(*next, /*is_ahead=*/true, Making()), IsOk());
          }
        }
      }
      EXPECT_LE(num_made, num_pieces);
    }
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
