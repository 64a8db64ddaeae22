// What requests take in memory: told before they are parsed, reserved while they are at work, and
// never the end of the process.
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "service/server/calls_grpc/early_service.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class RequestMemoryTest : public ServerTest {};
INSTANTIATE_TEST_SUITE_P(Transports, RequestMemoryTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(RequestMemoryTest, EmptySubMessagesAreRefusedUnparsed) {
  StartServer();
  v1::PlanRequest plan;
  for (int i = 0; i < 100'000; ++i) plan.add_heuristics();
  grpc::ClientContext context;
  v1::PlanResponse planned;
  EXPECT_THAT(ToAbsl(v1::PlanningService::NewStub(channel_)->Plan(&context, plan, &planned)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the request packhouse.v1.PlanRequest of 200000 bytes"),
                             HasSubstr(std::to_string(
                                 MostFootprint(200'000, kFootprintTimesOf<v1::PlanRequest>))),
                             HasSubstr("packhouse.v1.PlanRequest.heuristics occurs "))));

  auto call = StartPack();
  v1::PackRequest request;
  for (int i = 0; i < 100'000; ++i) request.mutable_open()->mutable_schema()->add_tensors();
  EXPECT_TRUE(call->stream->Write(request));
  v1::PackResponse response;
  EXPECT_FALSE(call->stream->Read(&response));
  EXPECT_THAT(ToAbsl(call->stream->Finish()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("packhouse.v1.GraphSchema.tensors occurs ")));
}

// Bytes of graphs that wait are what is held for them: not fields that nobody knows, and all of the
// message that is left.
TEST_P(RequestMemoryTest, PendingBytesAreThoseThatAreHeld) {
  StartServer();
  auto call = StartPack();
  constexpr int kTensors = 200;
  v1::PackRequest open;
  v1::GraphSchema& schema = *open.mutable_open()->mutable_schema();
  schema.add_components("nodes");
  v1::PackRequest chunk;
  chunk.mutable_graphs()->mutable_sizes()->set_num_graphs(1);
  chunk.mutable_graphs()->mutable_sizes()->set_counts(std::string("\0\0\0\0", 4));
  for (int t = 0; t < kTensors; ++t) {
    const std::string name = absl::StrCat("a_tensor_with_a_name_that_is_long_", t);
    v1::TensorSpec& tensor = *schema.add_tensors();
    tensor.set_name(name);
    tensor.set_dtype(v1::DATA_TYPE_UINT8);
    tensor.set_component("nodes");
    chunk.mutable_graphs()->add_tensors()->set_name(name);
  }
  v1::Capacity& capacity = *open.mutable_open()->mutable_limits()->add_capacities();
  capacity.set_component("graphs");
  capacity.set_rows(4);
  ASSERT_TRUE(call->stream->Write(open));
  v1::PackResponse response;
  ASSERT_TRUE(call->stream->Read(&response));

  const uint64_t held = chunk.graphs().SpaceUsedLong() - chunk.graphs().sizes().SpaceUsedLong();
  const std::string unknown(1 * kMiB, 'u');
  chunk.GetReflection()->MutableUnknownFields(&chunk)->AddLengthDelimited(99, unknown);
  v1::GraphChunk& graphs = *chunk.mutable_graphs();
  graphs.GetReflection()->MutableUnknownFields(&graphs)->AddLengthDelimited(98, unknown);
  ASSERT_TRUE(call->stream->Write(chunk));
  call->stream->WritesDone();
  ASSERT_TRUE(call->stream->Read(&response));
  EXPECT_TRUE(response.has_batch());
  EXPECT_FALSE(call->stream->Read(&response));
  EXPECT_THAT(ToAbsl(call->stream->Finish()), IsOk());
  EXPECT_GE(observer_.most_pending_bytes(), held);
  EXPECT_LE(observer_.most_pending_bytes(), 2 * held);
}

// Does what the test says with each request.
using Script = std::function<absl::Status(const v1::ObserveRequest&)>;

class ScriptedHandler final : public StreamHandler<v1::ObserveRequest, v1::ObserveResponse> {
 public:
  ScriptedHandler(Script accept, Script next)
      : accept_(std::move(accept)), next_(std::move(next)) {}

  absl::Status Accept(std::unique_ptr<v1::ObserveRequest> request) override {
    has_request_ = true;
    return accept_ ? accept_(*request) : absl::OkStatus();
  }
  void HalfClose() override {}
  absl::StatusOr<std::optional<v1::ObserveResponse>> Next() override {
    if (!std::exchange(has_request_, false)) return std::nullopt;
    if (next_) PH_RETURN_IF_ERROR(next_({}));
    return v1::ObserveResponse();
  }

 private:
  const Script accept_;
  const Script next_;
  bool has_request_ = false;
};

class ScriptedService final : public EarlyService {
 public:
  explicit ScriptedService(const CallContext& context)
      : EarlyService(v1::HistogramService::service_full_name(), context) {
    Serve({StreamRow<v1::ObserveRequest, v1::ObserveResponse>(
               Method::kObserve, Waits::kTurns, absl::OkStatus(),
               [this](const StreamOpening&) {
                 return std::make_unique<ScriptedHandler>(accept, next);
               }),
           Row(Method::kGetHistogram, Waits::kTurns,
               [this](const v1::GetHistogramRequest&,
                      RequestCall&) -> absl::StatusOr<v1::GetHistogramResponse> {
                 PH_RETURN_IF_ERROR(accept({}));
                 v1::GetHistogramResponse response;
                 response.mutable_histogram()->set_tuples(std::string(answer_bytes, 'a'));
                 return response;
               })});
  }

  Script accept;
  Script next;
  size_t answer_bytes = 0;  // Of the unary call.
};

class ScriptedCallTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kWorking = 8 * kMiB;

  ScriptedCallTest()
      : service_({.clock = &clock_,
                  .stream_pool = &stream_pool_,
                  .call_pool = &call_pool_,
                  .gate = &gate_,
                  .max_response_bytes = 4 << 20,
                  .observer = &observer_,
                  .unsent_budget = &unsent_,
                  .identity = &identity_,
                  .log = {},
                  .client = {},
                  .working = &working_}) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    stub_ = v1::HistogramService::NewStub(server_->InProcessChannel({}));
  }
  ~ScriptedCallTest() override {
    server_->Shutdown();
    EXPECT_TRUE(gate_.WaitUntilEmpty(absl::InfiniteFuture()));
    EXPECT_EQ(working_.held(), 0U);
    server_.reset();
    EXPECT_EQ(unsent_.taken(), 0U);
  }

  // The request has so many bytes, or a few more.
  absl::Status CallUnary(size_t request_bytes = 0) {
    grpc::ClientContext context;
    v1::GetHistogramRequest request;
    request.set_histogram(std::string(request_bytes, 'h'));
    v1::GetHistogramResponse response;
    return ToAbsl(stub_->GetHistogram(&context, request, &response));
  }
  // Sends one request, and reads what comes until the end.
  absl::Status CallStream(int* num_responses) {
    grpc::ClientContext context;
    auto stream = stub_->Observe(&context);
    stream->Write({});
    stream->WritesDone();
    v1::ObserveResponse response;
    for (*num_responses = 0; stream->Read(&response); ++*num_responses) {
    }
    return ToAbsl(stream->Finish());
  }

  SimulatedClock clock_;
  CountingObserver observer_;
  const PeerAddressIdentity identity_;
  Gate gate_{{}};
  WorkerPool stream_pool_{&clock_, 1};
  WorkerPool call_pool_{&clock_, 1};
  MemoryBudget working_{kWorking};
  UnsentBudget unsent_{kMiB};
  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::HistogramService::Stub> stub_;
};

// A unary request of so many bytes needs room in the budget.
constexpr size_t kCounted = 16 << 10;

// Whatever cannot be allocated ends the call, and leaves the server to others.
TEST_F(ScriptedCallTest, AllocationFailureEndsTheCallAlone) {
  const std::vector<Script> failures = {
      [](const auto&) -> absl::Status { throw std::bad_alloc(); },
      [](const auto&) -> absl::Status { throw std::length_error("reserve"); },
      [](const auto&) -> absl::Status {
        // A figure that the compiler cannot foresee.
        std::vector<uint64_t>().reserve(std::stoull("1000000000000000000"));
        return absl::OkStatus();
      }};
  const Script works = [](const auto&) { return absl::OkStatus(); };
  const auto exhausted = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory"));
  int num_responses = 0;
  for (const Script& failure : failures) {
    service_.accept = failure;
    EXPECT_THAT(CallUnary(), exhausted);
    EXPECT_THAT(CallStream(&num_responses), exhausted);
    EXPECT_EQ(num_responses, 0) << "the handler was asked again";
    service_.accept = works;
    service_.next = failure;
    EXPECT_THAT(CallStream(&num_responses), exhausted);
    service_.next = works;
    EXPECT_THAT(CallUnary(), IsOk());
    EXPECT_THAT(CallStream(&num_responses), IsOk());
    EXPECT_EQ(num_responses, 1);
  }
}

TEST_F(ScriptedCallTest, RequestsAreHeldOfTheBudgetWhileTheyAreAtWork) {
  uint64_t held = 0;
  service_.accept = [&](const auto&) {
    held = working_.held();
    return absl::OkStatus();
  };
  EXPECT_THAT(CallUnary(kCounted), IsOk());
  EXPECT_GE(held, kCounted);
  held = 0;
  int num_responses = 0;
  EXPECT_THAT(CallStream(&num_responses), IsOk());
  EXPECT_GE(held, v1::ObserveRequest().SpaceUsedLong());
}

// A unary answer is a response that is not sent, until it is.
TEST_F(ScriptedCallTest, AnswersAreHeldUntilTheyAreSent) {
  service_.accept = [](const auto&) { return absl::OkStatus(); };
  service_.answer_bytes = 2 * kMiB;
  EXPECT_THAT(CallUnary(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("--memory-budget"), HasSubstr(std::to_string(kMiB)))));
  // Others hold the rest.
  service_.answer_bytes = kMiB / 2;
  ASSERT_THAT(unsent_.Reserve(kMiB / 2, kMiB / 2), IsOk());
  EXPECT_THAT(CallUnary(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("524")));
  unsent_.Give(kMiB / 2);
  EXPECT_THAT(CallUnary(), IsOk());
}

TEST_F(ScriptedCallTest, AUnaryCallWithoutRoomIsRefused) {
  service_.accept = [](const auto&) { return absl::OkStatus(); };
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, working_.Hold("others", kWorking));
  EXPECT_THAT(CallUnary(kCounted),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("--memory-budget"), HasSubstr(std::to_string(kWorking)))));
  // A request of a few bytes needs none.
  EXPECT_THAT(CallUnary(), IsOk());
}

