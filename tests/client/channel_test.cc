#include "client/cpp/channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/addresses.h"
#include "client/cpp/status.h"
#include "gmock/gmock.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/dataset.pb.h"
#include "tests/client/scripted_server.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

// Fails its first calls. Thread-safe.
class FailingService final : public v1::DatasetService::Service {
 public:
  void FailNext(int calls, grpc::StatusCode code) {
    failures_ = calls;
    code_ = code;
  }
  int calls() const { return calls_; }

  grpc::Status GetDataset(grpc::ServerContext* /*context*/,
                          const v1::GetDatasetRequest* /*request*/,
                          v1::GetDatasetResponse* /*response*/) override {
    return Answer();
  }
  grpc::Status DeleteDataset(grpc::ServerContext* /*context*/,
                             const v1::DeleteDatasetRequest* /*request*/,
                             v1::DeleteDatasetResponse* /*response*/) override {
    return Answer();
  }

 private:
  grpc::Status Answer() {
    ++calls_;
    return failures_-- > 0 ? grpc::Status(code_, "as asked for") : grpc::Status::OK;
  }

  std::atomic<int> calls_ = 0;
  std::atomic<int> failures_ = 0;
  std::atomic<grpc::StatusCode> code_ = grpc::StatusCode::OK;
};

class FailingServer {
 public:
  FailingServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  FailingService service;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status Get(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::GetDatasetResponse response;
  return ToAbslStatus(v1::DatasetService::NewStub(channel)->GetDataset(
      &context, v1::GetDatasetRequest(), &response));
}
absl::Status Delete(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::DeleteDatasetResponse response;
  return ToAbslStatus(v1::DatasetService::NewStub(channel)->DeleteDataset(
      &context, v1::DeleteDatasetRequest(), &response));
}

class ChannelTest : public testing::Test {
 protected:
  std::shared_ptr<grpc::Channel> Channel(const ChannelOptions& options = {}) {
    return *Connect(server_.address(), absl::Seconds(20), options);
  }
  FailingServer server_;
};

// CANCELLED is what a gRPC server answers a call with that comes while it shuts down.
TEST_F(ChannelTest, WhatIsSafeIsRetriedWhileAServerGoesDown) {
  const auto channel = Channel();
  for (const grpc::StatusCode code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED}) {
    const int before = server_.service.calls();
    server_.service.FailNext(3, code);
    EXPECT_THAT(Get(channel), IsOk());
    EXPECT_EQ(server_.service.calls() - before, 4);
  }
}

