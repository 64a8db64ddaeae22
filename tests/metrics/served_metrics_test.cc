// What a page says of a server that is at work.
#include <map>
#include <set>
#include <utility>

#include "packhouse/v1/loader.grpc.pb.h"
#include "service/server/metrics/metrics.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Passes everything on to Metrics, adds up what waits unsent, and lets tests wait. Thread-safe.
class WatchedMetrics final : public RpcObserver {
 public:
  explicit WatchedMetrics(Metrics* metrics) : metrics_(metrics) {}

  void OnStarted(Method method) override { metrics_->OnStarted(method); }
  void OnFinished(Method method, absl::StatusCode code, absl::Duration elapsed) override {
    metrics_->OnFinished(method, code, elapsed);
    absl::MutexLock lock(&mutex_);
    finished_.insert(method);
  }
  void OnPlanned(absl::Duration elapsed, double gap) override { metrics_->OnPlanned(elapsed, gap); }
  void OnUnsent(Method method, int64_t responses, int64_t bytes) override {
    metrics_->OnUnsent(method, responses, bytes);
    absl::MutexLock lock(&mutex_);
    Unsent& unsent = unsent_[method];
    unsent.responses += responses;
    unsent.bytes += bytes;
    never_below_zero_ = never_below_zero_ && unsent.responses >= 0 && unsent.bytes >= 0;
  }

  // Waits until so many wait; the bytes of them.
  int64_t AwaitUnsent(Method method, int64_t responses) {
    const auto enough = [&] { return unsent_[method].responses >= responses; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
    return unsent_[method].bytes;
  }
  void AwaitFinished(Method method) {
    const auto done = [&] { return finished_.contains(method); };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done));
  }
  // What waits to be sent by the method now.
  std::pair<int64_t, int64_t> unsent(Method method) {
    absl::MutexLock lock(&mutex_);
    return {unsent_[method].responses, unsent_[method].bytes};
  }
  bool never_below_zero() {
    absl::MutexLock lock(&mutex_);
    return never_below_zero_;
  }

 private:
  struct Unsent {
    int64_t responses = 0;
    int64_t bytes = 0;
  };

  Metrics* const metrics_;
  absl::Mutex mutex_;
  std::map<Method, Unsent> unsent_ ABSL_GUARDED_BY(mutex_);
  std::set<Method> finished_ ABSL_GUARDED_BY(mutex_);
  bool never_below_zero_ ABSL_GUARDED_BY(mutex_) = true;
};

// In-process: there are no buffers between the server and a client that does not read.
class ServedMetricsTest : public rpc::ServerTest {
 protected:
  // A sealed data set "graphs" of 40 graphs, behind a server.
  void SetUp() override {
    OpenDatasets();
    const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
    Random random(3);
    ASSERT_THAT(datasets_->Create("graphs", schema, DatasetOptions()), IsOk());
    ASSERT_THAT(
        datasets_->Append("graphs", RandomChunk(random, &schema, 40, 9, 0), {}, std::nullopt),
        IsOk());
    ASSERT_THAT(datasets_->Seal("graphs"), IsOk());
    rpc::ServerOptions options;
    options.job_logs = ledger_.get();
    PH_ASSERT_OK_AND_ASSIGN(
        server_, rpc::Server::Start(options, &clock_, &watched_, &metrics_, datasets_.get()));
    metrics_.SetDelivery([this] { return server_->delivery(); });
    channel_ = NewChannel();
  }

  static v1::LoadRequest LoadOfOneRank(uint32_t max_in_flight) {
    v1::LoadRequest request;
    v1::EpochSpec& spec = *request.mutable_epoch();
    spec.set_dataset("graphs");
    spec.set_job("a-job");
    v1::Capacity& capacity = *spec.add_rank_groups()->add_shapes()->add_capacities();
    capacity.set_component("graphs");
    capacity.set_rows(4);
    request.mutable_ranked()->set_num_ranks(1);
    request.set_max_in_flight(max_in_flight);
    return request;
  }

  Metrics metrics_{"1.2.3"};
  WatchedMetrics watched_{&metrics_};
};

INSTANTIATE_TEST_SUITE_P(Transports, ServedMetricsTest,
                         ::testing::Values(rpc::Transport::kInProcess), rpc::TransportName);

