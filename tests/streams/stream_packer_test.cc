#include "service/engine/streams/stream_packer.h"

#include <malloc.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/uncollate.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Time kStart = absl::UnixEpoch();

// Adds up what it is told.
struct Tally {
  uint64_t batches = 0;
  uint64_t graphs = 0;
  uint64_t rejected = 0;
  uint64_t pending_graphs = 0;
  uint64_t pending_bytes = 0;
  uint64_t most_pending_bytes = 0;
};

class TallyingObserver final : public PackObserver {
 public:
  explicit TallyingObserver(Tally* tally) : tally_(tally) {}
  void OnBatch(const Batch& batch, absl::Span<const uint64_t>) override {
    ++tally_->batches;
    tally_->graphs += batch.graph_ids.size();
  }
  void OnRejectedTooLarge(uint64_t graphs) override { tally_->rejected += graphs; }
  void OnPending(uint64_t graphs, uint64_t bytes) override {
    tally_->pending_graphs = graphs;
    tally_->pending_bytes = bytes;
    tally_->most_pending_bytes = std::max(tally_->most_pending_bytes, bytes);
  }

 private:
  Tally* const tally_;
};

// A stream of sizes with components nodes, edges and the given limits.
class SizesStreamTest : public ::testing::Test {
 protected:
  absl::Status Open(std::vector<uint64_t> capacities, StreamPackerOptions options = {}) {
    options.capacities = std::move(capacities);
    options.whole_graphs = false;
    auto created =
        StreamPacker::Create(schema_, options, std::make_unique<TallyingObserver>(&tally_));
    if (!created.ok()) return created.status();
    packer_ = *std::move(created);
    return absl::OkStatus();
  }

  // Sizes (n, n) for each n.
  absl::StatusOr<std::vector<Rejection>> Offer(const std::vector<uint32_t>& sizes,
                                               uint64_t first_id) {
    std::vector<uint32_t> counts;
    for (const uint32_t n : sizes) counts.insert(counts.end(), {n, n});
    return packer_->Offer(GraphChunk::OfSizes(
        schema_.get(), SizeTable::WithConsecutiveIds(sizes.size(), 2, counts, first_id).value()));
  }

  std::vector<Batch> TakeAll(absl::Time now = kStart) {
    std::vector<Batch> batches;
    for (;;) {
      auto batch = packer_->Next(now);
      EXPECT_THAT(batch, IsOk());
      if (!batch.ok() || !*batch) return batches;
      batches.push_back(**std::move(batch));
    }
  }

  std::shared_ptr<const GraphSchema> schema_ = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  Tally tally_;
  std::unique_ptr<StreamPacker> packer_;
};

// Ids that only one pending graph has are kept in a set: 9 bytes, which may be there 16 / 7 times.
TEST_F(SizesStreamTest, AnIdTakesFewBytes) {
  constexpr size_t kGraphs = (size_t{7} << 14) + 1;
  ASSERT_THAT(Open({kUnlimited, kUnlimited, 1000}), IsOk());
  // Smaller ids than one before have to be kept.
  ASSERT_THAT(Offer({1}, uint64_t{1} << 40), IsOk());
  SizeTable table =
      SizeTable::WithConsecutiveIds(kGraphs, 2, std::vector<uint32_t>(2 * kGraphs), 5).value();
  GraphChunk chunk = GraphChunk::OfSizes(schema_.get(), std::move(table));
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = allocated();
  ASSERT_THAT(packer_->Offer(std::move(chunk)), IsOk());
  EXPECT_LE(allocated(), before + 24 * kGraphs);
}

TEST_F(SizesStreamTest, ExactlyFullFitsAndOneOverIsRejected) {
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, Offer({10, 11, 0}, 5));
  EXPECT_THAT(rejections, ElementsAre(Rejection{6, 0, 11, 10}));
  packer_->Flush();
  std::set<uint64_t> ids;
  for (const Batch& batch : TakeAll()) ids.insert(batch.graph_ids.begin(), batch.graph_ids.end());
  EXPECT_THAT(ids, ElementsAre(5, 7));
  EXPECT_EQ(tally_.rejected, 1U);
  EXPECT_EQ(packer_->num_pending(), 0U);
  EXPECT_EQ(packer_->pending_bytes(), 0U);
}

