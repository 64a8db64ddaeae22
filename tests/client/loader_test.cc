// The C++ loader against the real server, store and ledger.
#include "client/cpp/loader.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/listen/server.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr uint64_t kNumGraphs = 90;

// How often each graph came, by id.
using GraphCounts = std::map<uint64_t, int>;

void Count(const LoadedBatch& batch, GraphCounts& counts) {
  const absl::string_view ids = batch.view.graph_ids();
  for (size_t i = 0; i < ids.size(); i += sizeof(uint64_t)) {
    uint64_t id = 0;
    std::memcpy(&id, ids.data() + i, sizeof id);
    ++counts[id];
  }
}

class LoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    Serve();
    const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                                   {{"x", DType::kFloat32, {3}, 0, {}, {}},
                                                    {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
                                   .value();
    Random random(5);
    ASSERT_THAT(datasets_->Create("graphs", schema, DatasetOptions()), IsOk());
    const GraphChunk chunk = RandomChunk(random, &schema, kNumGraphs, 9, 1000);
    ASSERT_THAT(datasets_->Append("graphs", chunk, {}, std::nullopt), IsOk());
    ASSERT_THAT(datasets_->Seal("graphs"), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(channel_, Connect(address_, absl::Seconds(20)));
  }

  void Serve() {
    LmdbDatasetStore::Options store;
    store.folder = absl::StrCat(folder_.path(), "/datasets");
    store.max_bytes = uint64_t{1} << 30;
    PH_ASSERT_OK_AND_ASSIGN(datasets_, LmdbDatasetStore::Open(store));
    LmdbJobLogs::Options log;
    log.first_revision = ++num_openings_ << 20;
    log.folder = absl::StrCat(folder_.path(), "/delivery");
    PH_ASSERT_OK_AND_ASSIGN(ledger_, LmdbJobLogs::Open(log));
    rpc::ServerOptions options;
    options.address = address_;
    options.job_logs = ledger_.get();
    PH_ASSERT_OK_AND_ASSIGN(
        server_, rpc::Server::Start(options, &clock_, &observer_, &observer_, datasets_.get()));
  }

  // As a crash: the store and the ledger are what is left.
  void Restart() {
    server_ = nullptr;
    datasets_ = nullptr;
    ledger_ = nullptr;
    Serve();
  }

  LoaderOptions Options() {
    LoaderOptions options;
    options.spec.set_dataset("graphs");
    options.spec.set_job("job");
    options.spec.set_seed(7);
    v1::Limits& limits = *options.spec.add_rank_groups()->add_shapes();
    for (const auto& [component, rows] :
         std::map<std::string, uint64_t>{{"nodes", 24}, {"edges", 60}, {"graphs", 6}}) {
      v1::Capacity& capacity = *limits.add_capacities();
      capacity.set_component(component);
      capacity.set_rows(rows);
    }
    options.retry.sleep = [](absl::Duration) {};
    return options;
  }
  LoaderOptions OfRank(uint32_t rank, uint32_t num_ranks) {
    LoaderOptions options = Options();
    options.ranked.set_rank(rank);
    options.ranked.set_num_ranks(num_ranks);
    return options;
  }
  LoaderOptions OfWorker(const std::string& name) {
    LoaderOptions options = Options();
    options.dynamic.emplace().set_worker(name);
    return options;
  }

  // At most so many batches.
  static void Read(Loader& loader, size_t batches, GraphCounts& counts) {
    for (size_t i = 0; i < batches; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader.Next());
      if (batch == nullptr) return;
      if (!batch->view.is_padding()) Count(*batch, counts);
    }
  }
  static void ReadAll(Loader& loader, GraphCounts& counts) { Read(loader, kNumGraphs, counts); }

  static void ExpectEachOnce(const GraphCounts& counts) {
    EXPECT_THAT(counts, SizeIs(kNumGraphs));
    EXPECT_THAT(counts, Each(Pair(testing::_, 1)));
  }

  SimulatedClock clock_;
  rpc::CountingObserver observer_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string address_ = absl::StrCat("unix:", folder_.path(), "/socket");
  std::unique_ptr<DatasetStore> datasets_;
  uint64_t num_openings_ = 0;
  std::unique_ptr<JobLogs> ledger_;
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(LoaderTest, EveryGraphComesOnceInEachEpoch) {
  Loader first(channel_, OfRank(0, 2));
  Loader second(channel_, OfRank(1, 2));
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    GraphCounts counts;
    for (Loader* loader : {&first, &second}) {
      ASSERT_THAT(loader->SetEpoch(epoch), IsOk());
      ReadAll(*loader, counts);
      // The end stays the end.
      EXPECT_EQ(loader->Next().value(), nullptr);
    }
    ExpectEachOnce(counts);
    PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch progress, first.Describe());
    EXPECT_EQ(progress.num_done(), progress.num_batches());
  }
}

