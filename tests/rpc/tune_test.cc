// Tune over the wire. What any server-streaming call does is in server_streaming_call_test.cc.

#include "google/protobuf/text_format.h"
#include "service/algorithms/planning/limits.h"
#include "service/server/wire/wire_planning.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// All that a call answered.
struct Answers {
  std::vector<v1::TuneProgress> progress;
  std::vector<v1::TuneCell> cells;
  std::vector<v1::TunedShape> frontier;
  std::vector<v1::TuneRecommendation> recommendations;
  absl::Status status;
};

class TuneTest : public ServerTest {
 protected:
  // Graphs of 5 to 40 nodes; the profile takes all of them.
  TuneTest() {
    Random random(1);
    SizeHistogram histogram(2);
    for (int i = 0; i < 100; ++i) {
      const auto nodes = static_cast<uint32_t>(random.Between(5, 40));
      const auto edges = static_cast<uint32_t>(2 * random.Between(nodes, 2 * nodes));
      EXPECT_THAT(histogram.Add({nodes, edges}, random.Between(1, 20)), IsOk());
    }
    HistogramToWire(histogram, SizeSchema::NodesAndEdges(), *request_.mutable_histogram());
    SetProfile(R"(components { component: 'nodes' min_rows: 40 max_rows: 128 multiple_of: 8 }
                  components { component: 'edges' min_rows: 160 max_rows: 320 multiple_of: 16 })");
  }

  void SetProfile(const std::string& text) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request_.mutable_profile()));
  }

  // Reads everything; what comes in the wrong order fails.
  Answers Tune(const v1::TuneRequest& request) {
    grpc::ClientContext context;
    const auto stub = v1::PlanningService::NewStub(channel_);
    const auto stream = stub->Tune(&context, request);
    Answers answers;
    v1::TuneResponse response;
    int last = 0;
    while (stream->Read(&response)) {
      EXPECT_GE(static_cast<int>(response.event_case()), last);
      last = response.event_case();
      switch (response.event_case()) {
        case v1::TuneResponse::kProgress:
          answers.progress.push_back(response.progress());
          break;
        case v1::TuneResponse::kCell:
          answers.cells.push_back(response.cell());
          break;
        case v1::TuneResponse::kFrontier:
          answers.frontier.push_back(response.frontier());
          break;
        case v1::TuneResponse::kRecommendation:
          answers.recommendations.push_back(response.recommendation());
          break;
        case v1::TuneResponse::EVENT_NOT_SET:
          ADD_FAILURE() << "an empty response";
      }
    }
    answers.status = ToAbsl(stream->Finish());
    return answers;
  }

  v1::TuneRequest request_;
};
INSTANTIATE_TEST_SUITE_P(Transports, TuneTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

uint64_t RowsOf(const v1::TunedShape& shape, int k) { return shape.limits().capacities(k).rows(); }

TEST_P(TuneTest, EventsComeInOrderAndAgree) {
  StartServer();
  request_.set_include_grid(true);
  const Answers answers = Tune(request_);
  ASSERT_THAT(answers.status, IsOk());
  // Multiples of 8 in [40, 128], of 16 in [160, 320].
  EXPECT_EQ(answers.cells.size(), 12U * 11U);
  ASSERT_EQ(answers.recommendations.size(), 1U);
  const v1::TuneRecommendation& recommendation = answers.recommendations[0];
  ASSERT_EQ(recommendation.shapes_size(), 1);
  const v1::TunedShape& shape = recommendation.shapes(0);
  EXPECT_EQ(RowsOf(shape, 0) % 8, 0U);
  EXPECT_EQ(RowsOf(shape, 1) % 16, 0U);
  EXPECT_EQ(RowsOf(shape, 2), 0U) << "graphs have no limit";
  EXPECT_THAT(recommendation.reasons(), Not(IsEmpty()));
  EXPECT_FALSE(recommendation.has_oversize());
  EXPECT_DOUBLE_EQ(shape.epoch_cost(),
                   static_cast<double>(shape.packs()) *
                       static_cast<double>(RowsOf(shape, 0) + RowsOf(shape, 1)));
  EXPECT_GE(recommendation.epoch_cost(), recommendation.least_cost());
  // No limits that were planned are better.
  EXPECT_TRUE(recommendation.exact());
  for (const v1::TuneCell& cell : answers.cells) {
    if (!cell.planned()) continue;
    EXPECT_GE(cell.epoch_cost(), recommendation.cheapest_shape().epoch_cost());
  }
  EXPECT_LE(recommendation.epoch_cost(), 1.005 * recommendation.cheapest_shape().epoch_cost());
  EXPECT_LE(shape.packs(), recommendation.cheapest_shape().packs());
  // Each frontier point costs less than all before it; the last is the cheapest shape.
  ASSERT_THAT(answers.frontier, Not(IsEmpty()));
  for (size_t i = 1; i < answers.frontier.size(); ++i) {
    EXPECT_LT(answers.frontier[i].epoch_cost(), answers.frontier[i - 1].epoch_cost());
  }
  EXPECT_DOUBLE_EQ(answers.frontier.back().epoch_cost(),
                   recommendation.cheapest_shape().epoch_cost());
  for (size_t i = 1; i < answers.progress.size(); ++i) {
    EXPECT_GE(answers.progress[i].planned(), answers.progress[i - 1].planned());
    EXPECT_GE(answers.progress[i].excluded(), answers.progress[i - 1].excluded());
  }
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kOk);
}