// With minimums a batch is full just when one more graph would leave too few rows for the padding
// graphs: TF-GNN's own test of what fits.
TEST_F(SizesStreamTest, MinimumsLeaveRowsForPaddingGraphs) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const uint64_t graphs = random.Between(2, 7);
    const uint64_t least = random.Between(1, 3);
    const uint64_t nodes = least * graphs + random.Below(20);
    StreamPackerOptions options;
    options.padding = Padding::kTfgnn;
    options.packing.look_ahead = 1;
    options.min_rows = MinRows({static_cast<uint32_t>(least), 0});
    ASSERT_THAT(Open({nodes, 1000, graphs}, options), IsOk());
    std::vector<uint32_t> sizes;
    for (size_t i = 0; i < 30; ++i) sizes.push_back(random.Below(nodes + 2));
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, Offer(sizes, 0));
    const auto fits = [&](uint64_t rows, uint64_t real) {
      return real < graphs && rows + least * (graphs - real) <= nodes;
    };
    std::set<uint64_t> rejected;
    for (const Rejection& rejection : rejections) {
      EXPECT_TRUE(rejected.insert(rejection.graph_id).second);
      const uint32_t size = sizes[rejection.graph_id];
      EXPECT_EQ(rejection.value, size);
      EXPECT_EQ(rejection.is_too_small, size < least);
      EXPECT_EQ(rejection.bound, size < least ? least : nodes - least * (graphs - 1));
      EXPECT_TRUE(size < least || !fits(size, 1)) << size;
    }
    packer_->Flush();
    const std::vector<Batch> batches = TakeAll();
    uint64_t next = 0;
    for (const Batch& batch : batches) {
      uint64_t rows = 0;
      for (const uint64_t id : batch.graph_ids) {
        while (rejected.contains(next)) ++next;
        EXPECT_EQ(id, next++);  // Next-fit keeps the order.
        rows += sizes[id];
      }
      EXPECT_TRUE(fits(rows, batch.graph_ids.size())) << rows;
      while (rejected.contains(next)) ++next;
      if (next < sizes.size()) {
        EXPECT_FALSE(fits(rows + sizes[next], batch.graph_ids.size() + 1));
      }
    }
    while (rejected.contains(next)) ++next;
    EXPECT_EQ(next, sizes.size());
  }
}

TEST_F(SizesStreamTest, OversizeAsAnErrorAcceptsNothingOfTheChunk) {
  StreamPackerOptions options;
  options.oversize_is_error = true;
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}, options), IsOk());
  EXPECT_THAT(Offer({3, 11}, 0),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("graph 1 has 11 nodes, a batch takes at most 10")));
  packer_->Flush();
  EXPECT_THAT(TakeAll(), IsEmpty());
}

TEST_F(SizesStreamTest, AnIdMayComeAgainOnlyOnceItsBatchIsOut) {
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}), IsOk());
  ASSERT_THAT(Offer({1, 2}, 0), IsOk());
  EXPECT_THAT(TakeAll(), IsEmpty());
  EXPECT_THAT(Offer({3}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graph id 1 occurs twice")));
  packer_->Flush();
  EXPECT_EQ(TakeAll().size(), 1U);
  EXPECT_THAT(Offer({3}, 1), IsOk());
}

// Ids that ascend are not kept, so the rule is held against a list of the pending ones.
TEST_F(SizesStreamTest, ExactlyPendingIdsAreRefused) {
  int num_refused = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    StreamPackerOptions options;
    options.packing.look_ahead = 1 + random.Below(8);
    ASSERT_THAT(Open({10, kUnlimited, kUnlimited}, options), IsOk());
    std::set<uint64_t> pending;
    uint64_t next_id = random.Below(3);
    for (int chunk = 0; chunk < 30; ++chunk) {
      const bool ascends = chunk < static_cast<int>(seed % 30) || random.Below(2) == 0;
      const uint64_t first_id = ascends ? next_id : random.Below(next_id + 1);
      std::vector<uint32_t> sizes(random.Below(6));
      bool is_pending = false;
      for (size_t i = 0; i < sizes.size(); ++i) {
        sizes[i] = static_cast<uint32_t>(random.Below(13));  // Some are too large.
        is_pending |= pending.contains(first_id + i);
      }
      const auto rejections = Offer(sizes, first_id);
      if (is_pending) {
        EXPECT_THAT(rejections,
                    StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("occurs twice")));
        ++num_refused;
        continue;
      }
      ASSERT_THAT(rejections, IsOk());
      for (size_t i = 0; i < sizes.size(); ++i) pending.insert(first_id + i);
      for (const Rejection& rejection : *rejections) pending.erase(rejection.graph_id);
      next_id = std::max(next_id, first_id + sizes.size());
      if (random.Below(8) == 0) packer_->Flush();
      for (const Batch& batch : TakeAll()) {
        for (const uint64_t id : batch.graph_ids) EXPECT_EQ(pending.erase(id), 1U) << id;
      }
      EXPECT_EQ(packer_->num_pending(), pending.size());
    }
  }
  EXPECT_GT(num_refused, 300);
}

