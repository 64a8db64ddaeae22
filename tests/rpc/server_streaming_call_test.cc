// Server-streaming calls, whose work and responses the test holds: order, back-pressure, the end.
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/server/calls_grpc/early_service.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

using Sink = ProgressSink<v1::TuneResponse>;
using Source = ResponseSource<v1::TuneResponse>;

v1::TuneResponse Progress(uint64_t number, size_t bytes = 0) {
  v1::TuneResponse response;
  response.mutable_progress()->set_planned(number);
  if (bytes != 0) {
    response.mutable_progress()
        ->mutable_incumbent()
        ->mutable_limits()
        ->add_capacities()
        ->set_component(std::string(bytes, 'x'));
  }
  return response;
}

v1::TuneResponse Cell(uint64_t number) {
  v1::TuneResponse response;
  response.mutable_cell()->add_capacities(number);
  return response;
}

v1::TuneResponse Reasons(size_t bytes) {
  v1::TuneResponse response;
  response.mutable_recommendation()->add_reasons(std::string(bytes, 'x'));
  return response;
}

// Gives what a function of the response's number says; counts how often it was asked.
class CountingSource final : public Source {
 public:
  using Give = std::function<absl::StatusOr<std::optional<v1::TuneResponse>>(uint64_t)>;
  struct Counts {
    std::atomic<uint64_t> given = 0;
    std::latch gone{1};
  };

  CountingSource(Give give, std::shared_ptr<Counts> counts)
      : give_(std::move(give)), counts_(std::move(counts)) {}
  ~CountingSource() override { counts_->gone.count_down(); }

  absl::StatusOr<std::optional<v1::TuneResponse>> Next() override {
    return give_(counts_->given++);
  }

 private:
  const Give give_;
  const std::shared_ptr<Counts> counts_;
};

// Gives cells numbered from 0, `n` of them.
CountingSource::Give CellsUpTo(uint64_t n) {
  return [n](uint64_t i) -> absl::StatusOr<std::optional<v1::TuneResponse>> {
    if (i < n) return Cell(i);
    return std::nullopt;
  };
}

class ScriptedLoadService final : public EarlyService {
 public:
  explicit ScriptedLoadService(const CallContext& context)
      : EarlyService(v1::PlanningService::service_full_name(), context) {
    Serve({Row(Method::kTune, Waits::kPlans, [this](const v1::TuneRequest& request, Sink& sink) {
      // The test may set another one meanwhile.
      const auto of_call = work;
      return of_call(request, sink);
    })});
  }

  std::function<absl::StatusOr<std::unique_ptr<Source>>(const v1::TuneRequest&, Sink&)> work;
};

class ServerStreamingCallTest : public ::testing::TestWithParam<Transport> {
 protected:
  static constexpr size_t kMaxResponseBytes = 4 << 20;
  static constexpr size_t kMaxStreams = 64;

  ServerStreamingCallTest()
      : service_({.clock = &clock_,
                  .stream_pool = &stream_pool_,
                  .call_pool = &call_pool_,
                  .planning_pool = &planning_pool_,
                  .gate = &gate_,
                  .max_response_bytes = kMaxResponseBytes,
                  .observer = &observer_,
                  .identity = &identity_,
                  .log = {},
                  .client = {}}) {
    grpc::ServerBuilder builder;
    int port = 0;
    if (GetParam() == Transport::kTcp) {
      builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    }
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = GetParam() == Transport::kInProcess
                   ? server_->InProcessChannel(arguments)
                   : grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                               grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::PlanningService::NewStub(channel_);
  }

  ~ServerStreamingCallTest() override {
    server_->Shutdown();
    EXPECT_TRUE(gate_.WaitUntilEmpty(absl::InfiniteFuture()));
  }

  // Answers every request by the source, after the work.
  std::shared_ptr<CountingSource::Counts> Answer(CountingSource::Give give,
                                                 std::function<void(Sink&)> work = nullptr) {
    auto counts = std::make_shared<CountingSource::Counts>();
    service_.work = [=](const v1::TuneRequest&,
                        Sink& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
      if (work) work(sink);
      return std::make_unique<CountingSource>(give, counts);
    };
    return counts;
  }

  std::unique_ptr<grpc::ClientReader<v1::TuneResponse>> Start(grpc::ClientContext& context) {
    return stub_->Tune(&context, v1::TuneRequest());
  }

