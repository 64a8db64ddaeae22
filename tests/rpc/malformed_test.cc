// Bytes that are no messages, and messages that are too large, on the raw wire.
#include <string>

#include "absl/strings/match.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/generic_stub.h"
#include "service/server/calls/request_rights.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class MalformedTest : public ServerTest {
 protected:
  static grpc::ByteBuffer Bytes(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return grpc::ByteBuffer(&slice, 1);
  }

  void Await(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
  }

  // Sends one message on a stream and returns how it ends.
  absl::Status SendOnStream(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    auto call = stub.PrepareCall(&context, method, &queue);
    call->StartCall(nullptr);
    Await(queue);
    call->Write(Bytes(bytes), nullptr);
    Await(queue);
    grpc::Status status;
    call->Finish(&status, nullptr);
    Await(queue);
    return ToAbsl(status);
  }

  absl::Status SendUnary(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    auto call = stub.PrepareUnaryCall(&context, method, Bytes(bytes), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    Await(queue);
    return ToAbsl(status);
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, MalformedTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

// A field of 100 bytes of which one is there.
constexpr char kTruncated[] = "\x0a\x64x";

// A method of the contract without a row would be UNIMPLEMENTED.
TEST_P(MalformedTest, ATruncatedMessageIsInvalidOnEveryMethod) {
  StartServer();
  size_t methods = 0;
  for (const MethodRights& row : AllMethodRights()) {
    const auto* const method =
        google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(row.method);
    if (!absl::StartsWith(row.method, "packhouse.v1.")) continue;
    ++methods;
    const absl::Status ended = SendOnStream(
        absl::StrCat("/", method->service()->full_name(), "/", method->name()), kTruncated);
    EXPECT_THAT(ended, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(absl::StrCat("the request of 3 bytes is not a ",
                                                       method->input_type()->full_name(),
                                                       ": truncated or malformed"))))
        << row.method;
  }
  EXPECT_GE(methods, 50U);
  EXPECT_THAT(SendUnary("/packhouse.v1.PlanningService/Plan", kTruncated),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("truncated or malformed")));
  for (const char* const of_others :
       {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_THAT(SendOnStream(of_others, kTruncated),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("truncated or malformed")))
        << of_others;
  }
}

TEST_P(MalformedTest, AMessageAboveTheLimitIsResourceExhausted) {
  ServerOptions options;
  options.max_message_bytes = 4 << 20;
  StartServer(options);
  const std::string large((4 << 20) + 1, 'x');
  EXPECT_THAT(SendOnStream("/packhouse.v1.PackingService/Pack", large),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4194305")));
  EXPECT_THAT(SendUnary("/packhouse.v1.PlanningService/Plan", large),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4194305")));
}

// A small message that becomes a huge one costs the server nothing.
TEST_P(MalformedTest, CompressedMessagesAreRefused) {
  if (GetParam() == Transport::kInProcess) GTEST_SKIP() << "nothing is compressed in-process";
  StartServer();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::PlanRequest request;
  request.set_histogram_name(std::string(3 << 20, 'a'));
  v1::PlanResponse response;
  EXPECT_THAT(ToAbsl(v1::PlanningService::NewStub(channel_)->Plan(&context, request, &response)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("gzip")));
}

TEST_P(MalformedTest, AnAnswerAboveTheLimitIsResourceExhausted) {
  ServerOptions options;
  options.max_message_bytes = 4 << 20;
  StartServer(options);
  auto stub = v1::HistogramService::NewStub(channel_);
  for (uint32_t part = 0; part < 2; ++part) {
    v1::MergeHistogramRequest merge;
    merge.set_histogram("h");
    std::vector<uint32_t> tuples;
    for (uint32_t i = 0; i < 200'000; ++i) tuples.insert(tuples.end(), {part, i});
    merge.mutable_addend()->set_tuples(Uint32sToWire(tuples));
    merge.mutable_addend()->set_counts(Uint64sToWire(std::vector<uint64_t>(200'000, 1)));
    grpc::ClientContext context;
    v1::MergeHistogramResponse response;
    ASSERT_THAT(ToAbsl(stub->MergeHistogram(&context, merge, &response)), IsOk());
  }
  grpc::ClientContext context;
  v1::GetHistogramRequest get;
  get.set_histogram("h");
  v1::GetHistogramResponse response;
  EXPECT_THAT(ToAbsl(stub->GetHistogram(&context, get, &response)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 4194304")));
  observer_.AwaitFinished(Method::kGetHistogram, absl::StatusCode::kResourceExhausted);
}

TEST_P(MalformedTest, AnUnknownMethodIsUnimplemented) {
  StartServer();
  EXPECT_THAT(SendUnary("/packhouse.v1.PlanningService/Guess", ""),
              StatusIs(absl::StatusCode::kUnimplemented, ::testing::_));
}

TEST_P(MalformedTest, ReflectionAndHealthAnswer) {
  StartServer();
  // grpc.health.v1.HealthCheckRequest{}: the whole server.
  EXPECT_THAT(SendUnary("/grpc.health.v1.Health/Check", ""), IsOk());
  // ServerReflectionRequest{list_services: "*"}; the stream stays open until it is half-closed, so
  // only its first answer is read.
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  Await(queue);
  call->Write(Bytes("\x3a\x01*"), nullptr);
  Await(queue);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  Await(queue);
  grpc::Slice slice;
  ASSERT_TRUE(answer.DumpToSingleSlice(&slice).ok());
  const std::string text(reinterpret_cast<const char*>(slice.begin()), slice.size());
  for (const char* service : {"packhouse.v1.PackingService", "packhouse.v1.HistogramService",
                              "packhouse.v1.PlanningService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(text, HasSubstr(service));
  }
  call->WritesDone(nullptr);
  Await(queue);
  grpc::Status status;
  call->Finish(&status, nullptr);
  Await(queue);
}

}  // namespace
}  // namespace packhouse::rpc