// Graphs that share an id are pending until the last of them is out.
TEST_F(SizesStreamTest, AnIdOfSeveralGraphsIsPendingUntilTheLastIsOut) {
  StreamPackerOptions options;
  options.packing.look_ahead = 1;
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}, options), IsOk());
  const auto offer = [&](const std::vector<uint64_t>& ids) {
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < ids.size(); ++i) counts.insert(counts.end(), {6, 0});
    return packer_
        ->Offer(GraphChunk::OfSizes(schema_.get(),
                                    SizeTable::WithAnyIds(ids.size(), 2, counts, ids).value()))
        .status();
  };
  // A smaller id than before: from now on ids are kept.
  ASSERT_THAT(offer({90}), IsOk());
  EXPECT_THAT(TakeAll(), IsEmpty());
  ASSERT_THAT(offer({7, 5, 7, 5, 7, 8}), IsOk());
  const auto is_pending = [](uint64_t id) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: graph id ", id, " occurs twice: it is still pending"));
  };
  // One graph to a batch: 90, 7, 5, 7, 5, 7, and 8 stays.
  const std::vector<std::vector<uint64_t>> pending = {{5, 7, 8}, {5, 7, 8}, {5, 7, 8},
                                                      {5, 7, 8}, {7, 8},    {8}};
  for (const std::vector<uint64_t>& ids : pending) {
    PH_ASSERT_OK_AND_ASSIGN(const std::optional<Batch> batch, packer_->Next(kStart));
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->graph_ids.size(), 1U);
    for (const uint64_t id : ids) EXPECT_EQ(offer({id}), is_pending(id));
  }
  EXPECT_THAT(TakeAll(), IsEmpty());
  EXPECT_EQ(packer_->num_pending(), 1U);
  EXPECT_THAT(offer({5, 7, 90}), IsOk());
  EXPECT_EQ(offer({8}), is_pending(8));
}

// Each kind of graph that no batch takes, by its whole words.
TEST_F(SizesStreamTest, WhatNoBatchTakesIsNamed) {
  StreamPackerOptions options;
  options.oversize_is_error = true;
  options.padding = Padding::kTfgnn;
  options.min_rows = MinRows({3, 0});
  ASSERT_THAT(Open({20, 1000, 3}, options), IsOk());
  EXPECT_EQ(Offer({5, 2}, 7).status(),
            absl::OutOfRangeError("chunk: graph 8 has 2 nodes, a graph has at least 3"));
  EXPECT_EQ(Offer({5, 15}, 7).status(),
            absl::OutOfRangeError("chunk: graph 8 has 15 nodes, a batch takes at most 14"));

  StreamPackerOptions calibrated;
  calibrated.oversize_is_error = true;
  DeviceProfile profile;
  profile.components = {{.max_rows = 100, .bytes_per_row = 8},
                        {.max_rows = 100},
                        {.max_rows = 0, .relative_cost = 0}};
  profile.memory_bytes = 100;
  profile.fixed_bytes = 4;
  calibrated.calibration = CalibrationOptions{profile, 10};
  ASSERT_THAT(Open({}, calibrated), IsOk());
  EXPECT_EQ(
      Offer({5, 13}, 7).status(),
      absl::OutOfRangeError("chunk: graph 8 needs a batch of 108 bytes, memory_bytes is 100"));
  EXPECT_EQ(packer_->num_offered(), 0U);
  EXPECT_EQ(packer_->pending_bytes(), 0U);
}

