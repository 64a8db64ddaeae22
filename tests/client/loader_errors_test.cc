// What a loader asks a server that answers anything; and whichever call fails, and when, its caller
// gets the server's error.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "client/cpp/loader.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The first call of a channel is not sent: its connection was lost. It ends once it is cancelled;
// before, gRPC would try it again.
class FirstIsUnsent : public grpc::experimental::Interceptor {
 public:
  class Factory : public grpc::experimental::ClientInterceptorFactoryInterface {
   public:
    grpc::experimental::Interceptor* CreateClientInterceptor(
        grpc::experimental::ClientRpcInfo* /*info*/) override {
      return new FirstIsUnsent(num_calls_++ == 0);
    }

   private:
    int num_calls_ = 0;
  };

  explicit FirstIsUnsent(bool is_first) : is_first_(is_first) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (!is_first_) return methods->Proceed();
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_CANCEL)) {
      is_cancelled_ = true;
      return methods->Proceed();
    }
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE)) {
      methods->FailHijackedSendMessage();
    }
    if (methods->QueryInterceptionHookPoint(Point::PRE_RECV_STATUS)) {
      *methods->GetRecvStatus() = is_cancelled_
                                      ? grpc::Status::CANCELLED
                                      : grpc::Status(grpc::StatusCode::DATA_LOSS, "goes on");
    }
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      return methods->Hijack();
    }
    methods->Proceed();
  }

 private:
  const bool is_first_;
  std::atomic<bool> is_cancelled_ = false;
};

class LoaderErrorsTest : public testing::Test {
 protected:
  static constexpr uint64_t kStepsDone = 2;  // When the worker came.

  static std::string Opened() {
    v1::LoadResponse response;
    response.mutable_opened()->set_num_steps(9);
    response.mutable_opened()->set_num_steps_done(kStepsDone);
    response.mutable_opened()->set_generation(3);
    response.mutable_opened()->set_session(4);
    return response.SerializeAsString();
  }
  static std::string End() {
    v1::LoadResponse response;
    response.mutable_end_of_epoch();
    return response.SerializeAsString();
  }
  static std::string Redirect(const std::string& address) {
    v1::LoadResponse response;
    response.mutable_redirect()->set_address(address);
    return response.SerializeAsString();
  }
  static std::string Batch(uint64_t number) {
    v1::LoadResponse response;
    response.mutable_batch()->mutable_batch()->set_id(number);
    response.mutable_batch()->mutable_batch()->set_step(kStepsDone + number);
    return response.SerializeAsString();
  }
  // A call that is not named is answered well.
  void Answer(std::map<std::string, ScriptedServer::Answer> answers) {
    server_.Plays([answers = std::move(answers)](const ScriptedServer::Asked& asked) {
      const auto found = answers.find(asked.method.substr(asked.method.find('/') + 1));
      return found == answers.end() ? ScriptedServer::Answer{{""}, {}} : found->second;
    });
  }
  // The streams of Load in turn, and other calls' answers.
  void AnswerInTurn(std::vector<ScriptedServer::Answer> loads,
                    const std::map<std::string, std::string>& others = {}) {
    server_.Plays([loads = std::move(loads), others, next = size_t{0}](
                      const ScriptedServer::Asked& asked) mutable -> ScriptedServer::Answer {
      const std::string method = asked.method.substr(asked.method.find('/') + 1);
      if (method == "Load") return loads.at(next++);
      const auto found = others.find(method);
      return {{found == others.end() ? "" : found->second}, {}};
    });
  }
  // What was asked by this method.
  template <typename Request>
  static std::vector<Request> AskedOf(const ScriptedServer& server, const std::string& method) {
    std::vector<Request> requests;
    for (const ScriptedServer::Asked& asked : server.asked()) {
      if (asked.method != "LoaderService/" + method) continue;
      EXPECT_TRUE(requests.emplace_back().ParseFromString(asked.request));
    }
    return requests;
  }
  std::vector<v1::LoadRequest> Loads() const { return AskedOf<v1::LoadRequest>(server_, "Load"); }

