#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "packhouse/v1/loader.pb.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PackStreamTest : public ServerTest {};
INSTANTIATE_TEST_SUITE_P(Transports, PackStreamTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(PackStreamTest, HalfCloseFlushesAndEndsWithOk) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenSizes(10)));
  ASSERT_TRUE(stream->Write(SizesOf({4, 6, 3, 11}, 50)));
  ASSERT_TRUE(stream->WritesDone());
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_opened());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.rejected().rejections(0).graph_id(), 53U);
  std::multiset<uint64_t> ids;
  while (stream->Read(&response)) {
    for (const uint64_t id : Uint64sFromWire(response.batch().graph_ids())) ids.insert(id);
  }
  EXPECT_THAT(ids, ElementsAre(50, 51, 52));
  EXPECT_THAT(Finish(*stream), IsOk());
  observer_.AwaitFinished(Method::kPack, absl::StatusCode::kOk);
}

TEST_P(PackStreamTest, AnErrorComesAfterAllThatWasAcceptedBefore) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenSizes(10)));
  ASSERT_TRUE(stream->Write(SizesOf({4, 6}, 0)));
  v1::PackRequest bad = SizesOf({1}, 9);
  bad.mutable_sizes()->set_num_graphs(2);
  ASSERT_TRUE(stream->Write(bad));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_opened());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_THAT(Uint64sFromWire(response.batch().graph_ids()), ElementsAre(0, 1));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(Finish(*stream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sizes.counts: 8 bytes, 2 graphs of 2 components take 16")));
}

// An idle stream ends, and what was accepted comes out before the status does.
TEST_P(PackStreamTest, AnIdleStreamGivesOutWhatItOwes) {
  ServerOptions options;
  options.stream_idle_timeout = absl::Hours(1);
  StartServer(options);
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenSizes(10)));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  // Fewer than fill a pack: they wait.
  ASSERT_TRUE(stream->Write(SizesOf({3, 3}, 0)));
  while (observer_.most_pending_bytes() == 0) std::this_thread::yield();
  // A client that does not read is cancelled after as long again. So time passes once more only if
  // the stream moved after it had passed.
  std::thread pass([&] {
    while (observer_.batches() == 0) {
      clock_.Advance(absl::Minutes(61));
      for (int i = 0; i < 1'000'000 && observer_.batches() == 0; ++i) std::this_thread::yield();
    }
  });
  ASSERT_TRUE(stream->Read(&response));
  pass.join();
  EXPECT_EQ(Uint64sFromWire(response.batch().graph_ids()), (std::vector<uint64_t>{0, 1}));
  EXPECT_THAT(Finish(*stream),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--stream-idle-timeout")));
}

TEST_P(PackStreamTest, OneClientHasHalfOfTheStreams) {
  ServerOptions options;
  options.admission.max_streams = 4;
  StartServer(options);
  std::vector<std::unique_ptr<PackCall>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(StartPack());
    // One that was refused may have ended by now.
    EXPECT_TRUE(calls.back()->stream->Write(OpenSizes(10)) || i == 2);
    v1::PackResponse response;
    EXPECT_EQ(calls.back()->stream->Read(&response), i < 2);
  }
  const std::string client = GetParam() == Transport::kTcp ? "127.0.0.1" : "in-process";
  EXPECT_THAT(Finish(*calls.back()->stream),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("client '" + client + "' has 2, at most 2")));
}

TEST_P(PackStreamTest, OversizeAsAnErrorIsOutOfRange) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  v1::PackRequest open = OpenSizes(10);
  open.mutable_open()->set_oversize_policy(v1::OVERSIZE_POLICY_ERROR);
  ASSERT_TRUE(stream->Write(open));
  ASSERT_TRUE(stream->Write(SizesOf({11}, 0)));
  EXPECT_THAT(Finish(*stream),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("graph 0 has 11 nodes")));
}

TEST_P(PackStreamTest, ChunksBeforeOpenAreAFailedPrecondition) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(SizesOf({1}, 0)));
  EXPECT_THAT(Finish(*stream),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("must carry 'open'")));
}

TEST_P(PackStreamTest, AStreamWithoutAnyRequestEndsWithOk) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_THAT(Finish(*stream), IsOk());
}

TEST_P(PackStreamTest, MaxDelayGivesOutABatchWithoutAnyRequest) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  v1::PackRequest open = OpenSizes(10);
  open.mutable_open()->mutable_max_delay()->set_seconds(60);
  ASSERT_TRUE(stream->Write(open));
  ASSERT_TRUE(stream->Write(SizesOf({1, 2}, 0)));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  clock_.AwaitTimer();
  clock_.Advance(absl::Seconds(60));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(Uint64sFromWire(response.batch().graph_ids()).size(), 2U);
  stream->WritesDone();
  EXPECT_THAT(Finish(*stream), IsOk());
}

