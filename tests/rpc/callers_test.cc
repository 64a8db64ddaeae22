// Who calls, as the server sees it: what headers say, the page's viewers, and how the page's calls
// end.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"
#include "service/access/principal.h"
#include "service/server/calls/page_calls.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Remembers what the latest call has brought with it.
class Remembering final : public Authenticator {
 public:
  absl::StatusOr<Principal> Authenticate(const CallCredentials& credentials) const override {
    absl::MutexLock lock(&mutex_);
    latest_ = credentials;
    return Principal();
  }
  CallCredentials latest() const {
    absl::MutexLock lock(&mutex_);
    return latest_;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable CallCredentials latest_ ABSL_GUARDED_BY(mutex_);
};

constexpr char kGetHistogram[] = "/packhouse.v1.HistogramService/GetHistogram";
constexpr char kListHistograms[] = "/packhouse.v1.HistogramService/ListHistograms";
constexpr char kTuneMethod[] = "/packhouse.v1.PlanningService/Tune";

class CallersTest : public ServerTest {
 protected:
  void Start() {
    ServerOptions options;
    options.authenticator = &callers_;
    StartServer(options);
  }
  // What the server sends back of these headers, name and value.
  using Headers = std::vector<std::pair<std::string, std::string>>;
  Headers CallWith(const Headers& headers) {
    grpc::ClientContext context;
    for (const auto& [name, value] : headers) context.AddMetadata(name, value);
    v1::ListHistogramsResponse response;
    EXPECT_TRUE(
        v1::HistogramService::NewStub(channel_)->ListHistograms(&context, {}, &response).ok());
    Headers back;
    for (const auto& [name, value] : context.GetServerInitialMetadata()) {
      const std::string key(name.data(), name.size());
      if (key == "x-request-id" || key == "traceparent") {
        back.emplace_back(key, std::string(value.data(), value.size()));
      }
    }
    return back;
  }

  Remembering callers_;
};
INSTANTIATE_TEST_SUITE_P(Transports, CallersTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(CallersTest, HeadersAreKnownAndSentBackIfTheyComeOnceAndAreShort) {
  Start();
  const std::string longest(128, '~');
  EXPECT_THAT(CallWith({{"x-request-id", longest},
                        {"traceparent", "!00-a-b-01"},
                        {"authorization", "Bearer me"}}),
              ::testing::UnorderedElementsAre(std::pair("x-request-id", longest),
                                              std::pair("traceparent", "!00-a-b-01")));
  const CallCredentials known = callers_.latest();
  EXPECT_EQ(known.request_id, longest);
  EXPECT_EQ(known.trace, "!00-a-b-01");
  EXPECT_EQ(known.authorization, "Bearer me");
  EXPECT_FALSE(known.has_certificate);
  EXPECT_THAT(known.certificate_names, IsEmpty());
  EXPECT_EQ(known.peer.substr(0, 7), GetParam() == Transport::kTcp ? "ipv4:12" : "unknown");
  for (const Headers& headers :
       {Headers(), Headers{{"x-request-id", longest + "~"}}, Headers{{"x-request-id", "a b"}},
        Headers{{"x-request-id", "a"}, {"x-request-id", "a"}}}) {
    EXPECT_THAT(CallWith(headers), IsEmpty());
    EXPECT_EQ(callers_.latest().request_id, "");
    EXPECT_EQ(callers_.latest().authorization, "");
  }
  CallWith({{"authorization", "a"}, {"authorization", "b"}});
  EXPECT_EQ(callers_.latest().authorization, "several");
}

// Of a wing that was left out, or of nobody.
TEST_P(CallersTest, MethodsThatThereAreNotAreNamed) {
  ServerOptions options;
  options.absent_services = {{{"a.B", "a.C"}, "it was left out"}};
  StartServer(options);
  grpc::GenericStub stub(channel_);
  for (const auto& [method, message] :
       {std::pair("/a.C/D", "a.C/D: it was left out"),
        std::pair("/a.C", "there is no method '/a.C'"),
        std::pair("/packhouse.v1.PackingService/Unpack",
                  "there is no method '/packhouse.v1.PackingService/Unpack'")}) {
    grpc::ClientContext context;
    const grpc::Slice nothing;
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    grpc::Status ended;
    absl::Notification done;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                   [&](grpc::Status status) {
                     ended = std::move(status);
                     done.Notify();
                   });
    done.WaitForNotification();
    EXPECT_THAT(ToAbsl(ended), StatusIs(absl::StatusCode::kUnimplemented, message));
  }
}

TEST_P(CallersTest, OpenStreamsAreListedIfTheServerKeepsThem) {
  for (const bool keeps : {true, false}) {
    ServerOptions options;
    options.keeps_stream_sizes = keeps;
    StartServer(options);
    const auto call = StartPack();
    ASSERT_TRUE(call->stream->Write(OpenSizes(10)));
    v1::PackResponse opened;
    ASSERT_TRUE(call->stream->Read(&opened));
    const std::vector<LiveStreams::Stream> listed = server_->live_streams().List();
    ASSERT_EQ(listed.size(), keeps ? 1U : 0U);
    if (keeps) {
      EXPECT_EQ(listed[0].client, GetParam() == Transport::kTcp ? "127.0.0.1" : "in-process");
      EXPECT_EQ(listed[0].principal, "");
    }
    call->stream->WritesDone();
    EXPECT_THAT(Finish(*call->stream), IsOk());
    channel_ = nullptr;
    server_ = nullptr;
  }
}

class PageCallsTest : public CallersTest {
 protected:
  PageCallsTest() {
    SizeHistogram sizes(2);
    EXPECT_THAT(sizes.Add({3, 5}, 10), IsOk());
    HistogramToWire(sizes, SizeSchema::NodesAndEdges(), *tune_.mutable_histogram());
    v1::DeviceProfile::Component& nodes = *tune_.mutable_profile()->add_components();
    nodes.set_component("nodes");
    nodes.set_max_rows(9);
  }
  absl::Status Get(page::PageCalls& calls, const page::Viewer& viewer = {}) {
    v1::GetHistogramRequest request;
    request.set_histogram("none");
    v1::GetHistogramResponse response;
    return calls.Call(kGetHistogram, viewer, request, response, stop_);
  }