  static std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
    ChannelOptions channel;
    channel.retries = false;
    channel.secured_by = Credentials();
    return MakeChannel(address, channel);
  }
  static LoaderOptions Options(bool is_dynamic = false) {
    LoaderOptions options;
    options.spec.set_job("job");
    options.spec.set_seed(9);
    options.retry.patience = absl::ZeroDuration();
    options.retry.sleep = [](absl::Duration) {};
    options.lane = LaneUse::kOff;
    options.connect = &ChannelTo;
    if (is_dynamic) options.dynamic.emplace().set_worker("worker");
    return options;
  }
  std::unique_ptr<Loader> Load(const LoaderOptions& options) {
    return std::make_unique<Loader>(ChannelTo(server_.address()), options);
  }
  std::unique_ptr<Loader> Load(bool is_dynamic = false) { return Load(Options(is_dynamic)); }
  // Of the batches up to the end.
  static std::vector<uint64_t> NumbersOf(Loader& loader) {
    std::vector<uint64_t> numbers;
    for (;;) {
      const auto batch = loader.Next();
      EXPECT_THAT(batch.status(), IsOk());
      if (!batch.ok() || *batch == nullptr) return numbers;
      numbers.push_back((*batch)->view.id());
    }
  }

  ScriptedServer server_;
};

TEST_F(LoaderErrorsTest, ErrorsPassThroughWithCodeAndMessage) {
  for (const auto code : {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::FAILED_PRECONDITION,
                          grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::DATA_LOSS,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::UNAVAILABLE}) {
    const std::string why = absl::StrCat("since ", code);
    const grpc::Status failed(code, why);
    const auto is_told = StatusIs(static_cast<absl::StatusCode>(code), EndsWith(why));
    SCOPED_TRACE(why);

    // Load, from its begin on, then behind `opened`, then behind a batch.
    Answer({{"Load", {{}, failed}}});
    EXPECT_THAT(Load()->Next().status(), is_told);
    EXPECT_THAT(Load()->Opened().status(), is_told);
    EXPECT_THAT(Load()->State().status(), is_told);
    Answer({{"Load", {{Opened()}, failed}}});
    auto loader = Load();
    EXPECT_EQ(loader->Opened()->generation(), 3);
    EXPECT_THAT(loader->Next().status(), is_told);
    Answer({{"Load", {{Opened(), Batch(0)}, failed}}});
    loader = Load();
    EXPECT_THAT(loader->Next(), IsOk());
    EXPECT_THAT(loader->Next().status(), is_told);

    // An acknowledgement: whatever comes behind it says so.
    using Use = absl::Status (*)(Loader&);
    for (const Use use : {Use([](Loader& of) { return of.Flush(); }),
                          Use([](Loader& of) { return of.SetEpoch(7); }),
                          Use([](Loader& of) { return of.State().status(); })}) {
      Answer({{"Load", {{Opened(), Batch(0)}, failed}}, {"Acknowledge", {{}, failed}}});
      loader = Load();
      PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader->Next());
      EXPECT_THAT(loader->Acknowledge(*batch), IsOk());
      EXPECT_THAT(use(*loader), is_told);
    }

    // Unary calls.
    Answer({{"Load", {{Opened()}, {}}}, {"GetEpoch", {{}, failed}}, {"ReportStep", {{}, failed}}});
    EXPECT_THAT(Load()->Describe().status(), is_told);
    EXPECT_THAT(Load()->State().status(), is_told);
    Answer({{"Load", {{Opened()}, {}}}, {"Acknowledge", {{}, failed}}});
    EXPECT_THAT(Load(/*is_dynamic=*/true)->State().status(), is_told);
  }
}

TEST_F(LoaderErrorsTest, AStreamThatEndsBeforeItsEpochIsAnError) {
  for (const auto& messages : {std::vector<std::string>(), {Opened()}, {Opened(), Batch(0)}}) {
    Answer({{"Load", {messages, {}}}});
    const auto loader = Load();
    for (size_t i = 1; i < messages.size(); ++i) EXPECT_THAT(loader->Next(), IsOk());
    EXPECT_EQ(loader->Next().status().code(), absl::StatusCode::kUnavailable);
  }
  Answer({{"Load", {{Batch(0)}, {}}}});
  EXPECT_EQ(Load()->Next().status().code(), absl::StatusCode::kInternal);
  Answer({{"Load", {{"no message"}, {}}}});
  EXPECT_EQ(Load()->Next().status().code(), absl::StatusCode::kInvalidArgument);
}

const grpc::Status kAway(grpc::StatusCode::UNAVAILABLE, "away");

