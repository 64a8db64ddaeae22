// Epochs of sub-graphs through the service: each seed once, whatever happens.
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "tests/rpc/sampling_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class SampledEpochTest : public SamplingServerTest {
 protected:
  static constexpr uint32_t kWindow = 60;

  static v1::EpochSpec Spec(const std::string& job) {
    v1::EpochSpec spec;
    spec.set_job(job);
    spec.set_seed(3);
    spec.set_padding(v1::PADDING_MASKED);
    v1::Limits& limits = *spec.add_rank_groups()->add_shapes();
    for (const auto& [component, rows] :
         {std::pair("n", 64), std::pair("e", 80), std::pair("graphs", 16)}) {
      v1::Capacity& capacity = *limits.add_capacities();
      capacity.set_component(component);
      capacity.set_rows(static_cast<uint64_t>(rows));
    }
    *spec.mutable_samples()->mutable_sub_graphs() = TwoHops();
    spec.mutable_samples()->set_window(kWindow);
    return spec;
  }

  struct Loaded {
    absl::Status status;
    v1::LoadOpened opened;
    std::vector<v1::LoadedBatch> batches;
    uint64_t num_steps = 0;
    bool ended = false;
  };

  // Loads as a rank, acknowledging each batch, until the end or until `most` batches came.
  Loaded Load(const v1::EpochSpec& spec, uint32_t rank, uint32_t num_ranks, size_t most = SIZE_MAX,
              const std::string& cursor = "") {
    const auto stub = v1::LoaderService::NewStub(channel_);
    grpc::ClientContext context;
    v1::LoadRequest request;
    *request.mutable_epoch() = spec;
    request.mutable_ranked()->set_rank(rank);
    request.mutable_ranked()->set_num_ranks(num_ranks);
    request.set_max_in_flight(1);
    request.set_cursor(cursor);
    const auto stream = stub->Load(&context, request);
    Loaded loaded;
    v1::LoadResponse response;
    while (loaded.batches.size() < most && stream->Read(&response)) {
      if (response.has_opened()) {
        loaded.opened = response.opened();
      } else if (response.has_end_of_epoch()) {
        loaded.num_steps = response.end_of_epoch().num_steps();
        loaded.ended = true;
      } else {
        loaded.batches.push_back(response.batch());
        last_cursor_ = Acknowledge(spec, loaded.opened.generation(), response.batch().batch().id());
      }
    }
    if (loaded.batches.size() >= most) context.TryCancel();
    loaded.status = ToAbsl(stream->Finish());
    return loaded;
  }

  std::string Acknowledge(const v1::EpochSpec& spec, uint64_t generation, uint64_t batch) {
    grpc::ClientContext context;
    v1::AcknowledgeRequest request;
    request.set_job(spec.job());
    request.set_epoch(spec.epoch());
    request.set_generation(generation);
    request.add_batches(batch);
    v1::AcknowledgeResponse response;
    EXPECT_THAT(
        ToAbsl(v1::LoaderService::NewStub(channel_)->Acknowledge(&context, request, &response)),
        IsOk());
    return response.cursor();
  }

  // Batches that have graphs, by their numbers: what was sent, without the step.
  static void Collect(const Loaded& loaded, std::map<uint64_t, std::string>& contents) {
    for (v1::LoadedBatch batch : loaded.batches) {
      if (batch.is_padding()) continue;
      batch.mutable_batch()->clear_step();
      const uint64_t id = batch.batch().id();
      EXPECT_TRUE(contents.emplace(id, batch.batch().SerializeAsString()).second) << id;
    }
  }

  static std::multiset<uint64_t> SeedsIn(const std::map<uint64_t, std::string>& contents) {
    std::multiset<uint64_t> seeds;
    for (const auto& [id, bytes] : contents) {
      v1::Batch batch;
      EXPECT_TRUE(batch.ParseFromString(bytes));
      for (const uint64_t seed : Uint64sFromWire(batch.graph_ids())) seeds.insert(seed);
    }
    return seeds;
  }

  static std::multiset<uint64_t> AllSeeds() {
    std::multiset<uint64_t> seeds;
    for (uint64_t i = 0; i < kNodes; ++i) seeds.insert(i);
    return seeds;
  }

  std::string last_cursor_;
};