TEST_F(SizesStreamTest, AChunkOfWhichNoGraphIsLeftIsLetGo) {
  ByteQuota quota(10'000);
  StreamPackerOptions options;
  options.bounds.quota = &quota;
  DeviceProfile profile;
  profile.components = {{.max_rows = 100}, {.max_rows = 100}, {.max_rows = 0, .relative_cost = 0}};
  options.calibration = CalibrationOptions{profile, 3};
  ASSERT_THAT(Open({}, options), IsOk());
  ASSERT_THAT(Offer({20, 30}, 0), IsOk());
  const uint64_t first = packer_->pending_bytes();
  ASSERT_THAT(Offer({3}, 2), IsOk());
  const uint64_t second = packer_->pending_bytes() - first;
  EXPECT_THAT(TakeAll(), IsEmpty());
  ASSERT_TRUE(packer_->needs_shapes());
  BatchShapeOptions batches;
  batches.whole_graphs = false;
  const std::vector<uint64_t> limits = {10, 10, 5};
  std::vector<StreamShape> shapes = {
      {BatchShape::Resolve(*schema_, limits, batches).value(), limits}};
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, packer_->SetShapes(shapes));
  EXPECT_THAT(rejections, ElementsAre(Rejection{0, 0, 20, 10}, Rejection{1, 0, 30, 10}));
  EXPECT_EQ(packer_->pending_bytes(), second);
  EXPECT_EQ(quota.held(), second);
  EXPECT_EQ(tally_.rejected, 2U);
  EXPECT_EQ(tally_.pending_graphs, 1U);
  EXPECT_EQ(tally_.pending_bytes, second);
  packer_->Flush();
  const std::vector<Batch> batches_made = TakeAll();
  ASSERT_EQ(batches_made.size(), 1U);
  EXPECT_THAT(batches_made[0].graph_ids, ElementsAre(2));
  EXPECT_EQ(quota.held(), 0U);
}

TEST_F(SizesStreamTest, LimitsThatCannotWorkAreRefused) {
  EXPECT_THAT(
      Open({kUnlimited, kUnlimited, kUnlimited}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no component has a capacity")));
  EXPECT_THAT(Open({10, 10}), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("2 capacities for 3 components")));
  StreamPackerOptions padded;
  padded.padding = Padding::kGraph;
  EXPECT_THAT(Open({10, 10, kUnlimited}, padded),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("padding needs a capacity of component 'graphs'")));
  EXPECT_THAT(Open({10, 10, 1}, padded),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("capacity 1 of component 'graphs' leaves no room")));
  ASSERT_THAT(Open({10, 10, 3}, padded), IsOk());
  EXPECT_THAT(packer_->usable().capacities(), ElementsAre(9, 10, 2));
}

TEST_F(SizesStreamTest, EmptyGraphsAreBoundedByTheServersOwnLimit) {
  StreamPackerOptions options;
  options.bounds.max_graphs_per_batch = 100;
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}, options), IsOk());
  EXPECT_EQ(packer_->capacities().back(), 100U);
  ASSERT_THAT(Offer(std::vector<uint32_t>(1000, 0), 0), IsOk());
  const std::vector<Batch> batches = TakeAll();
  EXPECT_GE(batches.size(), 8U);
  for (const Batch& batch : batches) EXPECT_EQ(batch.graph_ids.size(), 100U);
}

TEST_F(SizesStreamTest, MaxDelayGivesOutPartFilledBatches) {
  StreamPackerOptions options;
  options.packing.max_delay = absl::Seconds(5);
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}, options), IsOk());
  EXPECT_EQ(packer_->NextDeadline(), absl::InfiniteFuture());
  ASSERT_THAT(Offer({1, 2, 3}, 0), IsOk());
  EXPECT_THAT(TakeAll(), IsEmpty());
  EXPECT_EQ(packer_->NextDeadline(), kStart + absl::Seconds(5));
  EXPECT_THAT(TakeAll(kStart + absl::Seconds(4)), IsEmpty());
  const std::vector<Batch> batches = TakeAll(kStart + absl::Seconds(5));
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].graph_ids.size(), 3U);
  EXPECT_EQ(packer_->NextDeadline(), absl::InfiniteFuture());
}