// Of several servers another one takes the job at some moment of the wait.
TEST_F(LoaderErrorsTest, WaitsAreShorterWhereAnotherServerMayAnswer) {
  for (const bool are_several : {false, true}) {
    LoaderOptions options = Options();
    if (are_several) options.other_servers = {server_.address()};
    options.retry.patience = absl::Milliseconds(2900);
    options.retry.connect_timeout = absl::ZeroDuration();
    std::vector<int64_t> waits;
    options.retry.sleep = [&](absl::Duration wait) {
      waits.push_back(absl::ToInt64Milliseconds(wait));
    };
    Answer({{"Load", {{}, kAway}}});
    EXPECT_THAT(Load(options)->Next(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("away; Load of job 'job' was tried again for ")));
    if (are_several) {
      EXPECT_THAT(waits, ElementsAre(100, 200, 400, 500, 500, 500, 500));
    } else {
      EXPECT_THAT(waits, ElementsAre(100, 200, 400, 800));
    }
  }
}

// At the first stream, at the next of its epoch, in the next epoch, and from a state.
TEST_F(LoaderErrorsTest, EachStreamIsAskedForWithAllThatTheServerNeeds) {
  LoaderOptions options = Options();
  options.retry.patience = absl::Hours(1);
  options.spec.set_epoch(6);
  options.ranked.set_rank(2);
  options.ranked.set_num_ranks(5);
  options.max_in_flight = 7;
  options.attempt = "first";
  options.lane = LaneUse::kIfPossible;
  v1::ReportStepResponse reported;
  reported.set_cursor("a cursor");
  AnswerInTurn({{{Opened(), Batch(0), Batch(1)}, kAway},
                {{Opened(), Batch(1), Batch(2), End()}, {}},
                {{Opened(), End()}, {}},
                {{Opened(), Batch(0), Batch(1)}, {}, {}, false, /*waits=*/true},
                {{Opened(), End()}, {}}},
               {{"ReportStep", reported.SerializeAsString()}});
  const auto loader = Load(options);
  EXPECT_THAT(NumbersOf(*loader), ElementsAre(0, 1, 2));
  EXPECT_THAT(loader->SetEpoch(6), IsOk());
  EXPECT_THAT(NumbersOf(*loader), ElementsAre());
  EXPECT_THAT(loader->LoadState({11, "of a state"}, "second"), IsOk());
  EXPECT_EQ(loader->epoch(), 11);
  EXPECT_THAT(loader->Next(), IsOk());
  // An epoch that has not ended goes on.
  EXPECT_THAT(loader->SetEpoch(11), IsOk());
  EXPECT_EQ((*loader->Next())->view.id(), 1);
  PH_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
  EXPECT_EQ(state.epoch, 11);
  EXPECT_EQ(state.cursor, "a cursor");
  EXPECT_THAT(loader->SetEpoch(12), IsOk());
  EXPECT_THAT(NumbersOf(*loader), ElementsAre());

  std::vector<v1::LoadRequest> expected(5);
  for (v1::LoadRequest& request : expected) {
    *request.mutable_epoch() = options.spec;
    *request.mutable_ranked() = options.ranked;
    request.set_max_in_flight(7);
    request.set_attempt("first");
    request.set_lane(true);
    request.set_cursor("");
  }
  expected[1].clear_cursor();
  expected[1].set_generation(3);
  expected[3].set_cursor("of a state");
  for (const size_t i : {3, 4}) {
    expected[i].set_attempt("second");
    expected[i].mutable_epoch()->set_epoch(i == 3 ? 11 : 12);
  }
  const std::vector<v1::LoadRequest> loads = Loads();
  ASSERT_THAT(loads, SizeIs(expected.size()));
  for (size_t i = 0; i < loads.size(); ++i) {
    EXPECT_EQ(loads[i].SerializeAsString(), expected[i].SerializeAsString()) << i;
  }
  // Each batch once, with what it was given by.
  std::map<uint64_t, std::vector<uint64_t>> acknowledged;
  for (const auto& request : AskedOf<v1::AcknowledgeRequest>(server_, "Acknowledge")) {
    EXPECT_EQ(request.job(), "job");
    EXPECT_EQ(request.generation(), 3);
    EXPECT_EQ(request.session(), 4);
    std::vector<uint64_t>& of_epoch = acknowledged[request.epoch()];
    of_epoch.insert(of_epoch.end(), request.batches().begin(), request.batches().end());
  }
  EXPECT_THAT(acknowledged, ElementsAre(testing::Pair(6, ElementsAre(0, 1, 2)),
                                        testing::Pair(11, ElementsAre(0, 1))));
  v1::ReportStepRequest report;
  report.set_job("job");
  report.set_epoch(11);
  report.set_generation(3);
  report.set_steps(kStepsDone + 2);
  const auto reports = AskedOf<v1::ReportStepRequest>(server_, "ReportStep");
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].SerializeAsString(), report.SerializeAsString());
}