// A stream's request waits where a unary call's is refused: it goes on once there is room.
TEST_F(ScriptedCallTest, AStreamWaitsForRoom) {
  PH_ASSERT_OK_AND_ASSIGN(MemoryHold others, working_.Hold("others", kWorking));
  grpc::ClientContext context;
  auto stream = stub_->Observe(&context);
  ASSERT_TRUE(stream->Write({}));
  stream->WritesDone();
  for (int tries = 0; tries < 3; ++tries) {
    clock_.AwaitTimer();
    clock_.Advance(absl::Milliseconds(10));
  }
  clock_.AwaitTimer();
  others.Reset();
  clock_.Advance(absl::Milliseconds(10));
  v1::ObserveResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

TEST_F(ScriptedCallTest, AStreamDoesNotWaitForEver) {
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, working_.Hold("others", kWorking));
  grpc::ClientContext context;
  auto stream = stub_->Observe(&context);
  ASSERT_TRUE(stream->Write({}));
  clock_.AwaitTimer();
  clock_.Advance(absl::Seconds(10));
  v1::ObserveResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
}

// A message that alone takes more than the budget goes on when nothing else is at work.
TEST_F(ScriptedCallTest, AMessageAloneAlwaysHasRoom) {
  service_.accept = [](const auto&) { return absl::OkStatus(); };
  grpc::ClientContext context;
  auto stream = stub_->Observe(&context);
  v1::ObserveRequest request;
  request.mutable_sizes()->set_counts(std::string(2 * kMiB, 'c'));
  for (int i = 0; i < 100'000; ++i) request.add_components("a component's name, which is long");
  ASSERT_GT(request.SpaceUsedLong(), kWorking);
  ASSERT_TRUE(stream->Write(request));
  v1::ObserveResponse response;
  EXPECT_TRUE(stream->Read(&response));
  stream->WritesDone();
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

}  // namespace
}  // namespace packhouse::rpc
