// AdminService over the real server: all that it tells, and what it has the process do.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"

namespace packhouse::rpc {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::MatchesRegex;
using ::testing::UnorderedElementsAre;

// The job "theirs" is with another server.
class LogsOfACluster final : public JobLogs {
 public:
  absl::StatusOr<JobPlace> Open(const std::string& job) override {
    JobPlace place;
    if (job == "theirs") {
      place.owner = {"c:1", 7};
    } else {
      place.log = std::make_unique<FailingLog>();
    }
    return place;
  }
  const std::string& address() const override { return address_; }
  // A server that was killed, and started again.
  std::vector<std::string> members() const override { return {"c:1", "b:1", "a:1", "b:1"}; }
  absl::StatusOr<std::vector<std::string>> Read(const std::string&) override {
    return std::vector<std::string>();
  }

 private:
  const std::string address_ = "b:1";
};

// An empty one of channelz, whose headers are not installed.
std::unique_ptr<google::protobuf::Message> MessageOf(const std::string& name) {
  const auto* const type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          absl::StrCat("grpc.channelz.v1.", name));
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// The numbers of a name, wherever they are in the message.
std::vector<int64_t> NumbersAfter(const std::string& name,
                                  const google::protobuf::Message& message) {
  std::vector<int64_t> numbers;
  const std::string text = message.DebugString();
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    int64_t number = 0;
    if (absl::ConsumePrefix(&line, absl::StrCat(name, ": ")) && absl::SimpleAtoi(line, &number)) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

class AdminServiceTest : public ServerTest {
 protected:
  void Start(ServerOptions options) {
    options.admin_address = absl::StrCat("unix:", folder_.path(), "/admin.sock");
    StartServer(options);
    stub_ = v1::AdminService::NewStub(
        grpc::CreateChannel(server_->admin_address(), grpc::InsecureChannelCredentials()));
  }
  v1::GetServerResponse GetServer() {
    grpc::ClientContext context;
    v1::GetServerResponse response;
    EXPECT_THAT(ToAbsl(stub_->GetServer(&context, {}, &response)), IsOk());
    return response;
  }
  absl::StatusOr<v1::LogLevel> SetLogLevel(v1::LogLevel level) {
    grpc::ClientContext context;
    v1::SetLogLevelRequest request;
    request.set_level(level);
    v1::SetLogLevelResponse response;
    PH_RETURN_IF_ERROR(ToAbsl(stub_->SetLogLevel(&context, request, &response)));
    return response.before();
  }
  absl::StatusOr<v1::ReloadResponse> Reload() {
    grpc::ClientContext context;
    v1::ReloadResponse response;
    PH_RETURN_IF_ERROR(ToAbsl(stub_->Reload(&context, {}, &response)));
    return response;
  }
  absl::StatusOr<bool> Drain() {
    grpc::ClientContext context;
    v1::DrainResponse response;
    PH_RETURN_IF_ERROR(ToAbsl(stub_->Drain(&context, {}, &response)));
    return response.was_draining();
  }
  // The last response.
  absl::StatusOr<v1::TakeSnapshotResponse> TakeSnapshot(const std::string& name) {
    grpc::ClientContext context;
    v1::TakeSnapshotRequest request;
    request.set_name(name);
    const auto stream = stub_->TakeSnapshot(&context, request);
    v1::TakeSnapshotResponse response;
    while (stream->Read(&response)) continue;
    PH_RETURN_IF_ERROR(ToAbsl(stream->Finish()));
    return response;
  }

  std::unique_ptr<v1::AdminService::Stub> stub_;
};
INSTANTIATE_TEST_SUITE_P(Transports, AdminServiceTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(AdminServiceTest, TellsWhatTheServerIsAndHolds) {
  OpenDatasets();
  ledger_ = std::make_unique<LogsOfACluster>();
  ServerOptions options;
  options.admin.version = "1.2.3";
  options.admin.started = absl::FromUnixMillis(5250);
  options.admin.log_level = [] { return std::string("warning"); };
  options.admin.files = [] {
    return std::vector<FileState>{{"policy", "broken", absl::FromUnixSeconds(9), 3}};
  };
  Start(options);
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenSizes(10)));
  v1::PackResponse opened;
  ASSERT_TRUE(call->stream->Read(&opened));
  ASSERT_TRUE(call->stream->Write(SizesOf({3}, 0)));
  while (server_->pending_bytes() == 0) std::this_thread::yield();
  // They are opened as they are asked for.
  const auto loader = v1::LoaderService::NewStub(channel_);
  for (const std::string job : {"x", "ours"}) {
    v1::GetJobRequest request;
    request.set_job(job);
    grpc::ClientContext context;
    v1::Job response;
    EXPECT_THAT(ToAbsl(loader->GetJob(&context, request, &response)),
                StatusIs(absl::StatusCode::kNotFound, _));
  }
  const v1::GetServerResponse told = GetServer();
  EXPECT_EQ(told.version(), "1.2.3");
  EXPECT_EQ(told.started().seconds(), 5);
  EXPECT_EQ(told.started().nanos(), 250'000'000);
  EXPECT_FALSE(told.is_draining());
  EXPECT_EQ(told.log_level(), v1::LOG_LEVEL_WARNING);
  EXPECT_EQ(told.num_connections(), server_->num_connections());
  ASSERT_EQ(told.files_size(), 1);
  EXPECT_EQ(told.files(0).failure(), "broken");
  std::vector<std::string> memory;
  for (const v1::MemoryShare& share : told.memory()) {
    memory.push_back(absl::StrCat(share.name(), " ", share.held_bytes(), "/", share.bound_bytes()));
  }
  // What is unsent changes as answers leave, this one too.
  EXPECT_THAT(
      memory,
      ElementsAre(
          absl::StrCat("pending ", server_->pending_bytes(), "/", server_->max_pending_bytes()),
          MatchesRegex(absl::StrCat("unsent [0-9]+/", server_->max_unsent_bytes())),
          absl::StrCat("working ", server_->working_bytes(), "/", server_->max_working_bytes())));
  std::vector<std::string> members;
  for (const v1::ClusterMember& member : told.members()) {
    members.push_back(absl::StrCat(member.address(), member.is_this() ? " is this" : ""));
  }
  EXPECT_THAT(members, ElementsAre("a:1", "b:1 is this", "c:1"));
  EXPECT_THAT(told.owned_jobs(), UnorderedElementsAre("x", "ours"));
}

TEST_P(AdminServiceTest, ASnapshotTellsWhatWasCopied) {
  ServerOptions options;
  options.admin.snapshot = [](absl::string_view name, FileGiver /*histograms*/,
                              SnapshotProgress progress) -> absl::StatusOr<SnapshotReport> {
    EXPECT_EQ(name, "monday");
    EXPECT_TRUE(progress({"/copies/monday", 1, 2, 3, 4, 5}));
    return SnapshotReport{"/copies/monday", 11, 12, 13, 14, 15};
  };
  Start(options);
  PH_ASSERT_OK_AND_ASSIGN(const v1::TakeSnapshotResponse told, TakeSnapshot("monday"));
  EXPECT_EQ(told.folder(), "/copies/monday");
  EXPECT_EQ(told.num_files(), 11U);
  EXPECT_EQ(told.num_bytes(), 12U);
  EXPECT_EQ(told.num_kept_files(), 13U);
  EXPECT_EQ(told.num_kept_bytes(), 14U);
  EXPECT_EQ(told.total_bytes(), 15U);
  EXPECT_TRUE(told.is_done());
  // The first one is on its way at once.
  grpc::ClientContext context;
  v1::TakeSnapshotRequest request;
  request.set_name("monday");
  const auto stream = stub_->TakeSnapshot(&context, request);
  v1::TakeSnapshotResponse progress;
  ASSERT_TRUE(stream->Read(&progress));
  EXPECT_EQ(progress.num_files(), 1U);
  EXPECT_FALSE(progress.is_done());
  while (stream->Read(&progress)) continue;
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
  EXPECT_THAT(TakeSnapshot(".."), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST_P(AdminServiceTest, HasTheProcessDoWhatItIsTold) {
  ServerOptions options;
  std::string level = "warning";
  uint64_t reloads = 0;
  options.admin.log_level = [&] { return level; };
  options.admin.set_log_level = [&](const std::string& now) { level = now; };
  options.admin.reload = [&] { ++reloads; };
  options.admin.files = [&] {
    return std::vector<FileState>{{"policy", "", absl::InfiniteFuture(), reloads}};
  };
  Start(options);
  PH_ASSERT_OK_AND_ASSIGN(const v1::LogLevel before, SetLogLevel(v1::LOG_LEVEL_DEBUG));
  EXPECT_EQ(before, v1::LOG_LEVEL_WARNING);
  EXPECT_EQ(level, "debug");
  PH_ASSERT_OK_AND_ASSIGN(const v1::ReloadResponse told, Reload());
  ASSERT_EQ(told.files_size(), 1);
  EXPECT_EQ(told.files(0).num_reloads(), 1U);
}

// Clients are told who has the job, and that they need not try again here.
TEST_P(AdminServiceTest, AJobOfAnotherServerIsThere) {
  OpenDatasets();
  ledger_ = std::make_unique<LogsOfACluster>();
  Start({});
  const auto loader = v1::LoaderService::NewStub(channel_);
  const auto is_there =
      StatusIs(absl::StatusCode::kUnavailable, "job 'theirs' is with the server at c:1");
  {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_job("theirs");
    v1::Job response;
    EXPECT_THAT(ToAbsl(loader->GetJob(&context, request, &response)), is_there);
    std::vector<std::string> told;
    for (const auto& [name, value] : context.GetServerTrailingMetadata()) {
      const absl::string_view key(name.data(), name.size());
      if (key == "packhouse-owner" || key == "grpc-retry-pushback-ms") {
        told.push_back(absl::StrCat(key, " ", absl::string_view(value.data(), value.size())));
      }
    }
    EXPECT_THAT(told, UnorderedElementsAre("packhouse-owner c:1", "grpc-retry-pushback-ms -1"));
  }
  {
    grpc::ClientContext context;
    v1::LoadRequest request;
    request.mutable_epoch()->set_job("theirs");
    request.mutable_dynamic();
    const auto stream = loader->Load(&context, request);
    v1::LoadResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.redirect().address(), "c:1");
    EXPECT_EQ(response.redirect().owner_revision(), 7U);
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
  }
  const auto move = [&](const std::string& job) {
    grpc::ClientContext context;
    v1::MoveJobRequest request;
    request.set_job(job);
    request.set_address("a:1");
    v1::MoveJobResponse response;
    return ToAbsl(stub_->MoveJob(&context, request, &response));
  };
  EXPECT_THAT(move("theirs"), is_there);
  EXPECT_THAT(move("ours"), StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("'ours'")));
  EXPECT_THAT(move("a job"), StatusIs(absl::StatusCode::kInvalidArgument,
                                      ::testing::StartsWith("job: 'a job' must be 1 to 128")));
}

TEST_P(AdminServiceTest, AMoveThatTheLogRefusesIsNone) {
  OpenDatasets();
  ledger_ = std::make_unique<LogsOfACluster>();
  Random random(5);
  const GraphSchema schema = *GraphSchema::Create(*SizeSchema::Create({"nodes"}), {});
  ASSERT_THAT(datasets_->Create("graphs", schema, {}), IsOk());
  ASSERT_THAT(datasets_->Append("graphs", RandomChunk(random, &schema, 5, 9, 0), {}, std::nullopt),
              IsOk());
  ASSERT_THAT(datasets_->Seal("graphs"), IsOk());
  Start({});
  v1::LoadRequest load;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(epoch {
             dataset: "graphs"
             job: "ours"
             rank_groups { shapes { capacities { component: "nodes" rows: 20 } } }
           }
           ranked { num_ranks: 1 })pb",
      &load));
  grpc::ClientContext loading;
  const auto stream = v1::LoaderService::NewStub(channel_)->Load(&loading, load);
  v1::LoadResponse opened;
  ASSERT_TRUE(stream->Read(&opened));
  grpc::ClientContext context;
  v1::MoveJobRequest move;
  move.set_job("ours");
  move.set_address("a:1");
  v1::MoveJobResponse response;
  EXPECT_THAT(ToAbsl(stub_->MoveJob(&context, move, &response)),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("address")));
  loading.TryCancel();
}