TEST_F(LoaderErrorsTest, DynamicWorkersAskByTheirNameForWhatAllHaveDone) {
  v1::AcknowledgeResponse done;
  done.set_cursor("of all");
  v1::Epoch described;
  described.set_num_done(5);
  AnswerInTurn({{{Opened()}, {}}}, {{"Acknowledge", done.SerializeAsString()},
                                    {"GetEpoch", described.SerializeAsString()}});
  LoaderOptions options = Options(/*is_dynamic=*/true);
  options.spec.set_epoch(6);
  const auto loader = Load(options);
  PH_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
  EXPECT_EQ(state.cursor, "of all");
  const auto loads = Loads();
  ASSERT_THAT(loads, SizeIs(1));
  EXPECT_EQ(loads[0].dynamic().worker(), "worker");
  EXPECT_FALSE(loads[0].lane());
  v1::AcknowledgeRequest expected;
  expected.set_job("job");
  expected.set_epoch(6);
  expected.set_generation(3);
  expected.set_session(4);
  const auto asked = AskedOf<v1::AcknowledgeRequest>(server_, "Acknowledge");
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].SerializeAsString(), expected.SerializeAsString());
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, loader->Describe());
  EXPECT_EQ(epoch.num_done(), 5);
  const auto questions = AskedOf<v1::GetEpochRequest>(server_, "GetEpoch");
  ASSERT_THAT(questions, SizeIs(1));
  EXPECT_TRUE(questions[0].company());
  EXPECT_TRUE(MessageDifferencer::Equals(questions[0].epoch(), options.spec));
}

TEST_F(LoaderErrorsTest, AnEvaluationGoesOnBehindTheStepsThatItHas) {
  LoaderOptions options = Options();
  options.is_evaluation = true;
  options.ranked.set_num_ranks(3);
  options.retry.patience = absl::Hours(1);
  AnswerInTurn({{{Opened(), Batch(0), Batch(1)}, kAway}, {{Opened(), Batch(2), End()}, {}}});
  EXPECT_THAT(NumbersOf(*Load(options)), ElementsAre(0, 1, 2));
  std::vector<v1::LoadRequest> expected(2);
  for (v1::LoadRequest& request : expected) {
    *request.mutable_epoch() = options.spec;
    *request.mutable_evaluation()->mutable_ranked() = options.ranked;
  }
  expected[1].mutable_evaluation()->set_first_step(kStepsDone + 2);
  const auto loads = Loads();
  ASSERT_THAT(loads, SizeIs(2));
  for (const size_t i : {0, 1}) EXPECT_TRUE(MessageDifferencer::Equals(loads[i], expected[i])) << i;
  EXPECT_THAT(AskedOf<v1::AcknowledgeRequest>(server_, "Acknowledge"), SizeIs(0));
}

// Steps that were acknowledged count as done, those that are held do not; and a loader that has
// given all out ends for itself, if its caller acknowledges.
TEST_F(LoaderErrorsTest, AStateHasTheStepsBeforeTheFirstThatIsHeld) {
  std::vector<std::string> all = {Opened()};
  for (uint64_t number = 0; number < 7; ++number) all.push_back(Batch(number));
  AnswerInTurn({{all, {}, {}, false, /*waits=*/true}});
  LoaderOptions options = Options();
  options.acknowledges_itself = false;
  const auto loader = Load(options);
  const auto steps_now = [&] {
    EXPECT_THAT(loader->State(), IsOk());
    const auto reports = AskedOf<v1::ReportStepRequest>(server_, "ReportStep");
    return reports.empty() ? 0 : reports.back().steps() - kStepsDone;
  };
  EXPECT_EQ(steps_now(), 0);
  std::vector<std::shared_ptr<const LoadedBatch>> batches;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next());
    if (batch == nullptr) break;
    batches.push_back(std::move(batch));
  }
  ASSERT_THAT(batches, SizeIs(7));
  EXPECT_EQ(steps_now(), 0);
  for (const size_t number : {0, 1}) ASSERT_THAT(loader->Acknowledge(*batches[number]), IsOk());
  EXPECT_EQ(steps_now(), 2);
  ASSERT_THAT(loader->Acknowledge(*batches[3]), IsOk());
  EXPECT_THAT(loader->State(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("step 5 is acknowledged, step 4 before it is not")));
  ASSERT_THAT(loader->Acknowledge(*batches[2]), IsOk());
  EXPECT_EQ(steps_now(), 4);
  for (const size_t number : {4, 5, 6}) ASSERT_THAT(loader->Acknowledge(*batches[number]), IsOk());
  EXPECT_EQ(steps_now(), 7);
  // A state is loaded without what was given out before, whether it is done or held.
  AnswerInTurn({{{Opened(), Batch(0)}, {}, {}, false, /*waits=*/true},
                {{Opened(), Batch(1)}, {}, {}, false, /*waits=*/true}});
  ASSERT_THAT(loader->LoadState({0, "c"}), IsOk());
  EXPECT_EQ(steps_now(), 0);
  EXPECT_EQ((*loader->Next())->view.id(), 0);
  ASSERT_THAT(loader->LoadState({0, "d"}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto other, loader->Next());
  EXPECT_EQ(other->view.id(), 1);
  ASSERT_THAT(loader->Acknowledge(*other), IsOk());
  EXPECT_EQ(steps_now(), 2);
}

