// The order of the end: lame duck, GOAWAY, open streams may finish, then UNAVAILABLE.
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

  // The status of a unary call, which is NOT_FOUND if it was served.
  static absl::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
    v1::GetHistogramRequest request;
    request.set_histogram("nothing");
    grpc::ClientContext context;
    v1::GetHistogramResponse response;
    return ToAbsl(
        v1::HistogramService::NewStub(channel)->GetHistogram(&context, request, &response));
  }

  // The one that a client gets who comes after the GOAWAY; what comes before is served.
  static absl::Status FirstRefusal(const std::shared_ptr<grpc::Channel>& channel) {
    while (true) {
      if (absl::Status status = Call(channel); !absl::IsNotFound(status)) return status;
    }
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
  EXPECT_THAT(FirstRefusal(channel_), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  EXPECT_TRUE(server_->is_draining());
  const auto late = StartPack();
  EXPECT_THAT(Finish(*late->stream), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  stream->WritesDone();
  EXPECT_THAT(Finish(*stream), IsOk());
  drain.join();
}

// Who sends clients here has not noticed yet.
TEST_P(DrainTest, ALameDuckServesEverything) {
  StartServer();
  const auto before = OpenPack();
  std::atomic<bool> ended = false;
  std::thread drain([&] {
    server_->Drain({.lame_duck = absl::Seconds(1), .timeout = absl::Hours(1)});
    ended = true;
  });
  while (!server_->is_draining()) std::this_thread::yield();
  EXPECT_THAT(Call(channel_), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_THAT(Call(NewChannel()), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  const auto meanwhile = OpenPack();
  for (PackCall* const call : {before.get(), meanwhile.get()}) {
    ASSERT_TRUE(call->stream->Write(SizesOf({3, 4}, 0)));
    call->stream->WritesDone();
    EXPECT_THAT(Finish(*call->stream), IsOk());
  }
  EXPECT_FALSE(ended);
  while (!ended) {
    clock_.Advance(absl::Seconds(1));
    std::this_thread::yield();
  }
  drain.join();
}

class GoawayTest : public DrainTest {};
INSTANTIATE_TEST_SUITE_P(Transports, GoawayTest, ::testing::Values(Transport::kTcp), TransportName);

// Clients without any retries of their own, which know of another server.
TEST_P(GoawayTest, NoCallIsLostWhereThereIsAnotherServer) {
  StartServer();
  ServerOptions options;
  options.address = "127.0.0.1:0";
  PH_ASSERT_OK_AND_ASSIGN(const auto other,
                          Server::Start(options, &clock_, &observer_, &observer_, nullptr));
  std::atomic<bool> stop = false;
  std::atomic<int> served = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto channel = grpc::CreateCustomChannel(
          absl::StrCat("ipv4:", server_->address(), ",", other->address()),
          grpc::InsecureChannelCredentials(), arguments);
      while (!stop) {
        EXPECT_THAT(Call(channel), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
        ++served;
      }
    });
  }
  const auto await_more = [&served](int calls) {
    for (const int until = served + calls; served < until;) std::this_thread::yield();
  };
  await_more(200);
  server_->Drain(absl::Hours(1));
  await_more(200);
  stop = true;
  for (std::thread& client : clients) client.join();
}

TEST_P(GoawayTest, AConnectionOfAgeIsReplacedAndNoCallIsLost) {
  ServerOptions options;
  options.max_connection_age = absl::Milliseconds(20);
  StartServer(options);
  std::atomic<bool> stop = false;
  std::thread caller([&, channel = NewChannel()] {
    while (!stop) EXPECT_THAT(Call(channel), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  });
  for (int ages = 0; ages < 3; ++ages) {
    EXPECT_THAT(Call(channel_), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
    EXPECT_TRUE(channel_->WaitForStateChange(GRPC_CHANNEL_READY,
                                             absl::ToChronoTime(absl::Now() + absl::Minutes(1))));
  }
  stop = true;
  caller.join();
}

TEST_P(DrainTest, AtTheDeadlineOpenStreamsGetUnavailable) {
  int num_left = 0;
  ServerOptions options;
  options.leave_cluster = [&num_left] { ++num_left; };
  StartServer(options);
  const auto call = OpenPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(SizesOf({3, 4}, 0)));
  server_->Drain(absl::ZeroDuration());
  EXPECT_EQ(num_left, 1);
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
  EXPECT_THAT(planned, StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
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
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace packhouse::rpc