  SimulatedClock clock_;
  CountingObserver observer_;
  Gate gate_{{.max_streams = kMaxStreams, .max_streams_per_client = kMaxStreams}};
  const PeerAddressIdentity identity_;
  // One thread each. A call that held it would hold up all others.
  WorkerPool stream_pool_{&clock_, 1};
  WorkerPool call_pool_{&clock_, 1};
  PlanningPool planning_pool_{&clock_, 1};
  ScriptedLoadService service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PlanningService::Stub> stub_;
};
INSTANTIATE_TEST_SUITE_P(Transports, ServerStreamingCallTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

// Progress first, in order but not all of it, the last in any case; then every response in order.
TEST_P(ServerStreamingCallTest, ProgressThenResponsesThenOk) {
  constexpr uint64_t kReports = 1000;
  constexpr uint64_t kCells = 20'000;
  Answer(CellsUpTo(kCells), [](Sink& sink) {
    for (uint64_t i = 1; i <= kReports; ++i) sink.Report(Progress(i));
  });
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  uint64_t last_progress = 0;
  uint64_t cells = 0;
  while (stream->Read(&response)) {
    if (response.has_progress()) {
      EXPECT_EQ(cells, 0U);
      EXPECT_GT(response.progress().planned(), last_progress);
      last_progress = response.progress().planned();
    } else {
      ASSERT_EQ(response.cell().capacities(0), cells);
      ++cells;
    }
  }
  EXPECT_EQ(last_progress, kReports);
  EXPECT_EQ(cells, kCells);
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kOk);
}

TEST_P(ServerStreamingCallTest, ACallWithoutResponses) {
  Answer(CellsUpTo(0));
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

// Linux grows a socket's buffers to 6 MiB on the receiving and 4 MiB on the sending side.
constexpr uint64_t kMaxInSockets = 12;
constexpr size_t kMegabyte = 1 << 20;

// Work is never held up, and of what a slow reader missed only the latest is kept.
TEST_P(ServerStreamingCallTest, ASlowReaderMissesProgress) {
  constexpr uint64_t kReports = 200;
  std::latch worked(1);
  Answer(CellsUpTo(1), [&](Sink& sink) {
    for (uint64_t i = 1; i <= kReports; ++i) sink.Report(Progress(i, kMegabyte));
    worked.count_down();
  });
  grpc::ClientContext context;
  const auto stream = Start(context);
  worked.wait();
  v1::TuneResponse response;
  uint64_t received = 0;
  uint64_t last = 0;
  while (stream->Read(&response) && response.has_progress()) {
    ++received;
    last = response.progress().planned();
  }
  EXPECT_EQ(last, kReports);
  EXPECT_LE(received, kMaxInSockets + 2);
  EXPECT_TRUE(response.has_cell());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

// It is asked for no more than may wait and what the sockets' buffers take, holds no thread, and
// gives everything once it is read.
TEST_P(ServerStreamingCallTest, AStalledReaderStopsItsOwnSource) {
  constexpr uint64_t kResponses = 100;
  const auto stalled = Answer([](uint64_t i) -> absl::StatusOr<std::optional<v1::TuneResponse>> {
    if (i < kResponses) return Reasons(kMegabyte);
    return std::nullopt;
  });
  grpc::ClientContext context;
  const auto stream = Start(context);
  while (stalled->given < Outbox::kFullResponses) std::this_thread::yield();
  constexpr uint64_t kMostGiven = kMaxInSockets + 1 + Outbox::kFullResponses;
  for (int round = 0; round < 100; ++round) {
    Answer(CellsUpTo(10));
    grpc::ClientContext other_context;
    const auto other = Start(other_context);
    v1::TuneResponse response;
    int cells = 0;
    while (other->Read(&response)) ++cells;
    EXPECT_EQ(cells, 10);
    EXPECT_THAT(ToAbsl(other->Finish()), IsOk());
    EXPECT_LE(stalled->given, kMostGiven);
  }
  v1::TuneResponse response;
  uint64_t received = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.recommendation().reasons(0).size(), kMegabyte);
    ++received;
  }
  EXPECT_EQ(received, kResponses);
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

TEST_P(ServerStreamingCallTest, CancellingGivesUpTheWork) {
  std::latch gave_up(1);
  service_.work = [&](const v1::TuneRequest&,
                      Sink& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
    sink.Report(Progress(1));
    while (!sink.YieldTurn()) std::this_thread::yield();
    gave_up.count_down();
    return absl::CancelledError("given up");
  };
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  ASSERT_TRUE(stream->Read(&response));
  context.TryCancel();
  gave_up.wait();
  EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kCancelled);
}

