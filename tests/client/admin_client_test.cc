#include "client/cpp/admin_client.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

// Answers with what it was asked for.
class Admin final : public v1::AdminService::Service {
 public:
  Admin() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    channel_ = MakeChannel(absl::StrCat("127.0.0.1:", port));
  }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  grpc::Status SetLogLevel(grpc::ServerContext* /*context*/, const v1::SetLogLevelRequest* request,
                           v1::SetLogLevelResponse* response) override {
    response->set_before(request->level());
    return grpc::Status::OK;
  }
  grpc::Status Reload(grpc::ServerContext* /*context*/, const v1::ReloadRequest* /*request*/,
                      v1::ReloadResponse* response) override {
    response->add_files()->set_name("file");
    return grpc::Status::OK;
  }
  grpc::Status Drain(grpc::ServerContext* /*context*/, const v1::DrainRequest* /*request*/,
                     v1::DrainResponse* response) override {
    response->set_was_draining(was_draining);
    was_draining = true;
    return grpc::Status::OK;
  }
  grpc::Status MoveJob(grpc::ServerContext* /*context*/, const v1::MoveJobRequest* request,
                       v1::MoveJobResponse* /*response*/) override {
    return {grpc::StatusCode::NOT_FOUND, absl::StrCat(request->job(), " to ", request->address())};
  }
  grpc::Status TakeSnapshot(grpc::ServerContext* /*context*/,
                            const v1::TakeSnapshotRequest* request,
                            grpc::ServerWriter<v1::TakeSnapshotResponse>* writer) override {
    v1::TakeSnapshotResponse response;
    writer->Write(response);
    if (request->name() == "cut off") return grpc::Status::OK;
    if (request->name() == "full") return {grpc::StatusCode::RESOURCE_EXHAUSTED, "disk"};
    response.set_is_done(true);
    writer->Write(response);
    return grpc::Status::OK;
  }

  bool was_draining = false;

 private:
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST(AdminClientTest, AsksForWhatItIsAskedForAndTellsTheAnswer) {
  Admin admin;
  const AdminClient client(admin.channel());
  EXPECT_EQ(client.SetLogLevel(v1::LOG_LEVEL_ERROR).value(), v1::LOG_LEVEL_ERROR);
  const auto files = client.Reload();
  ASSERT_THAT(files.status(), IsOk());
  ASSERT_EQ(files->size(), 1U);
  EXPECT_EQ((*files)[0].name(), "file");
  EXPECT_FALSE(client.Drain().value());
  EXPECT_TRUE(client.Drain().value());
  EXPECT_THAT(client.MoveJob("job", "address"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job to address")));
  EXPECT_THAT(client.GetServer().status(), StatusIs(absl::StatusCode::kUnimplemented, testing::_));
  EXPECT_THAT(client.ListClients().status(),
              StatusIs(absl::StatusCode::kUnimplemented, testing::_));
}

TEST(AdminClientTest, ASnapshotIsTakenOnceTheServerSaysSo) {
  Admin admin;
  const AdminClient client(admin.channel());
  int told = 0;
  const auto count = [&told](const v1::TakeSnapshotResponse& /*response*/) {
    ++told;
    return true;
  };
  EXPECT_TRUE(client.TakeSnapshot("whole", count).value().is_done());
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(client.TakeSnapshot("whole").value().is_done());
  EXPECT_THAT(client.TakeSnapshot("cut off").status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("is done")));
  EXPECT_THAT(client.TakeSnapshot("full").status(),
              StatusIs(absl::StatusCode::kResourceExhausted, "disk"));
}

}  // namespace
}  // namespace packhouse::client