TEST_F(SizesStreamTest, PendingBytesAreBoundedByPackingEarly) {
  StreamPackerOptions options;
  options.bounds.max_pending_bytes = 8800;  // A graph of sizes takes 88 bytes: 100 graphs.
  options.packing.look_ahead = 10000;
  ASSERT_THAT(Open({1000000, kUnlimited, kUnlimited}, options), IsOk());
  EXPECT_THAT(Offer(std::vector<uint32_t>(101, 1), 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("8888 bytes with what is kept beside its graphs, at most 8800")));
  uint64_t packed = 0;
  for (uint64_t chunk = 0; chunk < 50; ++chunk) {
    ASSERT_THAT(Offer(std::vector<uint32_t>(60, 1), chunk * 60), IsOk());
    for (const Batch& batch : TakeAll()) packed += batch.graph_ids.size();
    EXPECT_LE(packer_->pending_bytes(), 8800U);
  }
  packer_->Flush();
  for (const Batch& batch : TakeAll()) packed += batch.graph_ids.size();
  EXPECT_EQ(packed, 50U * 60);
  EXPECT_LE(tally_.most_pending_bytes, 2U * 8800);
}

TEST_F(SizesStreamTest, AGraphBeyondTheLargestCapacityIsRejectedWithoutAnyLimit) {
  ASSERT_THAT(Open({kUnlimited, kUnlimited, 5}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, Offer({1, 1U << 31, 2}, 0));
  EXPECT_THAT(rejections, ElementsAre(Rejection{1, 0, 1U << 31, (1U << 31) - 1}));
  packer_->Flush();
  const std::vector<Batch> batches = TakeAll();
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].graph_ids.size(), 2U);
}

TEST_F(SizesStreamTest, TheQuotaOfAllStreamsIsGivenBack) {
  ByteQuota quota(1000);  // 11 graphs.
  StreamPackerOptions options;
  options.bounds.quota = &quota;
  ASSERT_THAT(Open({10, kUnlimited, kUnlimited}, options), IsOk());
  ASSERT_THAT(Offer(std::vector<uint32_t>(8, 1), 0), IsOk());
  EXPECT_EQ(quota.held(), 8U * 88);
  EXPECT_THAT(TakeAll(), IsEmpty());
  EXPECT_THAT(Offer(std::vector<uint32_t>(8, 1), 8),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("704 bytes beside the 704 that are pending in all streams, at "
                                 "most 1000")));
  packer_->Flush();
  EXPECT_EQ(TakeAll().size(), 1U);
  EXPECT_EQ(quota.held(), 0U);
  ASSERT_THAT(Offer(std::vector<uint32_t>(8, 1), 8), IsOk());
  packer_.reset();
  EXPECT_EQ(quota.held(), 0U);
}

TEST_F(SizesStreamTest, WatchersSeeTheLimitsThatWereAskedFor) {
  class Watcher final : public PackObserver {
   public:
    explicit Watcher(std::vector<uint64_t>* seen) : seen_(seen) {}
    void OnBatch(const Batch&, absl::Span<const uint64_t> capacities) override {
      seen_->assign(capacities.begin(), capacities.end());
    }
    void OnRejectedTooLarge(uint64_t) override {}
    void OnPending(uint64_t, uint64_t) override {}

   private:
    std::vector<uint64_t>* const seen_;
  };
  std::vector<uint64_t> seen;
  StreamPackerOptions options;
  options.capacities = {10, kUnlimited, kUnlimited};
  options.whole_graphs = false;
  packer_ = StreamPacker::Create(schema_, options, std::make_unique<Watcher>(&seen)).value();
  ASSERT_THAT(Offer({3}, 0), IsOk());
  packer_->Flush();
  EXPECT_EQ(TakeAll().size(), 1U);
  EXPECT_EQ(seen, options.capacities);
}

