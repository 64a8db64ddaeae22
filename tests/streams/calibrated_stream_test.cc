// Streams whose shapes are chosen from their first graphs.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/uncollate.h"
#include "service/algorithms/planning/size_groups.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/streams/profile_worlds.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Time kBegin = absl::UnixEpoch();

std::shared_ptr<const GraphSchema> SizesSchema() {
  return std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
}

StreamPackerOptions SizesOnly(Padding padding = Padding::kMasked) {
  StreamPackerOptions options;
  options.whole_graphs = false;
  options.padding = padding;
  return options;
}

DeviceProfile NodesAndEdgesUpTo(uint64_t nodes, uint64_t edges) {
  DeviceProfile profile;
  profile.components = {
      {.max_rows = nodes}, {.max_rows = edges}, {.max_rows = 0, .relative_cost = 0}};
  return profile;
}

GraphChunk SizesChunk(const GraphSchema& schema, std::vector<uint32_t> counts, uint64_t first_id) {
  const size_t n = counts.size() / 2;
  return GraphChunk::OfSizes(
      &schema, SizeTable::WithConsecutiveIds(n, 2, std::move(counts), first_id).value());
}

std::vector<Batch> TakeBatches(StreamPacker& packer, absl::Time now = kBegin) {
  std::vector<Batch> batches;
  while (auto batch = packer.Next(now).value()) batches.push_back(*std::move(batch));
  return batches;
}

// The batch's shape is the last that takes it, and takes it.
void ExpectSmallestShape(const Batch& batch, const StreamPacker& packer) {
  const auto shapes = packer.shapes();
  size_t i = shapes.size() - 1;
  while (i > 0 && !shapes[i].shape.Takes(batch.real_rows)) --i;
  EXPECT_TRUE(shapes[i].shape.Takes(batch.real_rows)) << "overfull";
  if (packer.layout().is_fixed()) {
    EXPECT_EQ(batch.rows, shapes[i].shape.capacities) << "not the smallest shape";
  }
}

// Conservation: whatever the schema, profile, chunks, flushes and bounds, every graph comes back in
// exactly one batch or rejection, as it was sent; each batch has the smallest shape that takes it.
TEST(CalibratedStreamTest, EveryGraphComesBackOnceInTheSmallestShape) {
  size_t streams = 0;
  size_t late_rejections = 0;
  size_t smaller_shapes = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto schema = std::make_shared<const GraphSchema>(RandomSchema(random));
    StreamPackerOptions options;
    options.padding = static_cast<Padding>(random.Below(4));
    options.packing.look_ahead = random.Between(1, 20);
    options.derived.masks = random.Below(2) == 0;
    options.bounds.max_pending_bytes = random.Below(4) == 0 ? 5000 : 1 << 20;
    ByteQuota quota(1 << 20);
    options.bounds.quota = &quota;
    ProfiledStream stream(schema, options);
    const absl::Status declared = stream.Declare(
        RandomProfile(random, *schema, stream.search.batches), random.Between(1, 30));
    if (!declared.ok()) continue;  // Too little memory for the smallest batch.
    const std::unique_ptr<StreamPacker> packer = stream.Open();
    ++streams;

    std::vector<GraphChunk> sent;
    std::map<uint64_t, std::pair<size_t, size_t>> expected;  // id -> chunk, graph
    const auto reject = [&](const std::vector<Rejection>& rejections) {
      for (const Rejection& rejection : rejections) {
        EXPECT_GT(rejection.value, rejection.bound);
        ASSERT_EQ(expected.erase(rejection.graph_id), 1U);
      }
    };
    const auto take_all = [&] {
      for (;;) {
        for (const Batch& batch : TakeBatches(*packer)) {
          ExpectSmallestShape(batch, *packer);
          smaller_shapes += batch.rows != packer->shapes()[0].shape.capacities ? 1 : 0;
          PH_ASSERT_OK_AND_ASSIGN(const GraphChunk back, Uncollate(schema.get(), batch));
          for (size_t i = 0; i < back.num_graphs(); ++i) {
            const auto found = expected.find(back.sizes().graph_id(i));
            ASSERT_NE(found, expected.end()) << "id " << back.sizes().graph_id(i);
            EXPECT_TRUE(SameGraph(back, i, sent[found->second.first], found->second.second));
            expected.erase(found);
          }
        }
        if (!packer->needs_shapes()) return;
        PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> late, stream.SetShapes(*packer));
        late_rejections += late.size();
        reject(late);
      }
    };
    for (size_t chunk = 0; chunk < 8; ++chunk) {
      sent.push_back(RandomChunk(random, schema.get(), random.Below(12), 8, chunk * 1000));
      for (size_t i = 0; i < sent.back().num_graphs(); ++i) {
        expected[sent.back().sizes().graph_id(i)] = {chunk, i};
      }
      auto rejections = packer->Offer(sent.back());
      if (!rejections.ok()) {
        EXPECT_THAT(rejections, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes")));
        for (size_t i = 0; i < sent.back().num_graphs(); ++i) {
          expected.erase(sent.back().sizes().graph_id(i));
        }
        continue;
      }
      reject(*rejections);
      take_all();
      if (random.Below(4) == 0) {
        packer->Flush();
        take_all();
        EXPECT_EQ(packer->num_pending(), 0U);
        EXPECT_EQ(quota.held(), 0U);
      }
      if (HasFatalFailure()) return;
    }
    packer->Flush();
    take_all();
    EXPECT_THAT(expected, IsEmpty());
    EXPECT_EQ(packer->num_pending(), 0U);
    EXPECT_EQ(packer->num_offered(), packer->num_packed() + packer->num_rejected());
    EXPECT_EQ(quota.held(), 0U);
  }
  EXPECT_GT(streams, 200U);
  EXPECT_GT(late_rejections, 0U);
  EXPECT_GT(smaller_shapes, 0U);
}

