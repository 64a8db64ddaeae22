// Calls are heard of by their headers: those whose requests never come are bounded and end.
#include <chrono>
#include <map>

#include "grpcpp/generic/generic_stub.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kGet[] = "/packhouse.v1.HistogramService/GetHistogram";
constexpr char kPlan[] = "/packhouse.v1.PlanningService/Plan";
constexpr char kTune[] = "/packhouse.v1.PlanningService/Tune";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

// A call that was begun by its headers alone.
struct Begun {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::Status status;
  grpc::ByteBuffer answer;
};

class EarlyCallTest : public ServerTest {
 protected:
  void TearDown() override {
    for (const auto& begun : begun_) begun->context.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Begun& Begin(const std::string& method) {
    grpc::GenericStub stub(channel_);
    begun_.push_back(std::make_unique<Begun>());
    Begun& begun = *begun_.back();
    begun.call = stub.PrepareCall(&begun.context, method, &queue_);
    begun.call->StartCall(&kStarted);
    Await(&kStarted);
    return begun;
  }

  // How it ended.
  absl::Status End(Begun& begun) {
    begun.call->Finish(&begun.status, &begun);
    Await(&begun);
    return ToAbsl(begun.status);
  }

  // As End(). Time passes until then: a call begins to be idle some time after it has begun.
  absl::Status EndAsTimePasses(Begun& begun) {
    begun.call->Finish(&begun.status, &begun);
    while (seen_[&begun] == 0) {
      clock_.Advance(absl::Seconds(15));
      void* next = nullptr;
      bool ok = false;
      const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(1);
      if (queue_.AsyncNext(&next, &ok, soon) == grpc::CompletionQueue::GOT_EVENT) ++seen_[next];
    }
    --seen_[&begun];
    return ToAbsl(begun.status);
  }

  void Await(const void* tag) {
    while (seen_[tag] == 0) {
      void* next = nullptr;
      bool ok = false;
      ASSERT_TRUE(queue_.Next(&next, &ok));
      ++seen_[next];
    }
    --seen_[tag];
  }

  int kStarted = 0;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Begun>> begun_;
  std::map<const void*, int> seen_;
};
INSTANTIATE_TEST_SUITE_P(Transports, EarlyCallTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(EarlyCallTest, ACallWithoutItsRequestEndsAfterTheIdleTimeout) {
  ServerOptions options;
  options.stream_idle_timeout = absl::Minutes(1);
  StartServer(options);
  Begun& unary = Begin(kGet);
  Begun& planning = Begin(kPlan);
  Begun& streaming = Begin(kTune);
  for (const Method method : {Method::kGetHistogram, Method::kPlan, Method::kTune}) {
    observer_.AwaitStarted(method);
  }
  EXPECT_THAT(EndAsTimePasses(unary),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no request")));
  EXPECT_THAT(EndAsTimePasses(planning),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no request")));
  EXPECT_THAT(EndAsTimePasses(streaming).code(),
              AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kCancelled));
}

TEST_P(EarlyCallTest, ACallThatIsHalfClosedWithoutARequestIsInvalid) {
  StartServer();
  for (const char* method : {kGet, kPlan, kTune, kWatch}) {
    Begun& begun = Begin(method);
    int closed = 0;
    begun.call->WritesDone(&closed);
    Await(&closed);
    EXPECT_THAT(End(begun),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without a request")))
        << method;
  }
}

// A client may not have more calls open than all of its bounds together, and some: however it
// begins them, and whatever was said to them.
TEST_P(EarlyCallTest, CallsWithoutRequestsAreBounded) {
  ServerOptions options;
  options.admission = {.max_streams = 2, .max_calls = 2};
  options.max_health_watches = 2;
  StartServer(options);
  constexpr size_t kMost = 1 + 1 + 1 + 128;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (size_t i = 0; i < kMost + 1; ++i) {
    // A client keeps at its side what is too much for one connection.
    if (i % 50 == 0) channel_ = channels.emplace_back(NewChannel());
    Begin(kGet);
  }
  // Calls may arrive in another order: any of them may be the one too many.
  observer_.AwaitFinished(Method::kGetHistogram, absl::StatusCode::kResourceExhausted);
  // Once others have gone there is room again.
  for (const auto& begun : begun_) begun->context.TryCancel();
  for (const auto& begun : begun_) End(*begun).IgnoreError();
  absl::Status status;
  do {
    grpc::ClientContext context;
    v1::GetHistogramRequest request;
    request.set_histogram("none");
    v1::GetHistogramResponse response;
    status =
        ToAbsl(v1::HistogramService::NewStub(channel_)->GetHistogram(&context, request, &response));
  } while (!absl::IsNotFound(status));
}

TEST_P(EarlyCallTest, ACallOfNoMethodIsToldSo) {
  StartServer();
  Begun& begun = Begin("/none.such/Method");
  EXPECT_THAT(End(begun),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("'/none.such/Method'")));
}

TEST_P(EarlyCallTest, ADrainEndsCallsWhoseRequestsDoNotCome) {
  StartServer();
  Begun& unary = Begin(kGet);
  Begun& streaming = Begin(kTune);
  observer_.AwaitStarted(Method::kGetHistogram);
  observer_.AwaitStarted(Method::kTune);
  server_->Drain(absl::Milliseconds(1));
  EXPECT_THAT(End(unary), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  EXPECT_THAT(End(streaming).code(),
              AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace packhouse::rpc