// Rows of one byte and no limit on them: the bytes of a batch are the limit.
TEST(StreamPackerTest, ARaggedBatchIsBoundedByItsBytes) {
  const auto schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt8, {}, 0, {}, {}}})
          .value());
  StreamPackerOptions options;
  options.capacities = {kUnlimited, 1000, kUnlimited};
  options.bounds.max_batch_bytes = 100;
  Tally tally;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto packer,
      StreamPacker::Create(schema, options, std::make_unique<TallyingObserver>(&tally)));
  const std::string rows(40 + 101 + 40 + 40, 'x');
  PH_ASSERT_OK_AND_ASSIGN(
      GraphChunk chunk,
      GraphChunk::Create(
          schema.get(),
          SizeTable::WithConsecutiveIds(4, 2, {40, 0, 101, 0, 40, 0, 40, 0}, 0).value(), {rows},
          nullptr));
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<Rejection> rejections, packer->Offer(chunk));
  EXPECT_THAT(rejections, ElementsAre(Rejection{1, Rejection::kBytes, 101, 100}));
  options.oversize_is_error = true;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto strict,
      StreamPacker::Create(schema, options, std::make_unique<TallyingObserver>(&tally)));
  EXPECT_EQ(strict->Offer(chunk).status(),
            absl::OutOfRangeError("chunk: graph 1 has 101 bytes, a batch takes at most 100"));
  packer->Flush();
  std::vector<size_t> batch_sizes;
  while (auto batch = packer->Next(kStart).value()) batch_sizes.push_back(batch->graph_ids.size());
  EXPECT_THAT(batch_sizes, ElementsAre(2, 1));
}

// The order of tensors does not matter, nor do two index tensors into one component disagree.
TEST(StreamPackerTest, AnUnlimitedComponentIsBoundedByItsNarrowestIndex) {
  for (const bool narrow_first : {true, false}) {
    TensorSpec narrow = {"a", DType::kInt16, {}, 1, 0, {}};
    TensorSpec wide = {"b", DType::kInt64, {}, 1, 0, {}};
    const auto schema = std::make_shared<const GraphSchema>(
        GraphSchema::Create(SizeSchema::NodesAndEdges(),
                            narrow_first ? std::vector{narrow, wide} : std::vector{wide, narrow})
            .value());
    StreamPackerOptions options;
    options.capacities = {kUnlimited, 10, kUnlimited};
    Tally tally;
    PH_ASSERT_OK_AND_ASSIGN(
        const auto packer,
        StreamPacker::Create(schema, options, std::make_unique<TallyingObserver>(&tally)));
    EXPECT_EQ(packer->capacities()[0], 32767U);
    options.padding = Padding::kMasked;
    options.capacities[2] = 4;
    EXPECT_THAT(
        StreamPacker::Create(schema, options, std::make_unique<TallyingObserver>(&tally)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("capacity of component 'nodes'")));
  }
}