// The memory takes graphs of many nodes or of many edges, and not both in one shape: with enough
// shapes no graph that fits some is rejected, whether batches are padded or not, whole or sizes
// only, and no batch exceeds the memory. Chunks of any size give the same batches.
TEST(CalibratedStreamTest, GraphsThatDoNotFitOneShapeTogetherHaveShapesOfTheirOwn) {
  int several = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto schema = SizesSchema();
    StreamPackerOptions options = SizesOnly(static_cast<Padding>(random.Below(3)));
    options.packing.look_ahead = random.Between(1, 12);
    options.bounds.max_pending_bytes = random.Below(3) == 0 ? 6000 : 1 << 20;
    DeviceProfile profile;
    profile.components = {{1, 60, random.Between(1, 3), 1, 1},
                          {1, 60, random.Between(1, 3), random.Between(1, 2), 1},
                          {1, 0, 1, 0, 0}};
    profile.memory_bytes = random.Between(14, 24);
    profile.max_distinct_shapes = 8;
    const size_t num_graphs = random.Between(1, 60);
    std::vector<uint32_t> sizes;
    for (size_t i = 0; i < num_graphs; ++i) {
      // Many of one kind, few of others.
      const bool is_usual = random.Below(5) != 0;
      sizes.push_back(static_cast<uint32_t>(is_usual ? random.Between(8, 10) : random.Below(10)));
      sizes.push_back(static_cast<uint32_t>(is_usual ? random.Below(3) : random.Below(10)));
    }
    std::optional<std::vector<std::vector<uint64_t>>> first;
    for (const size_t chunk_size : {size_t{1}, size_t{7}, num_graphs}) {
      // Early packing depends on how much comes at once.
      if (first && options.bounds.max_pending_bytes < 10'000) break;
      ProfiledStream stream(schema, options);
      // Too little memory for the smallest batch.
      if (!stream.Declare(profile, num_graphs).ok()) break;
      const std::unique_ptr<StreamPacker> packer = stream.Open();
      std::vector<uint64_t> rejected;
      std::vector<std::vector<uint64_t>> batches;
      const auto take_all = [&] {
        for (;;) {
          for (const Batch& batch : TakeBatches(*packer)) {
            ExpectSmallestShape(batch, *packer);
            batches.push_back({batch.graph_ids.begin(), batch.graph_ids.end()});
          }
          if (!packer->needs_shapes()) return;
          PH_ASSERT_OK_AND_ASSIGN(const auto late, stream.SetShapes(*packer));
          for (const Rejection& rejection : late) rejected.push_back(rejection.graph_id);
          std::vector<std::vector<uint64_t>> capacities;
          for (const StreamShape& shape : packer->shapes()) {
            std::vector<uint64_t> usable(shape.shape.usable.capacities().begin(),
                                         shape.shape.usable.capacities().end());
            capacities.push_back(shape.requested);
            if (options.padding != Padding::kNone) {
              EXPECT_TRUE(FitsMemory(stream.options.calibration->profile, usable));
            }
          }
          several += LeadingShapes(capacities).size() > 1 ? 1 : 0;
        }
      };
      for (size_t begin = 0; begin < num_graphs; begin += chunk_size) {
        const size_t n = std::min(chunk_size, num_graphs - begin);
        std::vector<uint32_t> counts(sizes.begin() + static_cast<std::ptrdiff_t>(2 * begin),
                                     sizes.begin() + static_cast<std::ptrdiff_t>(2 * (begin + n)));
        PH_ASSERT_OK_AND_ASSIGN(const auto too_large,
                                packer->Offer(SizesChunk(*schema, std::move(counts), begin)));
        for (const Rejection& rejection : too_large) rejected.push_back(rejection.graph_id);
        take_all();
      }
      packer->Flush();
      take_all();
      EXPECT_EQ(packer->num_pending(), 0U);

      std::vector<uint64_t> packed;
      for (const auto& batch : batches) packed.insert(packed.end(), batch.begin(), batch.end());
      std::sort(packed.begin(), packed.end());
      std::sort(rejected.begin(), rejected.end());
      std::vector<uint64_t> fitting;
      std::vector<uint64_t> unfitting;
      for (size_t i = 0; i < num_graphs; ++i) {
        const auto excess =
            ExcessOverProfile({sizes.data() + 2 * i, 2}, stream.options.calibration->profile);
        (excess ? unfitting : fitting).push_back(i);
      }
      // A stream that packs early may end its calibration early, and larger graphs come later.
      if (options.bounds.max_pending_bytes > 10'000) {
        EXPECT_EQ(packed, fitting);
        EXPECT_EQ(rejected, unfitting);
      } else {
        EXPECT_EQ(packed.size() + rejected.size(), num_graphs);
      }
      if (!first) first = batches;
      EXPECT_EQ(batches, *first);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(several, 100);
}

// Graphs that wait for a rare shape hold chunks. These are let go of, part-filled batches of the
// rare shape first, before the bound of pending bytes is exceeded for good.
TEST(CalibratedStreamTest, ARareShapeDoesNotHoldTheStream) {
  const auto schema = SizesSchema();
  StreamPackerOptions options = SizesOnly();
  options.bounds.max_pending_bytes = 20'000;
  ProfiledStream stream(schema, options);
  DeviceProfile profile;
  profile.components = {{1, 2048, 1, 1, 1}, {1, 2048, 1, 1, 1}, {1, 0, 1, 0, 0}};
  profile.memory_bytes = 1500;
  profile.max_distinct_shapes = 2;
  ASSERT_THAT(stream.Declare(profile, 20), IsOk());
  const std::unique_ptr<StreamPacker> packer = stream.Open();
  size_t packed = 0;
  size_t part_filled = 0;
  const auto take_all = [&] {
    for (;;) {
      for (const Batch& batch : TakeBatches(*packer)) {
        packed += batch.graph_ids.size();
        part_filled += batch.real_rows[0] < 900 && batch.real_rows[1] < 900 ? 1 : 0;
      }
      if (!packer->needs_shapes()) return;
      EXPECT_THAT(stream.SetShapes(*packer), IsOk());
      EXPECT_THAT(packer->shapes(), testing::SizeIs(2));
    }
  };
  for (uint64_t chunk = 0; chunk < 100; ++chunk) {
    // Nine of the usual kind, one of the rare kind, of which two fill a batch only now and then.
    std::vector<uint32_t> counts;
    for (int i = 0; i < 9; ++i) counts.insert(counts.end(), {1000, 10});
    counts.insert(counts.end(), {10, 990});
    ASSERT_THAT(packer->Offer(SizesChunk(*schema, std::move(counts), 10 * chunk)), IsOk());
    take_all();
    EXPECT_LE(packer->pending_bytes(), options.bounds.max_pending_bytes + 2'000);
  }
  packer->Flush();
  take_all();
  EXPECT_EQ(packed, 1000U);
  EXPECT_EQ(part_filled, 0U);
}

// Graphs of one int16 row for each node, whose value is the graph's number.
GraphChunk NumberedChunk(const GraphSchema& schema, absl::Span<const uint32_t> sizes,
                         uint64_t first_id) {
  auto rows = std::make_shared<std::string>();
  for (size_t i = 0; i < sizes.size(); i += 2) {
    const uint64_t id = first_id + i / 2;
    for (uint32_t node = 0; node < sizes[i]; ++node) {
      rows->append({static_cast<char>(id % 251), static_cast<char>(id / 251)});
    }
  }
  return GraphChunk::Create(&schema,
                            SizeTable::WithConsecutiveIds(sizes.size() / 2, 2,
                                                          {sizes.begin(), sizes.end()}, first_id)
                                .value(),
                            {*rows}, rows)
      .value();
}

// Same graphs, same profile: same bytes, however the graphs are cut into chunks and the work into
// calls of Next().
TEST(CalibratedStreamTest, BytesDoNotDependOnChunks) {
  const auto schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value());
  constexpr size_t kGraphs = 900;
  const std::vector<uint32_t> sizes = MoleculeSizes(kGraphs, 3);
  const auto pack = [&](size_t chunk_size, size_t max_graphs = SIZE_MAX) {
    StreamPackerOptions options;
    options.padding = Padding::kGraph;
    ProfiledStream stream(schema, options);
    DeviceProfile profile = NodesAndEdgesUpTo(600, 1400);
    profile.max_distinct_shapes = 4;
    EXPECT_THAT(stream.Declare(profile, 250), IsOk());
    const std::unique_ptr<StreamPacker> packer = stream.Open();
    std::vector<std::string> batches;
    const auto take_all = [&] {
      for (;;) {
        auto batch = packer->Next(kBegin, max_graphs).value();
        if (batch) {
          batches.emplace_back(batch->tensors[0].data);
        } else if (packer->needs_shapes()) {
          EXPECT_THAT(stream.SetShapes(*packer), IsOk());
        } else if (!packer->is_feeding()) {
          return;
        }
      }
    };
    for (size_t begin = 0; begin < kGraphs; begin += chunk_size) {
      const size_t graphs = std::min(kGraphs - begin, chunk_size);
      EXPECT_THAT(packer->Offer(NumberedChunk(
                      *schema, absl::MakeConstSpan(sizes).subspan(2 * begin, 2 * graphs), begin)),
                  IsOk());
      take_all();
    }
    packer->Flush();
    take_all();
    return batches;
  };
  const auto batches = pack(1);
  EXPECT_GT(batches.size(), 20U);
  EXPECT_EQ(batches, pack(7));
  EXPECT_EQ(batches, pack(249));
  EXPECT_EQ(batches, pack(900));
  EXPECT_EQ(batches, pack(900, 1));
}

class FewGraphsTest : public ::testing::Test {
 protected:
  void Open(StreamPackerOptions options, DeviceProfile profile, uint64_t num_graphs) {
    stream_.emplace(schema_, std::move(options));
    ASSERT_THAT(stream_->Declare(std::move(profile), num_graphs), IsOk());
    packer_ = stream_->Open();
  }
  absl::StatusOr<std::vector<Rejection>> Offer(const std::vector<uint32_t>& sizes,
                                               uint64_t first_id) {
    std::vector<uint32_t> counts;
    for (const uint32_t n : sizes) counts.insert(counts.end(), {n, n});
    return packer_->Offer(SizesChunk(*schema_, std::move(counts), first_id));
  }

  const std::shared_ptr<const GraphSchema> schema_ = SizesSchema();
  std::optional<ProfiledStream> stream_;
  std::unique_ptr<StreamPacker> packer_;
};

TEST_F(FewGraphsTest, AFlushEndsTheCalibrationIfThereIsAGraph) {
  Open(SizesOnly(), NodesAndEdgesUpTo(100, 100), 10);
  packer_->Flush();
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  EXPECT_FALSE(packer_->needs_shapes());
  ASSERT_THAT(Offer({3, 4}, 0), IsOk());
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  EXPECT_FALSE(packer_->needs_shapes());
  packer_->Flush();
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  ASSERT_TRUE(packer_->needs_shapes());
  EXPECT_EQ(packer_->calibration().sizes().num_graphs(), 2U);
  ASSERT_THAT(stream_->SetShapes(*packer_), IsOk());
  const std::vector<Batch> batches = TakeBatches(*packer_);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_THAT(batches[0].graph_ids, ElementsAre(0, 1));
}

TEST_F(FewGraphsTest, MaxDelayCountsFromTheArrivalOfAHeldGraph) {
  StreamPackerOptions options = SizesOnly();
  options.packing.max_delay = absl::Seconds(5);
  Open(options, NodesAndEdgesUpTo(100, 100), 10);
  EXPECT_EQ(packer_->NextDeadline(), absl::InfiniteFuture());
  ASSERT_THAT(Offer({3}, 0), IsOk());
  EXPECT_THAT(TakeBatches(*packer_, kBegin), IsEmpty());
  ASSERT_THAT(Offer({4}, 1), IsOk());
  EXPECT_THAT(TakeBatches(*packer_, kBegin + absl::Seconds(4)), IsEmpty());
  EXPECT_FALSE(packer_->needs_shapes());
  EXPECT_EQ(packer_->NextDeadline(), kBegin + absl::Seconds(5));
  EXPECT_THAT(TakeBatches(*packer_, kBegin + absl::Seconds(5)), IsEmpty());
  ASSERT_TRUE(packer_->needs_shapes());
  EXPECT_EQ(packer_->NextDeadline(), absl::InfiniteFuture());
  ASSERT_THAT(stream_->SetShapes(*packer_), IsOk());
  // The choice took no time: the first graph is overdue.
  EXPECT_EQ(TakeBatches(*packer_, kBegin + absl::Seconds(5)).size(), 1U);
  EXPECT_EQ(packer_->num_pending(), 0U);
}

// After a long search all held graphs are overdue; that is no reason for many batches of a few.
TEST_F(FewGraphsTest, OverdueHeldGraphsMakeFullBatches) {
  StreamPackerOptions options = SizesOnly();
  options.packing.max_delay = absl::Seconds(5);
  options.packing.look_ahead = 8;
  Open(options, NodesAndEdgesUpTo(100, 100), 300);
  ASSERT_THAT(Offer(std::vector<uint32_t>(200, 5), 0), IsOk());
  EXPECT_THAT(TakeBatches(*packer_, kBegin), IsEmpty());
  EXPECT_THAT(TakeBatches(*packer_, kBegin + absl::Seconds(5)), IsEmpty());
  ASSERT_TRUE(packer_->needs_shapes());
  ASSERT_THAT(stream_->SetShapes(*packer_), IsOk());
  const uint64_t full = packer_->capacities()[0] / 5;
  const std::vector<Batch> batches = TakeBatches(*packer_, kBegin + absl::Seconds(60));
  ASSERT_EQ(batches.size(), (200 + full - 1) / full);
  for (size_t i = 0; i + 1 < batches.size(); ++i) EXPECT_EQ(batches[i].real_rows[2], full);
  EXPECT_EQ(packer_->num_pending(), 0U);
}

TEST_F(FewGraphsTest, TheBoundOfPendingBytesEndsTheCalibration) {
  StreamPackerOptions options = SizesOnly();
  options.bounds.max_pending_bytes = 2080;  // Ten graphs of sizes, which are counted too.
  Open(options, NodesAndEdgesUpTo(100, 100), 1000);
  ASSERT_THAT(Offer(std::vector<uint32_t>(10, 1), 0), IsOk());
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  EXPECT_FALSE(packer_->needs_shapes());
  ASSERT_THAT(Offer({1}, 10), IsOk());
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  EXPECT_TRUE(packer_->needs_shapes());
}

TEST_F(FewGraphsTest, TheQuotaOfHeldGraphsIsGivenBack) {
  ByteQuota quota(1 << 20);
  StreamPackerOptions options = SizesOnly();
  options.bounds.quota = &quota;
  Open(options, NodesAndEdgesUpTo(100, 100), 1000);
  ASSERT_THAT(Offer(std::vector<uint32_t>(8, 1), 0), IsOk());
  EXPECT_EQ(quota.held(), 8U * (88 + Calibration::BytesPerGraph(2)));
  packer_.reset();
  EXPECT_EQ(quota.held(), 0U);
}

TEST_F(FewGraphsTest, AGraphThatTheProfileCannotTakeIsRejectedAtOnce) {
  DeviceProfile profile = NodesAndEdgesUpTo(100, 200);
  profile.components[0].multiple_of = 8;
  profile.components[0].bytes_per_row = 10;
  profile.memory_bytes = 900;
  Open(SizesOnly(), profile, 3);
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, Offer({97, 2, 89, 88}, 0));
  // 89 nodes take 96 rows.
  EXPECT_THAT(rejections,
              ElementsAre(Rejection{0, 0, 97, 96}, Rejection{2, Rejection::kMemory, 960, 900}));
  EXPECT_EQ(packer_->calibration().sizes().num_graphs(), 2U);
  // Its id is free again.
  ASSERT_THAT(Offer({2}, 0), IsOk());
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  ASSERT_TRUE(packer_->needs_shapes());
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> late, stream_->SetShapes(*packer_));
  EXPECT_THAT(late, IsEmpty());
}