TEST_P(TuneTest, WhatIsWrongIsNamed) {
  StartServer();
  const auto expect = [&](const v1::TuneRequest& request, absl::StatusCode code,
                          const std::string& message) {
    const Answers answers = Tune(request);
    EXPECT_THAT(answers.status, StatusIs(code, HasSubstr(message)));
    EXPECT_THAT(answers.recommendations, IsEmpty());
    observer_.AwaitFinished(Method::kTune, code);
  };
  v1::TuneRequest request = request_;
  request.set_histogram_name("q");
  expect(request, absl::StatusCode::kNotFound, "'q'");
  request.clear_source();
  expect(request, absl::StatusCode::kInvalidArgument, "neither 'histogram' nor 'histogram_name'");
  request = request_;
  request.clear_profile();
  expect(request, absl::StatusCode::kInvalidArgument, "no component has max_rows above 0");
  // No graph fits.
  request = request_;
  request.mutable_histogram()->set_tuples(Uint32sToWire({500, 900}));
  request.mutable_histogram()->set_counts(Uint64sToWire({3}));
  expect(request, absl::StatusCode::kFailedPrecondition, "");
  // 2^11 * 2^11 limits.
  request = request_;
  request.set_include_grid(true);
  for (int k = 0; k < 2; ++k) {
    v1::DeviceProfile::Component& component = *request.mutable_profile()->mutable_components(k);
    component.set_min_rows(1001);
    component.set_max_rows(1000 + (1 << 11));
    component.set_multiple_of(1);
  }
  expect(request, absl::StatusCode::kResourceExhausted, "1048576");
}

// A search that would take minutes: a large histogram, many candidates, the largest budget.
class LongTuneTest : public TuneTest {
 protected:
  LongTuneTest() {
    Random random(1);
    std::vector<uint32_t> tuples;
    for (int i = 0; i < 20'000; ++i) {
      tuples.push_back(static_cast<uint32_t>(random.Between(1, 100'000)));
      tuples.push_back(static_cast<uint32_t>(random.Between(1, 100'000)));
    }
    request_.mutable_histogram()->set_tuples(Uint32sToWire(tuples));
    request_.mutable_histogram()->set_counts(
        Uint64sToWire(std::vector<uint64_t>(tuples.size() / 2, 1)));
    request_.clear_profile();
    SetProfile(R"(components { component: 'nodes' min_rows: 100000 max_rows: 200000 }
                  components { component: 'edges' min_rows: 100000 max_rows: 200000 })");
    request_.set_budget_steps(kMaxBudgetSteps);
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, LongTuneTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(LongTuneTest, CancellingEndsIt) {
  StartServer();
  grpc::ClientContext context;
  const auto stub = v1::PlanningService::NewStub(channel_);
  const auto stream = stub->Tune(&context, request_);
  observer_.AwaitStarted(Method::kTune);
  context.TryCancel();
  EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  // The client may go before its request has come: the server has a call without one then.
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kCancelled,
                          absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse::rpc