// Conservation: whatever the schema, limits, chunks and flushes, every graph comes back in exactly
// one batch or rejection, as it was sent, and no batch is overfilled.
TEST(StreamPackerTest, EveryGraphComesBackOnceAsItWas) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto schema = std::make_shared<const GraphSchema>(RandomSchema(random));
    const size_t l = schema->num_components();
    StreamPackerOptions options;
    options.padding = static_cast<Padding>(random.Below(3));
    const std::vector<uint64_t> reserved = ReservedRows(*schema, options.padding);
    for (size_t k = 0; k <= l; ++k) {
      const bool unlimited = options.padding == Padding::kNone && k < l && random.Below(3) == 0;
      options.capacities.push_back(unlimited ? kUnlimited : reserved[k] + random.Between(1, 12));
    }
    options.packing.look_ahead = random.Between(1, 20);
    options.derived.masks = random.Below(2) == 0;
    options.bounds.max_pending_bytes = random.Below(4) == 0 ? 5000 : 1 << 20;
    Tally tally;
    PH_ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<StreamPacker> packer,
        StreamPacker::Create(schema, options, std::make_unique<TallyingObserver>(&tally)));

    std::vector<GraphChunk> sent;
    std::map<uint64_t, std::pair<size_t, size_t>> expected;  // id -> chunk, graph
    const auto take_all = [&] {
      for (;;) {
        auto batch = packer->Next(kStart);
        ASSERT_THAT(batch, IsOk());
        if (!*batch) return;
        for (size_t k = 0; k <= l; ++k) {
          EXPECT_LE((*batch)->real_rows[k], packer->usable().capacity(k));
        }
        PH_ASSERT_OK_AND_ASSIGN(const GraphChunk back, Uncollate(schema.get(), **batch));
        for (size_t i = 0; i < back.num_graphs(); ++i) {
          const auto found = expected.find(back.sizes().graph_id(i));
          ASSERT_NE(found, expected.end()) << "id " << back.sizes().graph_id(i);
          EXPECT_TRUE(SameGraph(back, i, sent[found->second.first], found->second.second));
          expected.erase(found);
        }
      }
    };
    for (size_t chunk = 0; chunk < 8; ++chunk) {
      sent.push_back(RandomChunk(random, schema.get(), random.Below(12), 8, chunk * 1000));
      for (size_t i = 0; i < sent.back().num_graphs(); ++i) {
        expected[sent.back().sizes().graph_id(i)] = {chunk, i};
      }
      auto rejections = packer->Offer(sent.back());
      if (!rejections.ok()) {
        // Only a chunk above the bound on pending bytes, and then nothing of it is accepted.
        EXPECT_THAT(rejections, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes")));
        for (size_t i = 0; i < sent.back().num_graphs(); ++i) {
          expected.erase(sent.back().sizes().graph_id(i));
        }
        continue;
      }
      for (const Rejection& rejection : *rejections) {
        EXPECT_GT(rejection.value, rejection.bound);
        ASSERT_EQ(expected.erase(rejection.graph_id), 1U);
      }
      take_all();
      if (random.Below(4) == 0) {
        packer->Flush();
        take_all();
        EXPECT_EQ(packer->num_pending(), 0U);
        EXPECT_EQ(tally.pending_bytes, 0U);
      }
    }
    packer->Flush();
    take_all();
    EXPECT_THAT(expected, IsEmpty());
    EXPECT_EQ(tally.graphs, packer->num_packed());
    EXPECT_EQ(tally.pending_graphs, 0U);
  }
}

// Same data, same limits: same batches, however the data is cut into chunks, and the work into
// calls of Next().
TEST(StreamPackerTest, BatchesDoNotDependOnChunks) {
  const auto schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  const auto pack = [&](size_t chunk_size, size_t max_graphs = SIZE_MAX) {
    StreamPackerOptions options;
    options.capacities = {100, 220, kUnlimited};
    options.whole_graphs = false;
    Tally tally;
    auto packer =
        StreamPacker::Create(schema, options, std::make_unique<TallyingObserver>(&tally)).value();
    Random random(7);
    std::vector<std::vector<uint64_t>> packs;
    std::vector<uint32_t> counts;
    const auto take_all = [&] {
      for (;;) {
        auto batch = packer->Next(kStart, max_graphs).value();
        if (batch) {
          packs.push_back(batch->graph_ids);
        } else if (!packer->is_feeding()) {
          return;
        }
      }
    };
    for (uint64_t i = 0; i < 3000; ++i) {
      const uint32_t nodes = random.Between(1, 60);
      counts.insert(counts.end(), {nodes, 2 * nodes});
      if (counts.size() / 2 == chunk_size || i == 2999) {
        const uint64_t n = counts.size() / 2;
        SizeTable table = SizeTable::WithConsecutiveIds(n, 2, std::move(counts), i + 1 - n).value();
        EXPECT_THAT(packer->Offer(GraphChunk::OfSizes(schema.get(), std::move(table))), IsOk());
        counts.clear();
        take_all();
      }
    }
    packer->Flush();
    take_all();
    return packs;
  };
  const auto packs = pack(1);
  EXPECT_EQ(packs, pack(7));
  EXPECT_EQ(packs, pack(3000));
  EXPECT_EQ(packs, pack(3000, 1));
  EXPECT_EQ(packs, pack(7, 5));
}

}  // namespace
}  // namespace packhouse