TEST_F(FewGraphsTest, AProfileThatTakesNoGraphRejectsAll) {
  Open(SizesOnly(), NodesAndEdgesUpTo(2, 2), 3);
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, Offer({3, 4, 5}, 0));
  EXPECT_EQ(rejections.size(), 3U);
  packer_->Flush();
  EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
  EXPECT_FALSE(packer_->needs_shapes());
}

// Nodes and edges share the memory: no shape takes a graph of many nodes and one of many edges.
TEST_F(FewGraphsTest, AHeldGraphThatTheShapesDoNotTakeIsRejectedOrAnError) {
  for (const bool is_error : {false, true}) {
    StreamPackerOptions options = SizesOnly();
    options.oversize_is_error = is_error;
    DeviceProfile profile = NodesAndEdgesUpTo(100, 100);
    profile.components[0].bytes_per_row = 1;
    profile.components[1].bytes_per_row = 1;
    profile.memory_bytes = 110;
    Open(options, profile, 4);
    ASSERT_THAT(packer_->Offer(SizesChunk(*schema_, {100, 1, 2, 90, 3, 3, 4, 4}, 0)), IsOk());
    EXPECT_THAT(TakeBatches(*packer_), IsEmpty());
    ASSERT_TRUE(packer_->needs_shapes());
    const absl::StatusOr<std::vector<Rejection>> rejections = stream_->SetShapes(*packer_);
    if (is_error) {
      EXPECT_THAT(rejections, StatusIs(absl::StatusCode::kOutOfRange,
                                       HasSubstr("graph 0 has 100 nodes, a batch takes at most")));
    } else {
      ASSERT_THAT(rejections, IsOk());
      ASSERT_EQ(rejections->size(), 1U);
      EXPECT_EQ((*rejections)[0].graph_id, 0U);
    }
    packer_->Flush();
    size_t packed = 0;
    for (const Batch& batch : TakeBatches(*packer_)) packed += batch.graph_ids.size();
    EXPECT_EQ(packed, 3U);
    EXPECT_EQ(packer_->num_rejected(), 1U);
  }
}

}  // namespace
}  // namespace packhouse