  v1::TuneRequest tune_;
  page::StopSwitch stop_;
};
INSTANTIATE_TEST_SUITE_P(Transports, PageCallsTest, ::testing::Values(Transport::kInProcess),
                         TransportName);

TEST_P(PageCallsTest, AreAnsweredAsThoseOfOthers) {
  Start();
  page::PageCalls& calls = *server_->MakePageCalls();
  EXPECT_THAT(Get(calls), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  v1::MergeHistogramRequest merge;
  merge.set_histogram("abc");
  *merge.mutable_addend() = tune_.histogram();
  v1::MergeHistogramResponse merged;
  EXPECT_THAT(calls.Call("/packhouse.v1.HistogramService/MergeHistogram", {}, merge, merged, stop_),
              IsOk());
  EXPECT_EQ(merged.num_counted(), 10U);
  v1::ListHistogramsResponse listed;
  EXPECT_THAT(calls.Call(kListHistograms, {}, v1::ListHistogramsRequest(), listed, stop_), IsOk());
  EXPECT_THAT(listed.histograms(), ElementsAre("abc"));
  // What is no such message.
  v1::GetHistogramResponse other;
  EXPECT_THAT(calls.Call(kListHistograms, {}, v1::ListHistogramsRequest(), other, stop_),
              StatusIs(absl::StatusCode::kInternal, "a response cannot be read"));

  int num_recommendations = 0;
  EXPECT_THAT(calls.CallStreaming(
                  kTuneMethod, {}, tune_,
                  [&](const std::string& bytes) {
                    v1::TuneResponse response;
                    EXPECT_TRUE(response.ParseFromString(bytes));
                    num_recommendations += response.has_recommendation() ? 1 : 0;
                    return absl::OkStatus();
                  },
                  stop_),
              IsOk());
  EXPECT_EQ(num_recommendations, 1);
  int num_taken = 0;
  EXPECT_THAT(calls.CallStreaming(
                  kTuneMethod, {}, tune_,
                  [&](const std::string& /*bytes*/) {
                    ++num_taken;
                    return absl::DataLossError("enough");
                  },
                  stop_),
              StatusIs(absl::StatusCode::kDataLoss, "enough"));
  EXPECT_EQ(num_taken, 1);
}

TEST_P(PageCallsTest, AreTheirViewers) {
  Start();
  page::PageCalls& calls = *server_->MakePageCalls();
  EXPECT_THAT(Get(calls, {"alice"}), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_TRUE(callers_.latest().has_certificate);
  EXPECT_THAT(callers_.latest().certificate_names, ElementsAre("alice"));
  EXPECT_THAT(Get(calls), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_FALSE(callers_.latest().has_certificate);
  EXPECT_THAT(callers_.latest().certificate_names, IsEmpty());
}

TEST_P(PageCallsTest, EndWithTheirViewersAndWithTheServer) {
  Start();
  page::PageCalls& calls = *server_->MakePageCalls();
  {
    page::StopSwitch stopped;
    EXPECT_FALSE(stopped.is_stopped());
    stopped.Stop();
    EXPECT_TRUE(stopped.is_stopped());
    v1::ListHistogramsResponse listed;
    EXPECT_THAT(calls.Call(kListHistograms, {}, v1::ListHistogramsRequest(), listed, stopped),
                StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  }
  server_->Drain(absl::ZeroDuration());
  const auto drained = StatusIs(absl::StatusCode::kUnavailable, "the server is draining");
  EXPECT_THAT(Get(calls), drained);
  EXPECT_THAT(calls.CallStreaming(
                  kTuneMethod, {}, tune_,
                  [](const std::string& /*bytes*/) { return absl::OkStatus(); }, stop_),
              drained);
}

}  // namespace
}  // namespace packhouse::rpc
