// grpc.health.v1.Health: what is served, who may watch it, and how it ends.
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

// A Watch with all it needs.
struct WatchCall {
  grpc::ClientContext context;
  std::unique_ptr<Health::Stub> stub;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream;

  // The next status; UNKNOWN at the end.
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return stream->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
};

class HealthServiceTest : public ServerTest {
 protected:
  absl::StatusOr<HealthCheckResponse::ServingStatus> Check(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    grpc::ClientContext context;
    HealthCheckResponse response;
    const absl::Status status =
        ToAbsl(Health::NewStub(channel_)->Check(&context, request, &response));
    if (!status.ok()) return status;
    return response.status();
  }

  std::unique_ptr<WatchCall> Watch(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    auto call = std::make_unique<WatchCall>();
    call->stub = Health::NewStub(channel_);
    call->stream = call->stub->Watch(&call->context, request);
    return call;
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, HealthServiceTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(HealthServiceTest, TellsOfTheServerAndOfEachService) {
  StartServer();
  for (const char* served : {"", "packhouse.v1.PackingService", "packhouse.v1.HistogramService",
                             "packhouse.v1.PlanningService", "packhouse.v1.FeedbackService",
                             "packhouse.v1.ReceiptService", "grpc.health.v1.Health"}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(served));
    EXPECT_EQ(status, HealthCheckResponse::SERVING) << served;
  }
  // They are nothing without a data folder.
  for (const char* useless : {"packhouse.v1.DatasetService", "packhouse.v1.LoaderService"}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(useless));
    EXPECT_EQ(status, HealthCheckResponse::NOT_SERVING) << useless;
  }
  EXPECT_THAT(Check("packhouse.v1.Nothing").status(),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_EQ(Watch("packhouse.v1.Nothing")->Next(), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST_P(HealthServiceTest, WithADataFolderAllIsServed) {
  OpenDatasets();
  StartServer();
  for (const char* served : {"packhouse.v1.DatasetService", "packhouse.v1.LoaderService"}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(served));
    EXPECT_EQ(status, HealthCheckResponse::SERVING) << served;
  }
}

TEST_P(HealthServiceTest, ALongNameIsInvalid) {
  StartServer();
  PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(""));
  EXPECT_EQ(status, HealthCheckResponse::SERVING);
  for (const auto& [length, why] :
       {std::pair(size_t{1025}, "service: a name of 1025 bytes, at most 1024"),
        std::pair(size_t{1} << 20, "service: a name of 1048580 bytes, at most 1032")}) {
    const std::string name(length, 'a');
    EXPECT_THAT(Check(name).status(), StatusIs(absl::StatusCode::kInvalidArgument, why));
    const auto watch = Watch(name);
    EXPECT_THAT(ToAbsl(watch->stream->Finish()), StatusIs(absl::StatusCode::kInvalidArgument, why));
  }
  EXPECT_THAT(Check(std::string(1024, 'a')).status(),
              StatusIs(absl::StatusCode::kNotFound, "there is no service of that name"));
}

TEST_P(HealthServiceTest, WatchesAreBoundedAndComeAndGo) {
  ServerOptions options;
  options.max_health_watches = 4;
  StartServer(options);
  auto first = Watch("");
  auto second = Watch("");
  EXPECT_EQ(first->Next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(second->Next(), HealthCheckResponse::SERVING);
  EXPECT_THAT(ToAbsl(Watch("")->stream->Finish()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-health-watches")));
  first->context.TryCancel();
  observer_.AwaitFinished(Method::kWatch, absl::StatusCode::kCancelled);
  EXPECT_EQ(Watch("")->Next(), HealthCheckResponse::SERVING);
}

// What others have used up is not the probe's business.
TEST_P(HealthServiceTest, AnswersBesideAFullGate) {
  ServerOptions options;
  options.admission = {.max_streams = 1, .max_calls = 1};
  StartServer(options);
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenSizes(10)));
  v1::PackResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(""));
  EXPECT_EQ(status, HealthCheckResponse::SERVING);
  EXPECT_EQ(Watch("")->Next(), HealthCheckResponse::SERVING);
}

TEST_P(HealthServiceTest, WhoWatchesHearsOfTheLameDuckAndIsSentAwayAfterIt) {
  StartServer();
  const auto watch = Watch("");
  const auto of_service = Watch("packhouse.v1.PackingService");
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(of_service->Next(), HealthCheckResponse::SERVING);
  std::thread drain(
      [&] { server_->Drain({.lame_duck = absl::Seconds(1), .timeout = absl::Hours(1)}); });
  EXPECT_EQ(watch->Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(of_service->Next(), HealthCheckResponse::NOT_SERVING);
  PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(""));
  EXPECT_EQ(status, HealthCheckResponse::NOT_SERVING);
  std::thread time([&] {
    while (server_->is_draining()) {
      clock_.Advance(absl::Seconds(1));
      if (observer_.finished(Method::kWatch, absl::StatusCode::kUnavailable) > 0) return;
      std::this_thread::yield();
    }
  });
  EXPECT_THAT(ToAbsl(watch->stream->Finish()),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  time.join();
  // They hold nobody up.
  drain.join();
}

// Who comes to a server that has sent the others away is sent away too, however long it drains.
TEST_P(HealthServiceTest, WhoWatchesADrainingServerIsSentAwayAtOnce) {
  StartServer();
  const auto stream = StartPack();
  ASSERT_TRUE(stream->stream->Write(OpenSizes(10)));
  v1::PackResponse response;
  ASSERT_TRUE(stream->stream->Read(&response));
  const auto watch = Watch("");
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  std::thread drain([&] { server_->Drain({.timeout = absl::Hours(1)}); });
  while (watch->Next() != HealthCheckResponse::UNKNOWN) {
  }
  EXPECT_THAT(ToAbsl(watch->stream->Finish()),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  // Over TCP there is no way to it any more.
  const auto late = Watch("");
  const HealthCheckResponse::ServingStatus told = late->Next();
  EXPECT_EQ(told, HealthCheckResponse::UNKNOWN);
  if (told != HealthCheckResponse::UNKNOWN) late->context.TryCancel();
  EXPECT_THAT(ToAbsl(late->stream->Finish()),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  stream->context.TryCancel();
  drain.join();
}

// As /readyz: whatever keeps the server from work, and each service with it.
TEST_P(HealthServiceTest, IsAsReadyAsTheServer) {
  OpenDatasets();
  absl::Mutex mutex;
  std::string why;
  Readiness readiness;
  readiness.Add("disk", [&] {
    absl::MutexLock lock(&mutex);
    return why;
  });
  const auto set = [&](const char* to) {
    {
      absl::MutexLock lock(&mutex);
      why = to;
    }
    server_->RefreshHealth();
  };
  ServerOptions options;
  options.readiness = &readiness;
  StartServer(options);
  auto watch = Watch("");
  auto of_service = Watch("packhouse.v1.LoaderService");
  // The server asks for as long as it is there.
  const absl::Cleanup end = [&] {
    watch.reset();
    of_service.reset();
    server_.reset();
  };
  for (const auto& [reason, expected] :
       {std::pair("", HealthCheckResponse::SERVING),
        std::pair("the disk is full", HealthCheckResponse::NOT_SERVING),
        std::pair("", HealthCheckResponse::SERVING)}) {
    set(reason);
    EXPECT_EQ(watch->Next(), expected);
    EXPECT_EQ(of_service->Next(), expected);
    for (const char* service : {"", "packhouse.v1.LoaderService", "packhouse.v1.PackingService"}) {
      PH_ASSERT_OK_AND_ASSIGN(const auto status, Check(service));
      EXPECT_EQ(status, expected) << service;
    }
    EXPECT_THAT(Check("packhouse.v1.Nothing").status(),
                StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  }
}

// A Watch is idle by nature.
TEST_P(HealthServiceTest, AWatchIsNotEndedForSayingNothing) {
  ServerOptions options;
  options.stream_idle_timeout = absl::Minutes(1);
  StartServer(options);
  const auto watch = Watch("");
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  for (int minute = 0; minute < 10; ++minute) clock_.Advance(absl::Minutes(1));
  std::thread drain([&] { server_->Drain(absl::Hours(1)); });
  EXPECT_NE(watch->Next(), HealthCheckResponse::SERVING);
  drain.join();
}

}  // namespace
}  // namespace packhouse::rpc
