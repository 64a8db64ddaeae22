// The order of the end: no new calls, open streams may finish, then UNAVAILABLE.
#include <thread>

#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class DrainTest : public ServerTest {
 protected:
  // Opens a stream and waits until the server has.
  std::unique_ptr<PackCall> OpenPack() {
    auto call = StartPack();
    EXPECT_TRUE(call->stream->Write(OpenSizes(10)));
    v1::PackResponse response;
    EXPECT_TRUE(call->stream->Read(&response));
    return call;
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, DrainTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(DrainTest, AnOpenStreamMayFinish) {
  StartServer();
  const auto call = OpenPack();
  auto& stream = call->stream;
  std::thread drain([&] { server_->Drain(absl::Hours(1)); });
  while (!server_->is_draining()) std::this_thread::yield();
  // Still works.
  ASSERT_TRUE(stream->Write(SizesOf({3, 4}, 0)));
  stream->WritesDone();
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(Uint64sFromWire(response.batch().graph_ids()).size(), 2U);
  EXPECT_THAT(Finish(*stream), IsOk());
  drain.join();
}

TEST_P(DrainTest, NewCallsAreUnavailable) {
  StartServer();
  const auto call = OpenPack();
  auto& stream = call->stream;
  std::thread drain([&] { server_->Drain(absl::Hours(1)); });
  while (!server_->is_draining()) std::this_thread::yield();
  const auto late = StartPack();
  EXPECT_THAT(Finish(*late->stream), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  stream->WritesDone();
  EXPECT_THAT(Finish(*stream), IsOk());
  drain.join();
}

TEST_P(DrainTest, AtTheDeadlineOpenStreamsGetUnavailable) {
  StartServer();
  const auto call = OpenPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(SizesOf({3, 4}, 0)));
  server_->Drain(absl::ZeroDuration());
  EXPECT_THAT(Finish(*stream), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
}

// A histogram made to be slow: packs that all look alike to the heuristic, and graphs that fit each
// of them once. Nobody waits for it once the server has cancelled it.
TEST_P(DrainTest, ALongPlanDoesNotHoldUpTheEnd) {
  StartServer();
  std::vector<uint32_t> tuples;
  for (uint32_t i = 0; i < 100'000; ++i) {
    tuples.insert(tuples.end(), {500'000 + i, 500'000 - i, 1 + i % 1000, 1 + i / 1000});
  }
  v1::PlanRequest request;
  request.mutable_histogram()->set_tuples(Uint32sToWire(tuples));
  request.mutable_histogram()->set_counts(
      Uint64sToWire(std::vector<uint64_t>(tuples.size() / 2, 1)));
  for (const char* component : {"nodes", "edges"}) {
    v1::Capacity& capacity = *request.mutable_limits()->add_capacities();
    capacity.set_component(component);
    capacity.set_rows(1'000'000);
  }
  absl::Status planned;
  std::thread client([&] {
    grpc::ClientContext context;
    v1::PlanResponse response;
    planned = ToAbsl(v1::PlanningService::NewStub(channel_)->Plan(&context, request, &response));
  });
  observer_.AwaitStarted(Method::kPlan);
  server_->Drain(absl::ZeroDuration());
  client.join();
  EXPECT_FALSE(planned.ok());
  EXPECT_EQ(observer_.finished(Method::kPlan, absl::StatusCode::kOk), 0);
}

// Its batches cannot be delivered, so that it cannot end by itself; the server ends all the same.
TEST_P(DrainTest, AStalledReaderDoesNotHoldUpTheEnd) {
  StartServer();
  const auto call = OpenPack();
  auto& stream = call->stream;
  std::thread writer([&] {
    uint64_t id = 0;
    while (stream->Write(SizesOf(std::vector<uint32_t>(100'000, 10), id))) id += 100'000;
  });
  observer_.AwaitBatches(2);
  server_->Drain(absl::ZeroDuration());
  writer.join();
  v1::PackResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace packhouse::rpc