// Each port has its own services, and says so to tools, if it may.
TEST_P(AdminServiceTest, ListsTheServicesOfEachPort) {
  using grpc::reflection::v1::ServerReflection;
  const std::vector<std::string> of_reflection = {"grpc.reflection.v1.ServerReflection",
                                                  "grpc.reflection.v1alpha.ServerReflection"};
  for (const bool is_on : {true, false}) {
    ServerOptions options;
    options.reflection = is_on;
    Start(options);
    const auto administrators =
        grpc::CreateChannel(server_->admin_address(), grpc::InsecureChannelCredentials());
    const auto services_at = [](const std::shared_ptr<grpc::Channel>& channel,
                                absl::Status& status) {
      grpc::ClientContext context;
      const auto stream = ServerReflection::NewStub(channel)->ServerReflectionInfo(&context);
      grpc::reflection::v1::ServerReflectionRequest request;
      request.set_list_services("");
      stream->Write(request);
      stream->WritesDone();
      std::vector<std::string> names;
      grpc::reflection::v1::ServerReflectionResponse response;
      while (stream->Read(&response)) {
        for (const auto& each : response.list_services_response().service()) {
          names.push_back(each.name());
        }
      }
      status = ToAbsl(stream->Finish());
      return names;
    };
    for (const auto& channel : {channel_, administrators}) {
      absl::Status status;
      std::vector<std::string> expected = {"packhouse.v1.AdminService"};
      if (channel == channel_) {
        expected = {"grpc.health.v1.Health",           "packhouse.v1.AdminService",
                    "packhouse.v1.DatasetService",     "packhouse.v1.FeedbackService",
                    "packhouse.v1.HistogramService",   "packhouse.v1.LoaderService",
                    "packhouse.v1.PackingService",     "packhouse.v1.PlanningService",
                    "packhouse.v1.ReceiptService",     "packhouse.v1.SamplingService",
                    "packhouse.v1.SourceGraphService", "packhouse.v1.PartitioningService"};
      }
      expected.insert(expected.end(), of_reflection.begin(), of_reflection.end());
      if (!is_on) expected.clear();
      EXPECT_THAT(services_at(channel, status), ::testing::UnorderedElementsAreArray(expected));
      EXPECT_EQ(status.code(), is_on ? absl::StatusCode::kOk : absl::StatusCode::kUnimplemented);
    }
    server_.reset();
  }
}

