// The C++ loader against the real server, store and ledger.
#include "client/cpp/loader.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/channel.h"
#include "client/cpp/loss_weights.h"
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

// Whatever holds of a loader holds of both ways that batches come.
class LoaderTest : public testing::TestWithParam<LaneUse> {
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
    options.lane_address = lane_address_;
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
    options.lane = GetParam();
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

  // Ids and all.
  static std::string BytesOf(const BatchView& view) {
    std::string bytes = absl::StrCat(view.id(), " ", view.step(), " ", view.is_padding(), " ",
                                     view.graph_ids(), view.sizes());
    for (const TensorView& tensor : view.tensors()) {
      absl::StrAppend(&bytes, " ", tensor.name, " ", tensor.dtype, tensor.declared_dtype, " ",
                      absl::StrJoin(tensor.shape, "x"), " ", tensor.data);
    }
    return bytes;
  }

  static void ExpectEachOnce(const GraphCounts& counts) {
    EXPECT_THAT(counts, SizeIs(kNumGraphs));
    EXPECT_THAT(counts, Each(Pair(testing::_, 1)));
  }

  SimulatedClock clock_;
  rpc::CountingObserver observer_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string address_ = absl::StrCat("unix:", folder_.path(), "/socket");
  std::string lane_address_ = absl::StrCat("unix:", folder_.path(), "/lane");
  std::unique_ptr<DatasetStore> datasets_;
  uint64_t num_openings_ = 0;
  std::unique_ptr<JobLogs> ledger_;
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

INSTANTIATE_TEST_SUITE_P(Transports, LoaderTest, testing::Values(LaneUse::kOff, LaneUse::kRequired),
                         [](const testing::TestParamInfo<LaneUse>& of) {
                           return of.param == LaneUse::kOff ? "Grpc" : "Lane";
                         });

TEST_P(LoaderTest, EveryGraphComesOnceInEachEpoch) {
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

// Of any number of ranks: the mean over batches of weight * (mean over the batch's rows) is the
// mean over the epoch's rows, here of the rows' own batch's number.
TEST_P(LoaderTest, LossWeightsLetEachRowCountAlike) {
  for (const uint32_t num_ranks : {1, 3}) {
    std::vector<double> weighted(3);
    std::vector<double> sums(3);
    std::vector<double> rows(3);
    double num_batches = 0;
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      LoaderOptions options = OfRank(rank, num_ranks);
      options.spec.set_job(absl::StrCat("weights-", num_ranks));
      Loader loader(channel_, options);
      PH_ASSERT_OK_AND_ASSIGN(const v1::LoadOpened opened, loader.Opened());
      PH_ASSERT_OK_AND_ASSIGN(const LossWeights weights, LossWeights::Of(opened.epoch()));
      EXPECT_THAT(weights.components(), testing::ElementsAre("nodes", "edges", "graphs"));
      EXPECT_EQ(weights.real_rows().back(), kNumGraphs);
      num_batches = static_cast<double>(opened.epoch().num_batches());
      while (true) {
        PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader.Next());
        if (batch == nullptr) break;
        const std::vector<double> of_batch = weights.WeightsOf(batch->view);
        PH_ASSERT_OK_AND_ASSIGN(const double of_edges, weights.WeightOf(batch->view, "edges"));
        EXPECT_EQ(of_edges, of_batch[1]);
        EXPECT_THAT(weights.WeightOf(batch->view, "atoms"),
                    StatusIs(absl::StatusCode::kNotFound, HasSubstr("'atoms', there are nodes")));
        for (size_t c = 0; c < 3; ++c) {
          EXPECT_TRUE(of_batch[c] == 0 || !batch->view.is_padding());
          const auto real = static_cast<double>(batch->view.real_rows()[c]);
          const auto loss = static_cast<double>(batch->view.id());
          weighted[c] += of_batch[c] * loss;
          sums[c] += real * loss;
          rows[c] += real;
        }
      }
    }
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(weighted[c] / num_batches, sums[c] / rows[c], 1e-9) << c;
    }
  }
  v1::Epoch sampled;
  sampled.mutable_samples();
  EXPECT_THAT(LossWeights::Of(sampled),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not known beforehand")));
}

