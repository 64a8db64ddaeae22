// AdminService over the real server: all that it tells, and what it has the process do.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/rpc/server_fixture.h"

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