TEST_P(PackStreamTest, ACancelledStreamLeavesNothingBehind) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenSizes(10)));
  ASSERT_TRUE(stream->Write(SizesOf({1, 2}, 0)));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  call->context.TryCancel();
  EXPECT_THAT(Finish(*stream), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  observer_.AwaitFinished(Method::kPack, absl::StatusCode::kCancelled);
}

TEST_P(PackStreamTest, AClientThatVanishesLeavesNothingBehind) {
  StartServer();
  {
    const auto call = StartPack();
    auto& stream = call->stream;
    ASSERT_TRUE(stream->Write(OpenSizes(10)));
    ASSERT_TRUE(stream->Write(SizesOf({1, 2}, 0)));
    v1::PackResponse response;
    ASSERT_TRUE(stream->Read(&response));
    // Stream, stub and channel go without a word.
  }
  channel_.reset();
  observer_.AwaitFinished(Method::kPack, absl::StatusCode::kCancelled);
}

TEST_P(PackStreamTest, TooManyStreamsAreRefusedWithTheBound) {
  ServerOptions options;
  options.admission.max_streams = 1;
  StartServer(options);
  const auto first_call = StartPack();
  auto& first = first_call->stream;
  ASSERT_TRUE(first->Write(OpenSizes(10)));
  v1::PackResponse response;
  ASSERT_TRUE(first->Read(&response));
  const auto second_call = StartPack();
  auto& second = second_call->stream;
  EXPECT_THAT(Finish(*second), StatusIs(absl::StatusCode::kResourceExhausted,
                                        HasSubstr("streams: 1 are open, at most 1")));
  first->WritesDone();
  EXPECT_THAT(Finish(*first), IsOk());
}

TEST_P(PackStreamTest, ObserveCountsAndAnswersEachRequest) {
  StartServer();
  auto stub = v1::HistogramService::NewStub(channel_);
  grpc::ClientContext context;
  auto stream = stub->Observe(&context);
  v1::ObserveRequest request;
  request.set_histogram("h");
  *request.mutable_sizes() = SizesOf({4, 4, 7}, 0).sizes();
  v1::ObserveResponse response;
  for (uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.num_counted(), 3U);
    EXPECT_EQ(response.num_graphs(), 3 * round);
  }
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());

  grpc::ClientContext get_context;
  v1::GetHistogramRequest get;
  get.set_histogram("h");
  v1::GetHistogramResponse got;
  ASSERT_THAT(ToAbsl(stub->GetHistogram(&get_context, get, &got)), IsOk());
  EXPECT_THAT(Uint32sFromWire(got.histogram().tuples()), ElementsAre(4, 0, 7, 0));
  EXPECT_THAT(Uint64sFromWire(got.histogram().counts()), ElementsAre(6, 3));
}

// How the headers offer lanes; docs/lane.md has their names.
TEST_P(PackStreamTest, IsOfferedTheLanesThatItAsksFor) {
  using Keys = std::vector<std::string>;
  ServerOptions options;
  options.lane_address = absl::StrCat("unix:", folder_.path(), "/lane");
  StartServer(options);
  const std::string lane = "packhouse-lane";
  const std::string graphs = "packhouse-lane-graphs";
  for (const bool has_graphs : {true, false}) {
    for (const auto& [asks, offers] :
         {std::pair(Keys(), Keys()), std::pair(Keys{graphs}, Keys()),
          std::pair(Keys{lane}, Keys{lane + "-bin"}),
          std::pair(Keys{lane, graphs}, Keys{lane + "-bin", graphs + "-bin"})}) {
      PackCall call;
      for (const std::string& key : asks) call.context.AddMetadata(key, "1");
      call.stub = v1::PackingService::NewStub(channel_);
      call.stream = call.stub->Pack(&call.context);
      v1::PackRequest open = OpenSizes(10);
      open.mutable_open()->set_payload(has_graphs ? v1::PAYLOAD_GRAPHS : v1::PAYLOAD_SIZES);
      ASSERT_TRUE(call.stream->Write(open));
      v1::PackResponse response;
      ASSERT_TRUE(call.stream->Read(&response));
      Keys offered;
      for (const auto& [name, value] : call.context.GetServerInitialMetadata()) {
        if (!name.starts_with("packhouse-lane")) continue;
        offered.emplace_back(name.data(), name.size());
        v1::Lane offer;
        ASSERT_TRUE(offer.ParseFromString(std::string(value.data(), value.size())));
        EXPECT_EQ(offer.socket_path(), has_graphs ? folder_.path() + "/lane" : "");
        EXPECT_EQ(offer.token().empty(), !has_graphs);
        EXPECT_EQ(offer.refusal().empty(), has_graphs);
      }
      EXPECT_EQ(offered, offers);
      call.stream->WritesDone();
      EXPECT_THAT(Finish(*call.stream), IsOk());
    }
  }
}

}  // namespace
}  // namespace packhouse::rpc