TEST_F(ChannelTest, ARetryThatMaySeeSomethingElseIsLeftToTheCaller) {
  const auto channel = Channel();
  server_.service.FailNext(1, grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(Delete(channel), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(server_.service.calls(), 1);
}

TEST_F(ChannelTest, OtherErrorsAreNotRetried) {
  const auto channel = Channel();
  server_.service.FailNext(1, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(Get(channel), StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
  EXPECT_EQ(server_.service.calls(), 1);
}

TEST_F(ChannelTest, WithoutRetriesEveryErrorIsTheCallers) {
  ChannelOptions options;
  options.retries = false;
  const auto channel = Channel(options);
  server_.service.FailNext(1, grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(Get(channel), StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

TEST_F(ChannelTest, ALoadBalancingPolicyIsPassedOn) {
  const FailingServer other;
  ChannelOptions options;
  const std::string both = absl::StrCat("ipv4:", server_.address(), ",", other.address());
  const auto first = MakeChannel(both, options);
  for (int i = 0; i < 8; ++i) EXPECT_THAT(Get(first), IsOk());
  EXPECT_TRUE(server_.service.calls() == 8 || other.service.calls() == 8);

  options.load_balancing_policy = "round_robin";
  const auto all = MakeChannel(both, options);
  const int before = std::min(server_.service.calls(), other.service.calls());
  // The second connection may come later than the first.
  while (std::min(server_.service.calls(), other.service.calls()) == before) {
    ASSERT_THAT(Get(all), IsOk());
  }
}

TEST_F(ChannelTest, AnyArgumentOfGrpcIsPassedOnAndReplacesWhatIsSet) {
  ChannelOptions options;
  options.arguments = {{"grpc.max_send_message_length", 3}, {"grpc.lb_policy_name", "round_robin"}};
  const auto channel = Channel(options);
  grpc::ClientContext context;
  v1::GetDatasetRequest request;
  request.set_name("longer than that");
  v1::GetDatasetResponse response;
  EXPECT_THAT(
      ToAbslStatus(v1::DatasetService::NewStub(channel)->GetDataset(&context, request, &response)),
      StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
}

TEST_F(ChannelTest, WhatAnswersIsWhateverSaysSomethingOfItself) {
  // It knows nothing of health.
  EXPECT_TRUE(Answers(Channel(), absl::Seconds(20)));
  EXPECT_FALSE(Answers(MakeChannel("127.0.0.1:1"), absl::Milliseconds(1)));
  ScriptedServer scripted;
  ChannelOptions options;
  options.retries = false;
  options.secured_by = Credentials();
  const auto channel = MakeChannel(scripted.address(), options);
  for (int code = 0; code <= 16; ++code) {
    scripted.Plays([&](const auto& asked) {
      EXPECT_EQ(asked.request, "");
      return ScriptedServer::Answer{{""}, {static_cast<grpc::StatusCode>(code), "so"}};
    });
    EXPECT_EQ(Answers(channel, absl::Seconds(20)),
              code != grpc::StatusCode::UNAVAILABLE && code != grpc::StatusCode::DEADLINE_EXCEEDED)
        << code;
    ASSERT_EQ(scripted.asked().size(), 1);
  }
}

TEST_F(ChannelTest, CredentialsThatAreGivenAreTakenAndOthersNotLookedAt) {
  ChannelOptions options;
  options.secured_by = Credentials();
  options.secured_by->token = "x";
  EXPECT_THAT(Connect(server_.address(), absl::Seconds(20), options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("over TLS only")));
  options.credentials = grpc::InsecureChannelCredentials();
  EXPECT_THAT(Connect(server_.address(), absl::Seconds(20), options), IsOk());
  ::setenv("PACKHOUSE_TLS", "maybe", 1);
  EXPECT_EQ(Connect(server_.address(), absl::Seconds(20)).status(),
            absl::InvalidArgumentError("PACKHOUSE_TLS: 'maybe' is neither 1 nor 0"));
  // A channel is made all the same, and its calls fail.
  EXPECT_FALSE(Get(MakeChannel(server_.address(), ChannelOptions())).ok());
  ::unsetenv("PACKHOUSE_TLS");
}

// The environment's proxy is for other machines, and whoever goes by it is told so.
TEST_F(ChannelTest, AProxyIsNotForThisMachine) {
  ::setenv("grpc_proxy", "http://127.0.0.1:1", 1);
  EXPECT_THAT(Connect(server_.address(), absl::Seconds(5)), IsOk());
  EXPECT_EQ(Connect("packhouse.example:1", absl::Milliseconds(50)).status(),
            absl::UnavailableError(
                "no server at packhouse.example:1 within 0.05 s; the call goes by the HTTP proxy "
                "of the variable grpc_proxy: no_proxy excepts servers from it"));
  ::unsetenv("grpc_proxy");
}

TEST(ConnectTest, AnAddressThatNamesNoServerIsRefused) {
  for (const char* const address : {"", " ", " , ", ",,"}) {
    EXPECT_THAT(Connect(address, absl::Seconds(20)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names no server")))
        << address;
  }
}

// As the Python client says it, word for word.
TEST(ConnectTest, WhoCannotConnectIsToldWhy) {
  const auto told = [](const std::string& address) {
    const absl::Status status = Connect(address, absl::Milliseconds(50)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << address;
    return std::string(status.message());
  };
  // Nobody else gets the port, and nobody listens.
  const int bound = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  ASSERT_EQ(::bind(bound, reinterpret_cast<sockaddr*>(&here), size), 0);
  ASSERT_EQ(::getsockname(bound, reinterpret_cast<sockaddr*>(&here), &size), 0);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(here.sin_port));
  EXPECT_EQ(told(address),
            absl::StrCat("no server at ", address,
                         " within 0.05 s: the connection is refused: no server listens there"));
  ASSERT_EQ(::listen(bound, 4), 0);
  EXPECT_THAT(told(address), HasSubstr(": what listens there does not answer as gRPC"));
  ::close(bound);
  const TemporaryFolder folder;
  EXPECT_THAT(told("unix:" + folder.path() + "/none"), HasSubstr(": there is no such socket"));
  EXPECT_EQ(WhyUnreachable("no name:1", absl::Seconds(1)), ": the name 'no name' is not resolved");
  EXPECT_EQ(WhyUnreachable("dns:///packhouse:1", absl::Seconds(1)), "");
}

// It does not wait for what no time will bring.
TEST(ConnectTest, ARefusalIsToldAtOnce) {
  const TemporaryFolder folder;
  MakeCertificate(folder.path(), "ca");
  const FailingServer plain;
  ChannelOptions options;
  options.secured_by = Credentials();
  options.secured_by->tls_ca = folder.path() + "/ca.crt";
  EXPECT_THAT(Connect(plain.address(), absl::Minutes(2), options),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the server speaks plain text")));
}

}  // namespace
}  // namespace packhouse::client