TEST_P(ServerStreamingCallTest, CancellingEndsTheSource) {
  const auto counts = Answer([](uint64_t i) { return Cell(i); });
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.cell().capacities(0), i);
  }
  context.TryCancel();
  counts->gone.wait();
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kCancelled);
}

TEST_P(ServerStreamingCallTest, AnErrorComesAfterWhatWasGivenBefore) {
  Answer([](uint64_t i) -> absl::StatusOr<std::optional<v1::TuneResponse>> {
    if (i < 5000) return Cell(i);
    return absl::DataLossError("cell 5000 is lost");
  });
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  uint64_t cells = 0;
  while (stream->Read(&response)) ++cells;
  EXPECT_EQ(cells, 5000U);
  EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kDataLoss, "cell 5000 is lost"));
}

// Progress that was reported before the work failed may still be read.
TEST_P(ServerStreamingCallTest, WorkThatFailsEndsTheCall) {
  service_.work = [](const v1::TuneRequest&,
                     Sink& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
    sink.Report(Progress(1));
    return absl::FailedPreconditionError("no limits will do");
  };
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()),
              StatusIs(absl::StatusCode::kFailedPrecondition, "no limits will do"));
}

TEST_P(ServerStreamingCallTest, AResponseAboveTheLimitIsResourceExhausted) {
  Answer([](uint64_t i) -> absl::StatusOr<std::optional<v1::TuneResponse>> {
    if (i == 0) return Cell(0);
    return Reasons(kMaxResponseBytes);
  });
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 4194304")));
}

TEST_P(ServerStreamingCallTest, ProgressAboveTheLimitIsLeftOut) {
  Answer(CellsUpTo(1), [](Sink& sink) { sink.Report(Progress(1, kMaxResponseBytes)); });
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_cell());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

TEST_P(ServerStreamingCallTest, AClosedGateRefuses) {
  Answer(CellsUpTo(1));
  gate_.Close();
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kUnavailable);
}

TEST_P(ServerStreamingCallTest, TooManyAreRefused) {
  std::latch go_on(1);
  Answer(CellsUpTo(1), [&](Sink&) { go_on.wait(); });
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::TuneResponse>>> streams;
  for (size_t i = 0; i <= kMaxStreams; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(Start(*contexts.back()));
  }
  // Which of them comes last is not known.
  observer_.AwaitFinished(Method::kTune, absl::StatusCode::kResourceExhausted);
  go_on.count_down();
  int refused = 0;
  for (const auto& stream : streams) {
    v1::TuneResponse response;
    while (stream->Read(&response)) {
    }
    const absl::Status status = ToAbsl(stream->Finish());
    if (status.ok()) continue;
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("streams: 64 are open, at most 64")));
    ++refused;
  }
  EXPECT_EQ(refused, 1);
}

// At the end of a drain: the work is given up, and the client told to go elsewhere.
TEST_P(ServerStreamingCallTest, AbortedCallsEndWithTheStatusGiven) {
  std::latch begun(1);
  service_.work = [&](const v1::TuneRequest&,
                      Sink& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
    begun.count_down();
    while (!sink.YieldTurn()) std::this_thread::yield();
    return absl::CancelledError("given up");
  };
  grpc::ClientContext context;
  const auto stream = Start(context);
  begun.wait();
  gate_.AbortStreams(absl::UnavailableError("draining"));
  v1::TuneResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kUnavailable, "draining"));
}

TEST_P(ServerStreamingCallTest, AbortedSourcesEndWithTheStatusGiven) {
  const auto counts = Answer([](uint64_t i) { return Cell(i); });
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  ASSERT_TRUE(stream->Read(&response));
  gate_.AbortStreams(absl::UnavailableError("draining"));
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kUnavailable, "draining"));
  counts->gone.wait();
}

// Its responses cannot be delivered, so that it cannot end by itself; the server ends all the same.
TEST_P(ServerStreamingCallTest, AStalledReaderDoesNotHoldUpTheEnd) {
  const auto counts = Answer([](uint64_t) { return Reasons(kMegabyte); });
  grpc::ClientContext context;
  const auto stream = Start(context);
  while (counts->given < Outbox::kFullResponses) std::this_thread::yield();
  gate_.Close();
  gate_.AbortStreams(absl::UnavailableError("draining"));
  server_->Shutdown(std::chrono::system_clock::now());
  EXPECT_TRUE(gate_.WaitUntilEmpty(absl::InfiniteFuture()));
  v1::TuneResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
}