// Otherwise a worker that was rolled back would wait for ever; and nobody could end a wait.
TEST_F(LoaderErrorsTest, AWaitEndsByWhatAnAcknowledgementIsToldAndByCancel) {
  const ScriptedServer::Answer waits = {{Opened(), Batch(0)}, {}, {}, false, /*waits=*/true};
  Answer({{"Load", waits},
          {"Acknowledge", {{}, {grpc::StatusCode::FAILED_PRECONDITION, "generation 4"}}}});
  const auto old = Load();
  EXPECT_THAT(old->Next(), IsOk());
  EXPECT_THAT(old->Next(), StatusIs(absl::StatusCode::kFailedPrecondition, "generation 4"));
  Answer({{"Load", waits}});
  const auto loader = Load();
  EXPECT_THAT(loader->Next(), IsOk());
  std::thread canceller([&] { loader->Cancel(); });
  EXPECT_THAT(loader->Next(), StatusIs(absl::StatusCode::kCancelled, "the loader was cancelled"));
  canceller.join();
  EXPECT_THAT(loader->Next(), StatusIs(absl::StatusCode::kCancelled, "the loader was cancelled"));
  const auto early = Load();
  early->Cancel();
  EXPECT_THAT(early->Next(), StatusIs(absl::StatusCode::kCancelled, "the loader was cancelled"));
}

TEST_F(LoaderErrorsTest, ItGoesWhereItIsSentAndNotInCircles) {
  ScriptedServer other;
  Answer({{"Load", {{Redirect(other.address())}, {}}}});
  const ScriptedServer::Answer back = {{Redirect(server_.address())}, {}};
  other.Plays([&](const auto& /*asked*/) { return back; });
  const auto loader = Load();
  for (const size_t times : {1, 2}) {
    EXPECT_THAT(loader->Next(),
                StatusIs(absl::StatusCode::kUnavailable,
                         absl::StrCat(other.address(), ", which another server named, names ",
                                      server_.address())));
    EXPECT_THAT(server_.asked(), SizeIs(times));
    EXPECT_THAT(other.asked(), SizeIs(times));
  }
  // One that has the job may name another later on.
  other.Plays([&](const ScriptedServer::Asked& asked) -> ScriptedServer::Answer {
    if (asked.method != "LoaderService/Load") return {{""}, {}};
    Answer({{"Load", {{Opened(), Batch(1), End()}, {}}}});
    return {{Opened(), Batch(0), Redirect(server_.address())}, {}};
  });
  EXPECT_THAT(NumbersOf(*loader), ElementsAre(0, 1));
}

// gRPC may begin it anew on another connection, whose answers nobody would read.
TEST_F(LoaderErrorsTest, ACallThatWasNotSentIsGivenUpAndMadeAnew) {
  for (const bool is_patient : {false, true}) {
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
    factories.push_back(std::make_unique<FirstIsUnsent::Factory>());
    const auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
        server_.address(), grpc::InsecureChannelCredentials(), {}, std::move(factories));
    Answer({{"Load", {{Opened(), Batch(0), End()}, {}}}});
    LoaderOptions options = Options();
    if (is_patient) options.retry.patience = absl::Hours(1);
    Loader loader(channel, options);
    if (!is_patient) {
      EXPECT_THAT(loader.Next(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("lost before the call was sent")));
    }
    EXPECT_THAT(NumbersOf(loader), ElementsAre(0));
  }
}

}  // namespace
}  // namespace packhouse::client