INSTANTIATE_TEST_SUITE_P(All, SampledEpochTest, ::testing::Values(Transport::kInProcess),
                         TransportName);

TEST_P(SampledEpochTest, ASeedThatComesAgainIsDrawnAroundAnew) {
  StartWithGraph();
  v1::EpochSpec spec = Spec("anew");
  spec.mutable_rank_groups(0)->mutable_shapes(0)->mutable_capacities(2)->set_rows(1);
  spec.mutable_samples()->mutable_seeds()->set_numbers(
      Uint32sToWire(std::vector<uint32_t>(40, 12)));
  const Loaded loaded = Load(spec, 0, 1);
  EXPECT_EQ(loaded.batches.size(), 40);
  std::set<std::string> drawn;
  for (const v1::LoadedBatch& each : loaded.batches) {
    v1::Batch batch = each.batch();
    batch.clear_id();
    batch.clear_step();
    batch.clear_graph_ids();
    drawn.insert(batch.SerializeAsString());
  }
  // Of 495 ways to take 4 of its 12 neighbours.
  EXPECT_GT(drawn.size(), 20);
}

TEST_P(SampledEpochTest, WhatIsOfAGraphThatIsThereIsKeptWhileItIsUsed) {
  StartWithGraph();
  const uint64_t idle = server_->working_bytes();
  v1::GetEpochRequest request;
  *request.mutable_epoch() = Spec("");
  grpc::ClientContext context;
  v1::Epoch epoch;
  ASSERT_THAT(ToAbsl(v1::LoaderService::NewStub(channel_)->GetEpoch(&context, request, &epoch)),
              IsOk());
  const uint64_t held = server_->working_bytes();
  EXPECT_GT(held, idle);
  server_->ForgetGone();
  EXPECT_EQ(server_->working_bytes(), held);
  for (int i = 0; i < 2; ++i) server_->ForgetIdleThings();
  EXPECT_EQ(server_->working_bytes(), idle);
}

TEST_P(SampledEpochTest, BatchesAreMadeAgainAsTheyWere) {
  StartWithGraph();
  std::map<uint64_t, std::string> delivered;
  Collect(Load(Spec("again"), 0, 1), delivered);
  ASSERT_FALSE(delivered.empty());
  const auto rebuild = [&](uint64_t epoch, std::vector<uint64_t> numbers) {
    grpc::ClientContext context;
    v1::RebuildBatchesRequest request;
    request.set_job("again");
    request.set_epoch(epoch);
    request.mutable_numbers()->Add(numbers.begin(), numbers.end());
    const auto stream = v1::ReceiptService::NewStub(channel_)->RebuildBatches(&context, request);
    Loaded rebuilt;
    v1::RebuildBatchesResponse response;
    while (stream->Read(&response)) {
      if (response.has_opened()) {
        EXPECT_EQ(response.has_words_of_epoch(), epoch != 0);
      } else {
        rebuilt.batches.push_back(response.batch());
      }
    }
    rebuilt.status = ToAbsl(stream->Finish());
    return rebuilt;
  };
  std::vector<uint64_t> numbers;
  for (const auto& [number, bytes] : delivered) numbers.push_back(number);
  std::map<uint64_t, std::string> rebuilt;
  Collect(rebuild(0, numbers), rebuilt);
  EXPECT_EQ(rebuilt, delivered);
  // Of an epoch that nobody has loaded, in a window that is not planned yet.
  std::map<uint64_t, std::string> later;
  v1::EpochSpec spec = Spec("later");
  spec.set_epoch(5);
  Collect(Load(spec, 0, 1), later);
  const Loaded one = rebuild(5, {later.rbegin()->first});
  ASSERT_THAT(one.status, IsOk());
  EXPECT_EQ(one.batches.at(0).batch().SerializeAsString(), later.rbegin()->second);
  EXPECT_THAT(rebuild(5, {later.size()}).status,
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("batch")));
}