// Gives one cell, then waits for ever.
class WaitingSource final : public Source {
 public:
  absl::StatusOr<std::optional<v1::TuneResponse>> Next() override {
    if (std::exchange(given_, true)) return std::nullopt;
    return Cell(0);
  }
  bool IsWaiting() const override { return given_; }

 private:
  bool given_ = false;
};

TEST_P(ServerStreamingCallTest, OnlyAnIdleCallIsEndedForIt) {
  service_.work = [](const v1::TuneRequest&, Sink&) -> absl::StatusOr<std::unique_ptr<Source>> {
    return std::make_unique<WaitingSource>();
  };
  const absl::Time begin = clock_.Now();
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  ASSERT_TRUE(stream->Read(&response));
  // A call whose response has not gone is cut off.
  observer_.AwaitAllSent();
  // Something has gone since.
  for (int i = 0; i < 100; ++i) gate_.EndIdleStreams(begin - absl::Seconds(1));
  absl::Notification ended;
  std::thread end([&] {
    // The stream does not end while the server still works on it. Then time passes once more. A
    // stream that is idle for as long again is cancelled, so it gets time to end.
    do {
      clock_.Advance(absl::Seconds(1));
      gate_.EndIdleStreams(clock_.Now());
    } while (!ended.WaitForNotificationWithTimeout(absl::Seconds(1)));
  });
  EXPECT_FALSE(stream->Read(&response));
  ended.Notify();
  end.join();
  EXPECT_THAT(ToAbsl(stream->Finish()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--stream-idle-timeout")));
}

TEST_P(ServerStreamingCallTest, ACallAtWorkIsNotIdle) {
  std::latch begun(1);
  std::latch go_on(1);
  Answer(CellsUpTo(3), [&](Sink&) {
    begun.count_down();
    go_on.wait();
  });
  grpc::ClientContext context;
  const auto stream = Start(context);
  begun.wait();
  clock_.Advance(absl::Hours(100));
  gate_.EndIdleStreams(clock_.Now());
  go_on.count_down();
  v1::TuneResponse response;
  int cells = 0;
  while (stream->Read(&response)) ++cells;
  EXPECT_EQ(cells, 3);
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

// A client that takes nothing cannot be told so; its call ends all the same.
TEST_P(ServerStreamingCallTest, AStalledReaderIsIdle) {
  const auto counts = Answer([](uint64_t) { return Reasons(kMegabyte); });
  grpc::ClientContext context;
  const auto stream = Start(context);
  while (counts->given < Outbox::kFullResponses) std::this_thread::yield();
  while (!counts->gone.try_wait()) {
    clock_.Advance(absl::Hours(1));
    gate_.EndIdleStreams(clock_.Now());
  }
  v1::TuneResponse response;
  while (stream->Read(&response)) {
  }
  // What it has not read comes first. It is told why only if it reads that before the connection's
  // stream is reset.
  const absl::Status status = ToAbsl(stream->Finish());
  EXPECT_TRUE(absl::IsCancelled(status) || absl::IsUnavailable(status)) << status;
}

// What plans waits for its turns in YieldTurn(): endless work of one call does not hold up another.
TEST_P(ServerStreamingCallTest, WorkTakesTurns) {
  std::latch begun(1);
  service_.work = [&](const v1::TuneRequest&,
                      Sink& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
    begun.count_down();
    while (!sink.YieldTurn()) clock_.Advance(PlanningPool::kSlice);
    return absl::CancelledError("given up");
  };
  grpc::ClientContext endless_context;
  const auto endless = Start(endless_context);
  begun.wait();
  // The planning pool has one turn at a time.
  Answer(CellsUpTo(2));
  grpc::ClientContext context;
  const auto stream = Start(context);
  v1::TuneResponse response;
  int cells = 0;
  while (stream->Read(&response)) ++cells;
  EXPECT_EQ(cells, 2);
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
  endless_context.TryCancel();
  EXPECT_THAT(ToAbsl(endless->Finish()), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
}

}  // namespace
}  // namespace packhouse::rpc