TEST_F(LoaderTest, DynamicWorkersShareAnEpoch) {
  GraphCounts counts[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Loader loader(channel_, OfWorker(absl::StrCat("worker-", i)));
      ReadAll(loader, counts[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, count] : counts[1]) counts[0][id] += count;
  ExpectEachOnce(counts[0]);
}

// Whatever was acknowledged or not when the server went: nothing is given out twice.
TEST_F(LoaderTest, GoesOnWhenTheServerRestarts) {
  for (const size_t read : {0, 1, 7}) {
    LoaderOptions options = Options();
    options.spec.set_job(absl::StrCat("restarted-", read));
    options.max_in_flight = 3;
    Loader loader(channel_, options);
    GraphCounts counts;
    Read(loader, read, counts);
    Restart();
    Read(loader, 2, counts);
    Restart();
    ReadAll(loader, counts);
    ExpectEachOnce(counts);
  }
}

TEST_F(LoaderTest, GoesOnFromAStateWithAnotherNumberOfRanks) {
  GraphCounts counts;
  LoaderState state;
  {
    Loader first(channel_, OfRank(0, 2));
    Loader second(channel_, OfRank(1, 2));
    for (Loader* loader : {&first, &second}) Read(*loader, 4, counts);
    PH_ASSERT_OK_AND_ASSIGN(state, first.State());
    // Done, but the checkpoint does not know it.
    GraphCounts lost;
    Read(first, 2, lost);
    ASSERT_THAT(first.Flush(), IsOk());
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Loader loader(channel_, OfRank(rank, 3));
    ASSERT_THAT(loader.LoadState(state, "second start"), IsOk());
    ReadAll(loader, counts);
  }
  ExpectEachOnce(counts);
}

TEST_F(LoaderTest, WhatIsNotAcknowledgedComesAgain) {
  LoaderOptions options = Options();
  options.acknowledges_itself = false;
  GraphCounts counts;
  {
    Loader loader(channel_, options);
    PH_ASSERT_OK_AND_ASSIGN(const auto first, loader.Next());
    PH_ASSERT_OK_AND_ASSIGN(const auto second, loader.Next());
    ASSERT_THAT(loader.Acknowledge(*second), IsOk());
    Count(*second, counts);
    EXPECT_THAT(loader.State(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("step 1 is acknowledged, step 0")));
  }
  Loader loader(channel_, Options());
  ReadAll(loader, counts);
  ExpectEachOnce(counts);
}

// All is given out, and only the caller can bring the end.
TEST_F(LoaderTest, TheEndDoesNotWaitForTheCallersAcknowledgements) {
  LoaderOptions options = Options();
  options.acknowledges_itself = false;
  options.max_in_flight = 1024;
  Loader loader(channel_, options);
  std::vector<std::shared_ptr<const LoadedBatch>> batches;
  GraphCounts counts;
  while (true) {
    PH_ASSERT_OK_AND_ASSIGN(auto batch, loader.Next());
    if (batch == nullptr) break;
    Count(*batch, counts);
    batches.push_back(std::move(batch));
  }
  ExpectEachOnce(counts);
  for (const auto& batch : batches) ASSERT_THAT(loader.Acknowledge(*batch), IsOk());
  ASSERT_THAT(loader.Flush(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch progress, loader.Describe());
  EXPECT_EQ(progress.num_done(), progress.num_batches());
}

TEST_F(LoaderTest, ATrainerThatWasRolledBackIsTold) {
  Loader old(channel_, Options());
  GraphCounts counts;
  Read(old, 3, counts);
  PH_ASSERT_OK_AND_ASSIGN(const LoaderState state, old.State());
  Loader anew(channel_, Options());
  ASSERT_THAT(anew.LoadState(state, "anew"), IsOk());
  ReadAll(anew, counts);
  ExpectEachOnce(counts);
  absl::Status status;
  for (size_t i = 0; i < kNumGraphs && status.ok(); ++i) status = old.Next().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation")));
}

TEST_F(LoaderTest, AStateNeedsAnAttemptWhereOneCannotTell) {
  Loader dynamic(channel_, OfWorker("w"));
  EXPECT_THAT(dynamic.LoadState({0, "c"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dynamic workers")));
  LoaderOptions options = Options();
  options.attempt = "a";
  Loader ranked(channel_, options);
  GraphCounts counts;
  Read(ranked, 1, counts);
  PH_ASSERT_OK_AND_ASSIGN(const LoaderState state, ranked.State());
  EXPECT_THAT(ranked.LoadState(state),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a' has loaded already")));
  ASSERT_THAT(ranked.LoadState(state, "b"), IsOk());
  ReadAll(ranked, counts);
  ExpectEachOnce(counts);
}

// Also when the server restarts in between: then the steps that are left are asked for.
TEST_F(LoaderTest, AnEvaluationRewindsAndKeepsNothing) {
  LoaderOptions options = Options();
  options.spec.clear_job();
  options.is_evaluation = true;
  Loader loader(channel_, options);
  std::vector<std::string> passes(2);
  for (std::string& bytes : passes) {
    GraphCounts counts;
    for (size_t read = 0;; ++read) {
      if (read == 3) Restart();
      PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader.Next());
      if (batch == nullptr) break;
      Count(*batch, counts);
      for (const TensorView& tensor : batch->view.tensors()) absl::StrAppend(&bytes, tensor.data);
      ASSERT_THAT(loader.Acknowledge(*batch), IsOk());
    }
    ExpectEachOnce(counts);
    ASSERT_THAT(loader.SetEpoch(0), IsOk());
  }
  EXPECT_EQ(passes[0], passes[1]);
  EXPECT_THAT(loader.State(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no state")));
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> jobs, ledger_->Names());
  EXPECT_THAT(jobs, testing::IsEmpty());
}

TEST_F(LoaderTest, CancelEndsAWaitForWhatOthersHave) {
  LoaderOptions holds_all = OfWorker("holder");
  holds_all.max_in_flight = 1024;
  holds_all.acknowledges_itself = false;
  Loader holder(channel_, holds_all);
  GraphCounts counts;
  for (size_t i = 0; counts.size() < kNumGraphs; ++i) Read(holder, 1, counts);
  Loader waiting(channel_, OfWorker("waiting"));
  ASSERT_THAT(waiting.Opened(), IsOk());
  std::thread thread(
      [&] { EXPECT_THAT(waiting.Next(), StatusIs(absl::StatusCode::kCancelled, testing::_)); });
  waiting.Cancel();
  thread.join();
  EXPECT_THAT(waiting.Next(), StatusIs(absl::StatusCode::kCancelled, testing::_));
}

TEST_F(LoaderTest, ErrorsOfTheServerAreTheCallers) {
  LoaderOptions options = Options();
  options.spec.set_dataset("none");
  Loader loader(channel_, options);
  EXPECT_THAT(loader.Next(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  EXPECT_THAT(loader.Describe(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  absl::Duration waits;
  options = Options();
  options.retry.patience = absl::Seconds(3);
  options.retry.connect_timeout = absl::ZeroDuration();
  options.retry.on_wait = [&](const absl::Status&, absl::Duration wait) { waits += wait; };
  Loader lonely(channel_, options);
  server_ = nullptr;
  EXPECT_THAT(lonely.Next(), StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("Load of job 'job' was tried again for")));
  // Calls that fail take of the time, too.
  EXPECT_GT(waits, absl::ZeroDuration());
  EXPECT_LE(waits, options.retry.patience);
}

TEST_F(LoaderTest, OfSeveralServersItAsksTheNextWhileOneIsAway) {
  LoaderOptions options = Options();
  // Nobody is at port 1.
  options.other_servers = {"127.0.0.1:1", "unix:/nobody/is/here", address_};
  options.retry.first_wait = absl::Milliseconds(1);
  Loader loader(MakeChannel("127.0.0.1:1"), options);
  GraphCounts counts;
  while (counts.size() < kNumGraphs) Read(loader, 1, counts);
  EXPECT_THAT(counts, testing::Each(testing::Pair(testing::_, 1)));
}

}  // namespace
}  // namespace packhouse::client