TEST_P(SampledEpochTest, EverySeedOnceAndTheSameBytesOnAnyNumberOfRanks) {
  StartWithGraph();
  std::map<uint64_t, std::string> one;
  const Loaded alone = Load(Spec("one"), 0, 1);
  ASSERT_THAT(alone.status, IsOk());
  EXPECT_TRUE(alone.ended);
  EXPECT_TRUE(alone.opened.num_steps_is_estimate());
  EXPECT_EQ(alone.opened.epoch().samples().num_windows(), (kNodes + kWindow - 1) / kWindow);
  Collect(alone, one);
  EXPECT_EQ(SeedsIn(one), AllSeeds());
  EXPECT_EQ(alone.num_steps, alone.batches.size());
  // Numbers of batches have no gaps.
  EXPECT_EQ(one.rbegin()->first + 1, one.size());
  for (const uint32_t num_ranks : {2u, 3u}) {
    std::map<uint64_t, std::string> several;
    std::set<size_t> steps;
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      const Loaded part = Load(Spec(absl::StrCat("job", num_ranks)), rank, num_ranks);
      ASSERT_THAT(part.status, IsOk());
      steps.insert(part.batches.size());
      Collect(part, several);
    }
    EXPECT_EQ(steps.size(), 1u) << "ranks have different numbers of steps";
    EXPECT_EQ(several, one);
  }
}

// Tells on threads of which priority sub-graphs are drawn.
class PriorityObserver final : public SamplingObserver {
 public:
  void OnDrawn(uint64_t, uint64_t, uint64_t, uint32_t) override {
    absl::MutexLock lock(&mutex_);
    ++draws_[getpriority(PRIO_PROCESS, 0)];
  }
  std::map<int, size_t> draws() const {
    absl::MutexLock lock(&mutex_);
    return draws_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<int, size_t> draws_ ABSL_GUARDED_BY(mutex_);
};

// Streams wait for them, and the call that opens an epoch for its first one: on a busy machine a
// thread of low priority would take minutes for one.
TEST_P(SampledEpochTest, WindowsThatStreamsWaitForArePlannedWithTheirPriority) {
  PriorityObserver observer;
  sampling_observer_ = &observer;
  StartWithGraph();
  const Loaded loaded = Load(Spec("job"), 0, 1);
  ASSERT_THAT(loaded.status, IsOk());
  std::map<int, size_t> draws = observer.draws();
  // Each sub-graph is drawn for its size and for its batch.
  EXPECT_GE(draws[getpriority(PRIO_PROCESS, 0)], 2 * kNodes);
  EXPECT_EQ(draws.size(), 1u);
}

// Not only in another order: the sub-graph of a seed is another one.
TEST_P(SampledEpochTest, AnotherEpochDrawsAnew) {
  StartWithGraph();
  v1::EpochSpec spec = Spec("job");
  // One sub-graph a batch.
  spec.mutable_rank_groups(0)->mutable_shapes(0)->mutable_capacities(2)->set_rows(1);
  const auto drawn = [&](uint64_t epoch) {
    spec.set_epoch(epoch);
    std::map<uint64_t, std::string> by_seed;
    const Loaded loaded = Load(spec, 0, 1);
    EXPECT_THAT(loaded.status, IsOk());
    for (v1::LoadedBatch batch : loaded.batches) {
      v1::Batch& of_seed = *batch.mutable_batch();
      of_seed.clear_id();
      of_seed.clear_epoch();
      of_seed.clear_step();
      const uint64_t seed = Uint64sFromWire(of_seed.graph_ids()).at(0);
      EXPECT_TRUE(by_seed.emplace(seed, of_seed.SerializeAsString()).second) << seed;
    }
    return by_seed;
  };
  const std::map<uint64_t, std::string> first = drawn(0);
  const std::map<uint64_t, std::string> second = drawn(1);
  ASSERT_EQ(first.size(), kNodes);
  ASSERT_EQ(second.size(), kNodes);
  uint64_t num_drawn_anew = 0;
  for (const auto& [seed, bytes] : first) num_drawn_anew += bytes != second.at(seed) ? 1 : 0;
  // Of nodes with few edges all are drawn.
  EXPECT_GT(num_drawn_anew, kNodes / 2);
  EXPECT_LT(num_drawn_anew, kNodes);
}

TEST_P(SampledEpochTest, GoesOnAfterRestartsWithTheSameBytes) {
  StartWithGraph();
  std::map<uint64_t, std::string> undisturbed;
  Collect(Load(Spec("undisturbed"), 0, 1), undisturbed);
  std::map<uint64_t, std::string> parts;
  for (int i = 0; i < 1000; ++i) {
    const Loaded part = Load(Spec("disturbed"), 0, 1, /*most=*/3);
    Collect(part, parts);
    if (part.ended) break;
    if (i % 2 == 0) Restart();
  }
  EXPECT_EQ(parts, undisturbed);
}

TEST_P(SampledEpochTest, ACursorGoesOnWithAnotherNumberOfRanksAndWithoutTheLedger) {
  StartWithGraph();
  std::map<uint64_t, std::string> undisturbed;
  Collect(Load(Spec("undisturbed"), 0, 1), undisturbed);
  std::map<uint64_t, std::string> parts;
  Collect(Load(Spec("job"), 0, 1, /*most=*/11), parts);
  const std::string cursor = last_cursor_;
  grpc::ClientContext context;
  v1::DeleteJobRequest forget;
  forget.set_job("job");
  v1::DeleteJobResponse forgotten;
  ASSERT_THAT(ToAbsl(v1::LoaderService::NewStub(channel_)->DeleteJob(&context, forget, &forgotten)),
              IsOk());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Collect(Load(Spec("job"), rank, 2, SIZE_MAX, cursor), parts);
  }
  EXPECT_EQ(parts, undisturbed);
}

