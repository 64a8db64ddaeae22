// The client of SamplingService, against one that breaks off.
#include "client/cpp/sampling_client.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kTotal = 9;

// Stores three graphs a call, then breaks off. The first answers of estimates are lost.
class BreakingService final : public v1::SamplingService::Service {
 public:
  grpc::Status EstimateSizes(grpc::ServerContext* /*context*/,
                             const v1::EstimateSizesRequest* request,
                             v1::EstimateSizesResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (lost_answers_ != 0) {
      --lost_answers_;
      return {grpc::StatusCode::UNAVAILABLE, "lost"};
    }
    if (request->num_graphs() == 0) return {grpc::StatusCode::INVALID_ARGUMENT, "num_graphs"};
    response->set_num_graphs(request->num_graphs());
    return grpc::Status::OK;
  }

  grpc::Status SampleDataset(grpc::ServerContext* /*context*/,
                             const v1::SampleDatasetRequest* request,
                             grpc::ServerWriter<v1::SampleDatasetResponse>* writer) override {
    if (request->dataset() == "foreign") {
      return {grpc::StatusCode::FAILED_PRECONDITION, "data set 'foreign'"};
    }
    absl::MutexLock lock(&mutex_);
    ++num_calls_;
    v1::SampleDatasetResponse response;
    response.set_num_graphs_total(kTotal);
    for (int i = 0; i < 3 && num_graphs_ < kTotal; ++i) {
      response.set_num_graphs(++num_graphs_);
      writer->Write(response);
    }
    if (num_graphs_ < kTotal) return {grpc::StatusCode::UNAVAILABLE, "broken"};
    if (request->dataset() == "mute") return grpc::Status::OK;
    response.mutable_dataset()->set_name(request->dataset());
    writer->Write(response);
    return grpc::Status::OK;
  }

  void LoseAnswers(int calls) {
    absl::MutexLock lock(&mutex_);
    lost_answers_ = calls;
  }
  int num_calls() const {
    absl::MutexLock lock(&mutex_);
    return num_calls_;
  }

 private:
  mutable absl::Mutex mutex_;
  int lost_answers_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_graphs_ ABSL_GUARDED_BY(mutex_) = 0;
};

class SamplingClientTest : public testing::Test {
 protected:
  SamplingClientTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  // The longest of consecutive waits is half of the patience.
  SamplingClient Client() {
    SamplingClientOptions options;
    options.retry.first_wait = absl::Seconds(1);
    options.retry.patience = absl::Seconds(2);
    options.retry.sleep = [](absl::Duration) {};
    ChannelOptions channel;
    channel.retries = false;
    return SamplingClient(*Connect(address_, absl::Seconds(10), channel), options);
  }

  const TemporaryFolder folder_;
  const std::string address_ = "unix:" + folder_.path() + "/socket";
  BreakingService service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SamplingClientTest, EstimatesAreTriedAgainUnlessTheyAreWrong) {
  service_.LoseAnswers(1);
  v1::EstimateSizesRequest request;
  request.set_num_graphs(5);
  PH_ASSERT_OK_AND_ASSIGN(const v1::EstimateSizesResponse response,
                          Client().EstimateSizes(request));
  EXPECT_EQ(response.num_graphs(), 5);
  request.set_num_graphs(0);
  EXPECT_THAT(Client().EstimateSizes(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_graphs")));
  service_.LoseAnswers(100);
  EXPECT_EQ(Client().EstimateSizes(request).status().code(), absl::StatusCode::kUnavailable);
}

// However often it breaks off: each call goes on, and patience counts from the last progress.
TEST_F(SamplingClientTest, ADatasetGoesOnWhereTheLastCallBrokeOff) {
  v1::SampleDatasetRequest request;
  request.set_dataset("d");
  std::vector<uint64_t> progress;
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::SampleDatasetResponse done,
      Client().SampleDataset(request, [&](const v1::SampleDatasetResponse& response) {
        EXPECT_EQ(response.num_graphs_total(), kTotal);
        progress.push_back(response.num_graphs());
      }));
  EXPECT_EQ(done.dataset().name(), "d");
  EXPECT_THAT(progress, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(service_.num_calls(), 3);
}

TEST_F(SamplingClientTest, RefusalsAndAnEndWithoutADatasetAreErrors) {
  v1::SampleDatasetRequest request;
  request.set_dataset("foreign");
  const auto ignore = [](const v1::SampleDatasetResponse&) {};
  EXPECT_THAT(Client().SampleDataset(request, ignore),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'foreign'")));
  request.set_dataset("mute");
  EXPECT_EQ(Client().SampleDataset(request, ignore).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace packhouse::client
