// RequestTune against a server in this process whose answers the tests script.
#include "client/cli/tune_stream.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using Writer = grpc::ServerWriter<v1::TuneResponse>;

class ScriptedService final : public v1::PlanningService::Service {
 public:
  using Script = std::function<grpc::Status(const v1::TuneRequest&, Writer&)>;
  explicit ScriptedService(Script script) : script_(std::move(script)) {}
  grpc::Status Tune(grpc::ServerContext* /*context*/, const v1::TuneRequest* request,
                    Writer* writer) override {
    return script_(*request, *writer);
  }

 private:
  const Script script_;
};

// The outcome, and the numbers planned of each progress.
std::pair<absl::StatusOr<TuneOutcome>, std::vector<uint64_t>> Request(
    ScriptedService::Script script) {
  ScriptedService service(std::move(script));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = Connect("127.0.0.1:" + std::to_string(port), absl::Seconds(10));
  if (!channel.ok()) return {channel.status(), {}};
  const auto stub = v1::PlanningService::NewStub(*channel);
  v1::TuneRequest request;
  request.set_seed(17);
  std::vector<uint64_t> planned;
  absl::StatusOr<TuneOutcome> outcome =
      RequestTune(*stub, request,
                  [&](const v1::TuneProgress& progress) { planned.push_back(progress.planned()); });
  return {std::move(outcome), std::move(planned)};
}

TEST(RequestTuneTest, EventsAreCollectedInOrder) {
  const auto& [outcome, planned] = Request([](const v1::TuneRequest& request, Writer& writer) {
    EXPECT_EQ(request.seed(), 17);
    v1::TuneResponse response;
    for (uint64_t i = 1; i <= 3; ++i) {
      response.mutable_progress()->set_planned(i);
      writer.Write(response);
    }
    for (uint64_t i = 1; i <= 2; ++i) {
      response.mutable_cell()->set_epoch_cost(static_cast<double>(i));
      writer.Write(response);
    }
    response.mutable_frontier()->set_packs(5);
    writer.Write(response);
    // A response of a later version of the contract.
    writer.Write(v1::TuneResponse());
    response.mutable_recommendation()->add_shapes()->set_packs(6);
    writer.Write(response);
    return grpc::Status::OK;
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(planned, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(outcome->progress.planned(), 3);
  ASSERT_EQ(outcome->cells.size(), 2);
  EXPECT_EQ(outcome->cells[1].epoch_cost(), 2);
  ASSERT_EQ(outcome->frontier.size(), 1);
  EXPECT_EQ(outcome->frontier[0].packs(), 5);
  EXPECT_EQ(outcome->recommendation.shapes(0).packs(), 6);
}

TEST(RequestTuneTest, TheServersErrorIsTheOutcome) {
  const auto& [outcome, planned] = Request([](const v1::TuneRequest& /*request*/, Writer& writer) {
    v1::TuneResponse response;
    response.mutable_recommendation()->add_shapes();
    writer.Write(response);
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no graph fits");
  });
  EXPECT_EQ(outcome.status(), absl::FailedPreconditionError("no graph fits"));
}

TEST(RequestTuneTest, AnAnswerWithoutARecommendationIsInternal) {
  for (const bool empty : {false, true}) {
    const auto& [outcome, planned] =
        Request([&](const v1::TuneRequest& /*request*/, Writer& writer) {
          v1::TuneResponse response;
          response.mutable_progress();
          if (empty) response.mutable_recommendation();
          writer.Write(response);
          return grpc::Status::OK;
        });
    EXPECT_EQ(outcome.status(),
              absl::InternalError("the server's answer ended without a recommendation"));
  }
}

}  // namespace
}  // namespace packhouse::client