TEST_P(SampledEpochTest, ExactStepsAreKnownFromTheBeginning) {
  StartWithGraph();
  v1::EpochSpec spec = Spec("job");
  spec.mutable_samples()->set_exact_steps(true);
  const Loaded loaded = Load(spec, 0, 1);
  EXPECT_FALSE(loaded.opened.num_steps_is_estimate());
  EXPECT_EQ(loaded.opened.num_steps(), loaded.batches.size());
}

TEST_P(SampledEpochTest, SubGraphsBeyondTheLimitsAreDrawnSmallerOrRefused) {
  StartWithGraph();
  v1::EpochSpec spec = Spec("job");
  v1::Limits& limits = *spec.mutable_rank_groups(0)->mutable_shapes(0);
  limits.mutable_capacities(0)->set_rows(9);
  limits.mutable_capacities(1)->set_rows(9);
  const Loaded loaded = Load(spec, 0, 1);
  ASSERT_THAT(loaded.status, IsOk());
  std::map<uint64_t, std::string> contents;
  Collect(loaded, contents);
  EXPECT_EQ(SeedsIn(contents), AllSeeds());
  int smaller = 0;
  for (const v1::LoadedBatch& batch : loaded.batches) smaller += batch.drawn_smaller_size();
  EXPECT_GT(smaller, 0);
  spec.set_job("refused");
  spec.mutable_samples()->set_beyond_limits(v1::BEYOND_LIMITS_REFUSE);
  EXPECT_THAT(Load(spec, 0, 1).status,
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("seed node")));
}

TEST_P(SampledEpochTest, NamesWhatDoesNotGoTogether) {
  StartWithGraph();
  v1::EpochSpec spec = Spec("job");
  spec.set_grouped(true);
  EXPECT_THAT(Load(spec, 0, 1).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("grouped")));
  spec = Spec("job");
  spec.set_dataset("d");
  EXPECT_THAT(Load(spec, 0, 1).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a data set")));
}

}  // namespace
}  // namespace packhouse::rpc