TEST_P(ServedMetricsTest, WhatWaitsUnsentIsCountedUntilTheCallEnds) {
  const auto loader = v1::LoaderService::NewStub(channel_);
  {
    grpc::ClientContext context;
    const auto stream = loader->Load(&context, LoadOfOneRank(8));
    EXPECT_GT(watched_.AwaitUnsent(Method::kLoad, 3), 0);
    context.TryCancel();
    v1::LoadResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  watched_.AwaitFinished(Method::kLoad);
  EXPECT_EQ(watched_.unsent(Method::kLoad), std::make_pair(int64_t{0}, int64_t{0}));

  {
    const auto call = StartPack();
    ASSERT_TRUE(call->stream->Write(rpc::OpenSizes(10)));
    ASSERT_TRUE(call->stream->Write(rpc::SizesOf({10, 10, 10, 10}, 0)));
    call->stream->WritesDone();
    // `opened`, which is not read, and four small batches.
    EXPECT_GT(watched_.AwaitUnsent(Method::kPack, 5), 0);
    EXPECT_THAT(metrics_.Exposition(),
                HasSubstr("packhouse_unsent_responses{method=\"Pack\"} 5\n"));
    EXPECT_THAT(rpc::Finish(*call->stream), IsOk());
  }
  watched_.AwaitFinished(Method::kPack);
  EXPECT_EQ(watched_.unsent(Method::kPack), std::make_pair(int64_t{0}, int64_t{0}));

  EXPECT_TRUE(watched_.never_below_zero());
  const std::string page = metrics_.Exposition();
  for (const char* method : {"Load", "Pack", "Tune", "VerifyDataset", "Append", "Observe"}) {
    const std::string label = absl::StrCat("{method=\"", method, "\"} 0\n");
    EXPECT_THAT(page, HasSubstr("packhouse_unsent_responses" + label));
    EXPECT_THAT(page, HasSubstr("packhouse_unsent_bytes" + label));
  }
}

// Ten batches of four graphs: what a page says of them follows the worker's steps.
TEST_P(ServedMetricsTest, AnEpochIsFollowedFromItsFirstBatchToItsLast) {
  EXPECT_THAT(metrics_.Exposition(), HasSubstr("packhouse_epochs 0\n"));
  const auto loader = v1::LoaderService::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = loader->Load(&context, LoadOfOneRank(2));
  v1::LoadResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.has_opened());
  ASSERT_EQ(response.opened().num_steps(), 10);
  v1::AcknowledgeRequest request;
  request.set_job("a-job");
  request.set_generation(response.opened().generation());
  request.set_session(response.opened().session());
  const std::string of_job = R"({namespace="default",training_job="a-job",dataset="graphs"})";
  const auto acknowledge = [&] {
    grpc::ClientContext unary;
    v1::AcknowledgeResponse acknowledged;
    EXPECT_TRUE(loader->Acknowledge(&unary, request, &acknowledged).ok());
  };
  for (int step = 0; step < 10; ++step) {
    ASSERT_TRUE(stream->Read(&response));
    request.clear_batches();
    request.add_batches(response.batch().batch().id());
    if (step == 9) {
      const std::string page = metrics_.Exposition();
      EXPECT_THAT(page, HasSubstr("packhouse_batches_leased_total 10\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_batches_acknowledged_total 9\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_batches_redelivered_total 0\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_batches_in_flight{namespace=\"default\"} 1\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_load_sessions{namespace=\"default\"} 1\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_generations_total 1\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_epoch_batches_left" + of_job + " 1\n"));
      EXPECT_THAT(page, HasSubstr("packhouse_epoch_progress_ratio" + of_job + " 0.9\n"));
    }
    acknowledge();
  }
  acknowledge();
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_end_of_epoch());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  watched_.AwaitFinished(Method::kLoad);
  const std::string page = metrics_.Exposition();
  EXPECT_THAT(page, HasSubstr("packhouse_batches_acknowledged_total 10\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_duplicate_acknowledgements_total 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_batches_in_flight{namespace=\"default\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_load_sessions{namespace=\"default\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_epochs 1\n"));
  // Nobody loads it any more.
  EXPECT_THAT(page, Not(HasSubstr("training_job")));
}

}  // namespace
}  // namespace packhouse::metrics