// What gRPC's core knows of its servers and connections, by the numbers that it has given them.
TEST_P(AdminServiceTest, TellsOfItsConnections) {
  ServerOptions options;
  options.channelz = true;
  Start(options);
  const auto channel =
      grpc::CreateChannel(server_->admin_address(), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  const auto ask = [&](const std::string& method, const std::string& bytes,
                       std::unique_ptr<google::protobuf::Message>* told = nullptr) {
    grpc::ClientContext context;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status ended;
    absl::Notification done;
    stub.UnaryCall(&context, absl::StrCat("/grpc.channelz.v1.Channelz/", method),
                   grpc::StubOptions(), &request, &response, [&](grpc::Status status) {
                     ended = std::move(status);
                     done.Notify();
                   });
    done.WaitForNotification();
    if (ended.ok() && told != nullptr) {
      *told = MessageOf(absl::StrCat(method, "Response"));
      grpc::Slice whole;
      EXPECT_TRUE(response.DumpToSingleSlice(&whole).ok());
      EXPECT_TRUE((*told)->ParseFromArray(whole.begin(), static_cast<int>(whole.size())));
    }
    return ToAbsl(ended);
  };
  const auto with_numbers = [](const std::string& method, const std::string& text) {
    const auto request = MessageOf(absl::StrCat(method, "Request"));
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    return request->SerializeAsString();
  };
  std::unique_ptr<google::protobuf::Message> told;
  ASSERT_THAT(ask("GetServers", "", &told), IsOk());
  const std::vector<int64_t> servers = NumbersAfter("server_id", *told);
  ASSERT_THAT(servers, ::testing::SizeIs(::testing::Ge(2)));
  ASSERT_THAT(
      ask("GetServers",
          with_numbers("GetServers", absl::StrCat("start_server_id: ", servers.back())), &told),
      IsOk());
  EXPECT_EQ(NumbersAfter("server_id", *told), std::vector<int64_t>{servers.back()});
  int num_sockets = 0;
  for (const int64_t server : servers) {
    const std::string text = absl::StrCat("server_id: ", server);
    ASSERT_THAT(ask("GetServer", with_numbers("GetServer", text), &told), IsOk());
    EXPECT_EQ(NumbersAfter("server_id", *told), std::vector<int64_t>{server});
    ASSERT_THAT(ask("GetServerSockets", with_numbers("GetServerSockets", text), &told), IsOk());
    for (const int64_t socket : NumbersAfter("socket_id", *told)) {
      ++num_sockets;
      const std::string of_socket = with_numbers("GetSocket", absl::StrCat("socket_id: ", socket));
      ASSERT_THAT(ask("GetSocket", of_socket, &told), IsOk());
      EXPECT_EQ(NumbersAfter("socket_id", *told), std::vector<int64_t>{socket});
      // Those from the next on.
      ASSERT_THAT(ask("GetServerSockets",
                      with_numbers("GetServerSockets",
                                   absl::StrCat(text, " start_socket_id: ", socket + 1)),
                      &told),
                  IsOk());
      EXPECT_THAT(NumbersAfter("socket_id", *told), ::testing::Not(::testing::Contains(socket)));
    }
  }
  // This connection at least.
  EXPECT_GE(num_sockets, 1);
  ASSERT_THAT(ask("GetTopChannels", "", &told), IsOk());
  const std::vector<int64_t> channels = NumbersAfter("channel_id", *told);
  ASSERT_THAT(channels, ::testing::Not(::testing::IsEmpty()));
  ASSERT_THAT(
      ask("GetChannel", with_numbers("GetChannel", absl::StrCat("channel_id: ", channels.front())),
          &told),
      IsOk());
  EXPECT_EQ(NumbersAfter("channel_id", *told).front(), channels.front());
  const std::vector<int64_t> below = NumbersAfter("subchannel_id", *told);
  if (!below.empty()) {
    EXPECT_THAT(
        ask("GetSubchannel",
            with_numbers("GetSubchannel", absl::StrCat("subchannel_id: ", below.front())), &told),
        IsOk());
  }
  for (const std::string method : {"GetServer", "GetChannel", "GetSubchannel", "GetSocket"}) {
    EXPECT_THAT(ask(method, ""),
                StatusIs(absl::StatusCode::kNotFound, "there is nothing of that number"))
        << method;
  }
  EXPECT_THAT(ask("GetServers", std::string(257, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, "a request of 257 bytes, at most 256"));
  EXPECT_THAT(ask("GetServers", std::string(256, '\xff')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "the request is no grpc.channelz.v1.GetServersRequest"));
}

// A second signal would end the process at once.
TEST_P(AdminServiceTest, ADrainIsBegunOnce) {
  ServerOptions options;
  std::atomic<int> drains = 0;
  options.admin.drain = [&] { ++drains; };
  Start(options);
  PH_ASSERT_OK_AND_ASSIGN(const bool first, Drain());
  EXPECT_FALSE(first);
  EXPECT_EQ(drains, 1);
  std::atomic<bool> ended = false;
  std::thread drain([&] {
    server_->Drain({.lame_duck = absl::Seconds(1), .timeout = absl::Hours(1)});
    ended = true;
  });
  while (!server_->is_draining()) std::this_thread::yield();
  EXPECT_TRUE(GetServer().is_draining());
  const absl::StatusOr<bool> second = Drain();
  EXPECT_TRUE(second.ok() && *second) << second.status();
  EXPECT_EQ(drains, 1);
  while (!ended) {
    clock_.Advance(absl::Seconds(1));
    std::this_thread::yield();
  }
  drain.join();
}

TEST_P(AdminServiceTest, WhatTheProgramDoesNotDoIsRefused) {
  Start({});
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, _);
  EXPECT_THAT(SetLogLevel(v1::LOG_LEVEL_DEBUG), refused);
  EXPECT_THAT(Reload(), refused);
  EXPECT_THAT(Drain(), refused);
  EXPECT_THAT(TakeSnapshot("monday"), refused);
  grpc::ClientContext context;
  v1::MoveJobRequest request;
  request.set_job("job");
  v1::MoveJobResponse response;
  EXPECT_THAT(ToAbsl(stub_->MoveJob(&context, request, &response)), refused);
  EXPECT_EQ(GetServer().files_size(), 0);
}

}  // namespace
}  // namespace packhouse::rpc