TEST_P(LoaderTest, DynamicWorkersShareAnEpoch) {
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
TEST_P(LoaderTest, GoesOnWhenTheServerRestarts) {
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

TEST_P(LoaderTest, GoesOnFromAStateWithAnotherNumberOfRanks) {
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

TEST_P(LoaderTest, WhatIsNotAcknowledgedComesAgain) {
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
TEST_P(LoaderTest, TheEndDoesNotWaitForTheCallersAcknowledgements) {
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

TEST_P(LoaderTest, ATrainerThatWasRolledBackIsTold) {
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

TEST_P(LoaderTest, AStateNeedsAnAttemptWhereOneCannotTell) {
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
TEST_P(LoaderTest, AnEvaluationRewindsAndKeepsNothing) {
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

TEST_P(LoaderTest, CancelEndsAWaitForWhatOthersHave) {
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

TEST_P(LoaderTest, ErrorsOfTheServerAreTheCallers) {
  LoaderOptions options = Options();
  options.spec.set_dataset("none");
  Loader loader(channel_, options);
  EXPECT_THAT(loader.Opened(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  EXPECT_THAT(loader.State(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
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

TEST_P(LoaderTest, OfSeveralServersItAsksTheNextWhileOneIsAway) {
  LoaderOptions options = Options();
  // Nobody is at port 1.
  options.other_servers = {"127.0.0.1:1", "unix:/nobody/is/here", address_};
  options.retry.first_wait = absl::Milliseconds(1);
  Loader loader(MakeChannel("127.0.0.1:1"), options);
  GraphCounts counts;
  while (counts.size() < kNumGraphs) Read(loader, 1, counts);
  EXPECT_THAT(counts, testing::Each(testing::Pair(testing::_, 1)));
}

// Before the first batch, between any two and at the end, while acknowledgements are under way.
TEST_P(LoaderTest, AForkedChildNeitherUsesNorHarmsALoader) {
  LoaderOptions options = Options();
  options.max_in_flight = 2;
  auto loader = std::make_unique<Loader>(channel_, options);
  std::shared_ptr<const LoadedBatch> batch;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_THAT(loader->SetEpoch(epoch), IsOk());
    GraphCounts counts;
    std::set<uint64_t> sessions;
    for (;;) {
      const std::string bytes = batch == nullptr ? "" : BytesOf(batch->view);
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(60);  // Ends one that waits for ever.
        bool is_right = batch == nullptr || BytesOf(batch->view) == bytes;
        for (const absl::Status& refused :
             {loader->Next().status(), loader->Flush(), loader->SetEpoch(epoch + 1),
              loader->Opened().status(), loader->Describe().status(), loader->State().status(),
              loader->LoadState({}, "new"),
              batch == nullptr ? loader->Flush() : loader->Acknowledge(*batch)}) {
          is_right = is_right && absl::IsFailedPrecondition(refused) &&
                     absl::StrContains(refused.message(), "this loader was made by process");
        }
        loader->Cancel();
        batch = nullptr;
        loader = nullptr;
        channel_ = nullptr;
        ::_exit(is_right ? 0 : 1);
      }
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_EQ(status, 0);
      PH_ASSERT_OK_AND_ASSIGN(batch, loader->Next());
      if (batch == nullptr) break;
      Count(*batch, counts);
      sessions.insert(batch->lease.session);
    }
    ExpectEachOnce(counts);
    // A stream that breaks is opened anew.
    EXPECT_THAT(sessions, SizeIs(1));
  }
}

// A loader's lane alone.
class LaneLoaderTest : public LoaderTest {
 protected:
  using LoaderTest::BytesOf;
  // Of each batch of an evaluation.
  static std::vector<std::string> BytesOf(Loader& loader) {
    std::vector<std::string> all;
    for (;;) {
      const auto batch = loader.Next().value();
      if (batch == nullptr) return all;
      all.push_back(BytesOf(batch->view));
    }
  }
  // So that most batches are made after the lane is open.
  LoaderOptions Slow(const std::string& job) {
    LoaderOptions options = Options();
    options.spec.set_job(job);
    options.max_in_flight = 2;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Lane, LaneLoaderTest, testing::Values(LaneUse::kIfPossible),
                         [](const testing::TestParamInfo<LaneUse>& /*of*/) {
                           return "IfPossible";
                         });

// The law: schemas with all types, paddings, integer widths, epochs, and batches that are kept.
TEST_P(LaneLoaderTest, TheBytesAreTheSameAsByGrpc) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const std::string name = absl::StrCat("set-", seed);
    ASSERT_THAT(datasets_->Create(name, schema, DatasetOptions()), IsOk());
    ASSERT_THAT(datasets_->Append(name, RandomChunk(random, &schema, 150, 9, 0), {}, std::nullopt),
                IsOk());
    ASSERT_THAT(datasets_->Seal(name), IsOk());
    LoaderOptions options = Slow(absl::StrCat("with-", seed));
    options.spec.set_dataset(name);
    v1::Limits& limits = *options.spec.mutable_rank_groups(0)->mutable_shapes(0);
    limits.clear_capacities();
    for (size_t k = 0; k <= schema.num_components(); ++k) {
      v1::Capacity& capacity = *limits.add_capacities();
      capacity.set_component(k == schema.num_components() ? "graphs" : absl::StrCat("c", k));
      capacity.set_rows(k == schema.num_components() ? 6 : 60);
    }
    // Padding graphs need a component.
    options.spec.set_padding(
        static_cast<v1::Padding>(random.Between(1, schema.num_components() == 0 ? 2 : 3)));
    options.spec.set_integer_width(static_cast<v1::IntegerWidth>(random.Below(2)));
    LoaderOptions by_grpc = options;
    by_grpc.lane = LaneUse::kOff;
    by_grpc.spec.set_job(absl::StrCat("without-", seed));
    Loader with(channel_, options);
    Loader without(channel_, by_grpc);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      ASSERT_THAT(with.SetEpoch(epoch), IsOk());
      ASSERT_THAT(without.SetEpoch(epoch), IsOk());
      const std::vector<std::string> expected = BytesOf(without);
      EXPECT_EQ(without.transport(), LoadTransport::kGrpc);
      std::vector<std::shared_ptr<const LoadedBatch>> kept;
      for (size_t i = 0;; ++i) {
        PH_ASSERT_OK_AND_ASSIGN(auto batch, with.Next());
        if (batch == nullptr) break;
        ASSERT_LT(i, expected.size());
        ASSERT_EQ(BytesOf(batch->view), expected[i]);
        if (random.Below(3) == 0) kept.push_back(std::move(batch));
        if (random.Below(20) == 0) kept.clear();
      }
      EXPECT_EQ(with.transport(), LoadTransport::kLane);
    }
  }
  EXPECT_GT(server_->lane_counts()->num_batches, 100U);
}

TEST_P(LaneLoaderTest, BatchesThatAreKeptOutliveLoaderAndServer) {
  std::vector<std::shared_ptr<const LoadedBatch>> kept;
  std::vector<std::string> bytes;
  {
    Loader loader(channel_, Slow("keeper"));
    for (;;) {
      PH_ASSERT_OK_AND_ASSIGN(auto batch, loader.Next());
      if (batch == nullptr) break;
      bytes.push_back(BytesOf(batch->view));
      kept.push_back(std::move(batch));
    }
  }
  EXPECT_GT(server_->lane_counts()->num_batches, 0U);
  server_ = nullptr;
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(BytesOf(kept[i]->view), bytes[i]);
}

TEST_P(LaneLoaderTest, TensorsAreAlignedForDevices) {
  Loader loader(channel_, Slow("aligned"));
  std::vector<std::shared_ptr<const LoadedBatch>> kept;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(auto batch, loader.Next());
    if (batch == nullptr) break;
    kept.push_back(std::move(batch));
  }
  size_t num_aligned = 0;
  size_t num_tensors = 0;
  for (const auto& batch : kept) {
    for (const TensorView& tensor : batch->view.tensors()) {
      ++num_tensors;
      if (reinterpret_cast<uintptr_t>(tensor.data.data()) % 64 == 0) ++num_aligned;
    }
  }
  // Those of the first batches came before the lane was open.
  EXPECT_GE(num_aligned, server_->lane_counts()->num_batches * kept[0]->view.tensors().size());
  EXPECT_LE(num_aligned, num_tensors);
}

// Children read what was held when they were forked, while the parent and the server go on; and
// they have the socket, and may not speak for their parent.
TEST_P(LaneLoaderTest, ForksOfAProcessKeepTheirBatches) {
  LoaderOptions options = Slow("forked");
  // As many batches as graphs: several times as many as slots.
  for (v1::Capacity& most :
       *options.spec.mutable_rank_groups(0)->mutable_shapes(0)->mutable_capacities()) {
    if (most.component() == "graphs") most.set_rows(1);
  }
  Loader loader(channel_, options);
  std::vector<std::shared_ptr<const LoadedBatch>> kept;
  std::vector<std::string> bytes;
  const auto is_as_kept = [&] {
    for (size_t i = 0; i < kept.size(); ++i) {
      if (BytesOf(kept[i]->view) != bytes[i]) return false;
    }
    return true;
  };
  std::array<GraphCounts, 3> counts;
  struct Child {
    pid_t process;
    int go;
  };
  std::vector<Child> children;
  for (size_t i = 0, epoch = 0; epoch < counts.size(); ++i) {
    PH_ASSERT_OK_AND_ASSIGN(auto batch, loader.Next());
    if (batch == nullptr) {
      ASSERT_THAT(loader.SetEpoch(++epoch), IsOk());
      continue;
    }
    Count(*batch, counts[epoch]);
    // Some slots are held, and most serve again and again.
    if (i % 5 == 0) kept.clear(), bytes.clear();
    bytes.push_back(BytesOf(batch->view));
    kept.push_back(std::move(batch));
    if (i % 16 != 7) continue;
    std::array<int, 2> ends;
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      char go;
      bool holds = ::read(ends[0], &go, 1) == 1 && is_as_kept();
      // One that another process has forked, too.
      const pid_t grandchild = ::fork();
      if (grandchild == 0) ::_exit(is_as_kept() ? 0 : 1);
      int status = -1;
      holds = holds && ::waitpid(grandchild, &status, 0) == grandchild && status == 0;
      kept.clear();
      ::_exit(holds ? 0 : 1);
    }
    ::close(ends[0]);
    children.push_back({child, ends[1]});
    EXPECT_TRUE(is_as_kept());
  }
  EXPECT_GT(server_->lane_counts()->num_batches, 2 * kNumGraphs);
  for (const auto& [process, go] : children) {
    EXPECT_EQ(::write(go, "x", 1), 1);
    ::close(go);
    int status = -1;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(is_as_kept());
  // A slot that was released twice would have ended the stream.
  for (const GraphCounts& each : counts) ExpectEachOnce(each);
}

TEST_P(LaneLoaderTest, WithoutALaneBatchesComeByGrpc) {
  lane_address_ = "";
  Restart();
  GraphCounts counts;
  LoaderOptions options = Options();
  {
    Loader loader(channel_, options);
    ReadAll(loader, counts);
    EXPECT_EQ(loader.transport(), LoadTransport::kGrpc);
  }
  ExpectEachOnce(counts);
  options.spec.set_job("another");
  options.lane = LaneUse::kRequired;
  Loader strict(channel_, options);
  EXPECT_THAT(strict.Next(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--lane")));
}

}  // namespace
}  // namespace packhouse::client
