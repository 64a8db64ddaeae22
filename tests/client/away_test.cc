#include "client/cpp/away.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/addresses.h"
#include "client/cpp/channel.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/job_client.h"
#include "client/cpp/job_servers.h"
#include "client/cpp/servers.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(AwayTest, WhatPassesIsTheTablesAndNothingElse) {
  for (int code = 1; code <= 16; ++code) {
    const auto status = [code](const char* words) {
      return absl::Status(static_cast<absl::StatusCode>(code), words);
    };
    const bool always = code == static_cast<int>(absl::StatusCode::kUnavailable) ||
                        code == static_cast<int>(absl::StatusCode::kCancelled) ||
                        code == static_cast<int>(absl::StatusCode::kDeadlineExceeded);
    const bool is_full = code == static_cast<int>(absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(Passes(status("the quota of namespace 'a'")), always) << code;
    EXPECT_EQ(Passes(status("cannot commit: No space left on device")), always || is_full) << code;
    EXPECT_EQ(Passes(status("Received RST_STREAM with error code 2")),
              always || code == static_cast<int>(absl::StatusCode::kInternal))
        << code;
    EXPECT_EQ(Passes(status("Received RST_STREAM with error code 11")),
              always || is_full || code == static_cast<int>(absl::StatusCode::kInternal))
        << code;
  }
  EXPECT_FALSE(Passes(absl::OkStatus()));
}

// Calls with the statuses in turn, then OK, and counts.
struct Calls {
  std::vector<grpc::Status> failures;
  size_t made = 0;

  absl::Status Make(absl::Duration timeout = absl::Seconds(1)) {
    RetryOptions options;
    options.first_wait = absl::Milliseconds(1);
    options.connect_timeout = absl::ZeroDuration();
    options.patience = absl::Seconds(30);
    options.sleep = [](absl::Duration) {};
    return CallWithRetry(MakeChannel("127.0.0.1:1"), options, "Get", timeout,
                         [this](grpc::ClientContext&) {
                           const size_t number = made++;
                           return number < failures.size() ? failures[number] : grpc::Status::OK;
                         });
  }
};

TEST(AwayTest, WhatPassesIsCalledAgain) {
  Calls away{{{grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"},
              {grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
              {grpc::StatusCode::INTERNAL, "Received RST_STREAM with error code 2"}}};
  EXPECT_THAT(away.Make(), IsOk());
  EXPECT_EQ(away.made, 4);
  Calls refused{{{grpc::StatusCode::RESOURCE_EXHAUSTED, "the quota of namespace 'a'"}}};
  EXPECT_THAT(refused.Make(),
              StatusIs(absl::StatusCode::kResourceExhausted, "the quota of namespace 'a'"));
  EXPECT_EQ(refused.made, 1);
  // A call that may take as long as all tries together is made once.
  Calls long_call{{{grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}}};
  EXPECT_THAT(long_call.Make(absl::Hours(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "Deadline Exceeded"));
  EXPECT_EQ(long_call.made, 1);
  for (const absl::Duration beyond : {absl::ZeroDuration(), absl::Nanoseconds(1)}) {
    Calls bounded{{{grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}}};
    EXPECT_EQ(bounded.Make(absl::Seconds(30) + beyond).ok(), beyond == absl::ZeroDuration());
  }
}

TEST(AwayTest, TheLastErrorNamesTheCall) {
  RetryOptions options;
  options.patience = absl::Milliseconds(5);
  options.first_wait = absl::Seconds(1);
  Retrier retrier(MakeChannel("127.0.0.1:1"), options, "Append to 'd'");
  absl::Status status = absl::UnavailableError("gone");
  EXPECT_FALSE(retrier.WaitAfter(status));
  EXPECT_EQ(status, absl::UnavailableError("gone; Append to 'd' was tried again for 0"));
  // Whoever does not try again says nothing of it; nor of what does not pass.
  options.patience = absl::ZeroDuration();
  Retrier impatient(MakeChannel("127.0.0.1:1"), options, "Get");
  status = absl::UnavailableError("gone");
  EXPECT_FALSE(impatient.WaitAfter(status));
  EXPECT_EQ(status, absl::UnavailableError("gone"));
  status = absl::NotFoundError("none");
  EXPECT_FALSE(retrier.WaitAfter(status));
  EXPECT_EQ(status, absl::NotFoundError("none"));
}

// Once for each failing that lasts, or that made somebody wait.
TEST(AwayTest, AFailingThatLastsIsToldInOneLine) {
  RetryOptions options;
  options.patience = absl::Seconds(9);
  options.first_wait = absl::Milliseconds(999);
  options.connect_timeout = absl::Milliseconds(1);
  std::vector<absl::Duration> waits;
  options.sleep = [&](absl::Duration wait) { waits.push_back(wait); };
  Retrier retrier(MakeChannel("127.0.0.1:1"), options, "Get");
  const auto told = [&](absl::Status status) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(retrier.WaitAfter(status));
    return testing::internal::GetCapturedStderr();
  };
  const absl::Status away = absl::UnavailableError("away");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(told(away), "");
    // The wait for a connection counts, too: it is a second now.
    EXPECT_EQ(told(away), "packhouse: Get fails, and is tried again for 8s: UNAVAILABLE: away\n");
    EXPECT_EQ(told(away), "");
    absl::Status status = away;
    EXPECT_FALSE(retrier.WaitAfter(status));
    EXPECT_EQ(status, absl::UnavailableError("away; Get was tried again for 6s"));
    retrier.Reset();
  }
  EXPECT_THAT(told(absl::DeadlineExceededError("late")),
              testing::EndsWith(": DEADLINE_EXCEEDED: late\n"));
  EXPECT_EQ(told(away), "");
  // Where somebody is told otherwise, nothing is printed.
  std::vector<absl::Duration> told_of;
  options.on_wait = [&](const absl::Status& status, absl::Duration wait) {
    EXPECT_EQ(status, away);
    told_of.push_back(wait);
  };
  waits.clear();
  Retrier telling(MakeChannel("127.0.0.1:1"), options, "Get");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    absl::Status status = away;
    EXPECT_TRUE(telling.WaitAfter(status));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(waits, told_of);
  EXPECT_THAT(waits, ElementsAre(absl::Milliseconds(999), absl::Milliseconds(1998),
                                 absl::Milliseconds(3996)));
}

TEST(AwayTest, WhatAProxyDidIsSaid) {
  EXPECT_THAT(MeaningOfEnd("Received RST_STREAM with error code 2"),
              HasSubstr("a proxy has ended"));
  EXPECT_THAT(MeaningOfEnd("Received RST_STREAM with error code 11"), HasSubstr("--memory-budget"));
  EXPECT_THAT(MeaningOfEnd("Received http2 header with status: 502"),
              HasSubstr("a proxy answered"));
  EXPECT_THAT(MeaningOfEnd("enter idle"), HasSubstr("--max-connection-age"));
  EXPECT_THAT(MeaningOfEnd("data set 'd' is not there"), IsEmpty());
}

// Tells of jobs.
class Jobs final : public v1::LoaderService::Service {
 public:
  explicit Jobs(int* port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  grpc::Status GetJob(grpc::ServerContext* /*context*/, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    if (request->job() == "none") return {grpc::StatusCode::NOT_FOUND, "none"};
    response->set_job(request->job());
    return grpc::Status::OK;
  }
  grpc::Status DeleteJob(grpc::ServerContext* /*context*/, const v1::DeleteJobRequest* /*request*/,
                         v1::DeleteJobResponse* /*response*/) override {
    return grpc::Status::OK;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
};

TEST(ServersTest, QuestionsOfJobsGoOnAtTheNextServer) {
  int port = 0;
  Jobs jobs(&port);
  const auto servers = [&] {
    ChannelOptions options;
    options.retries = false;
    return Servers({MakeChannel("127.0.0.1:1", options),
                    MakeChannel(absl::StrCat("127.0.0.1:", port), options)});
  };
  const JobClient client(servers());
  EXPECT_THAT(client.Get("j").status(), IsOk());
  EXPECT_THAT(client.Get("none").status(), StatusIs(absl::StatusCode::kNotFound, "none"));
  // A deletion is not repeated elsewhere, but the next one does not go to who was away.
  const JobClient other(servers());
  EXPECT_THAT(other.Delete("j"), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_THAT(other.Delete("j"), IsOk());
  // None of them is there: each was asked once.
  ChannelOptions options;
  options.retries = false;
  const Servers none({MakeChannel("127.0.0.1:1", options), MakeChannel("127.0.0.1:1", options)});
  EXPECT_THAT(JobClient(none).Get("j").status(),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

// Calls of a loader beside its stream: whoever does not answer is not asked again before the
// others.
TEST(JobServersTest, AServerThatDoesNotAnswerIsLeft) {
  int port = 0;
  Jobs jobs(&port);
  ChannelOptions options;
  options.retries = false;
  const auto connect = [&](const std::string& /*address*/) {
    return MakeChannel(absl::StrCat("127.0.0.1:", port), options);
  };
  JobServers servers(MakeChannel("127.0.0.1:1", options), connect, {"other"});
  const auto get = [&servers](const std::string& job) {
    grpc::ClientContext context;
    return servers
        .Call(context,
              [&job](v1::LoaderService::Stub& stub, grpc::ClientContext& of_call) {
                v1::GetJobRequest request;
                request.set_job(job);
                v1::Job response;
                return stub.GetJob(&of_call, request, &response);
              })
        .error_code();
  };
  EXPECT_EQ(get("j"), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(servers.current()->address, "other");
  // An error is an answer.
  EXPECT_EQ(get("none"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(servers.current()->address, "other");
  EXPECT_EQ(get("j"), grpc::StatusCode::OK);
}

// From the one that was given to the others in turn and back; from an owner to who was asked
// before.
TEST(JobServersTest, WhoIsAskedNextFollowsFromWhoIsAway) {
  std::vector<std::string> connected;
  JobServers servers(MakeChannel("127.0.0.1:1"),
                     [&](const std::string& address) {
                       connected.push_back(address);
                       return MakeChannel(address);
                     },
                     {"b", "c"});
  const auto leave = [&] {
    servers.Leave(*servers.current());
    return servers.current()->address;
  };
  EXPECT_EQ(servers.current()->address, "");
  for (const char* const next : {"b", "c", "", "b"}) EXPECT_EQ(leave(), next);
  const auto before = servers.current();
  servers.GoTo("owner");
  EXPECT_EQ(servers.current()->address, "owner");
  // Who is not asked any more is not left.
  servers.Leave(*before);
  EXPECT_EQ(servers.current()->address, "owner");
  servers.GoTo("owner");
  EXPECT_EQ(leave(), "b");
  EXPECT_EQ(leave(), "c");
  servers.GoTo("owner");
  servers.GoTo("new owner");
  EXPECT_EQ(leave(), "c");
  EXPECT_EQ(leave(), "");
  EXPECT_THAT(connected, ElementsAre("b", "c", "b", "owner", "b", "c", "owner", "new owner", "c"));

  // One alone is one of several once it names another.
  JobServers one(MakeChannel("127.0.0.1:1"), [](const auto& to) { return MakeChannel(to); }, {});
  EXPECT_FALSE(one.are_several());
  one.GoTo("owner");
  EXPECT_TRUE(one.are_several());
  one.Leave(*one.current());
  EXPECT_TRUE(one.are_several());
  EXPECT_EQ(one.current()->address, "");
  EXPECT_TRUE(servers.are_several());
}

TEST(ServersTest, AListBeginsWithTheFirstThatAnswers) {
  int port = 0;
  Jobs jobs(&port);
  const std::string there = absl::StrCat("127.0.0.1:", port);
  const auto servers =
      ConnectToServers(absl::StrCat("127.0.0.1:1,", there, ",127.0.0.1:2"), absl::Seconds(3));
  ASSERT_THAT(servers.status(), IsOk());
  EXPECT_EQ(servers->size(), 3);
  EXPECT_EQ(servers->current()->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
  EXPECT_THAT(JobClient(*servers).Get("j").status(), IsOk());
  // Of the time each has its part.
  const auto none = ConnectToServers("127.0.0.1:1,127.0.0.1:2", absl::Milliseconds(200));
  const std::string why = " within 0.1 s: the connection is refused: no server listens there";
  EXPECT_EQ(none.status(), absl::UnavailableError(absl::StrCat("no server at 127.0.0.1:1", why,
                                                               "; no server at 127.0.0.1:2", why)));
}

TEST(AddressesTest, AListIsTakenApartAndANameOfGrpcsIsNot) {
  EXPECT_THAT(AddressesOf("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(AddressesOf("a:1, b:2,,"), ElementsAre("a:1", "b:2"));
  EXPECT_THAT(AddressesOf("ipv4:10.0.0.1:1,10.0.0.2:2"), ElementsAre("ipv4:10.0.0.1:1,10.0.0.2:2"));
  EXPECT_THAT(AddressesOf("unix:/a,b"), ElementsAre("unix:/a,b"));
  EXPECT_THAT(AddressesOf(""), ElementsAre(""));
}

TEST(AddressesTest, AddressesOfThisMachineAreKnown) {
  for (const char* const own :
       {"127.0.0.1:1", "127.8.9.1:1", "localhost:1", "LOCALHOST", "[::1]:1", "ipv4:127.0.0.1:1",
        "dns:///localhost:1", "a.localhost:1", "unix:/s", "unix-abstract:s", "vsock:1:2",
        "dns://8.8.8.8/localhost:1", "ipv6:[::1]:1", "::1", "[::1]", "localhost", "0.0.0.0:1"}) {
    EXPECT_TRUE(IsOwnAddress(own)) << own;
  }
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_TRUE(IsOwnAddress(absl::StrCat(absl::AsciiStrToUpper(name), ":1"))) << name;
  for (const char* const other :
       {"192.0.2.1:1", "example.org:1", "dns:///example.org:1", "[2001:db8::1]:1", "local.host:1",
        "2001:db8::1", "xlocalhost:1", "128.0.0.1:1", "126.255.255.255:1"}) {
    EXPECT_FALSE(IsOwnAddress(other)) << other;
  }
}

// The last in this order is the first that gRPC looks at.
TEST(AddressesTest, TheProxyThatGrpcTakesIsNamed) {
  constexpr const char* kVariables[] = {"http_proxy", "https_proxy", "grpc_proxy"};
  std::map<std::string, std::string> before;
  for (const char* const variable : kVariables) {
    if (const char* const value = std::getenv(variable)) before[variable] = value;
    ::unsetenv(variable);
  }
  EXPECT_EQ(ProxyVariable("far.example:1"), "");
  for (const char* const variable : kVariables) {
    ::setenv(variable, "http://127.0.0.1:1", 1);
    EXPECT_EQ(ProxyVariable("far.example:1"), variable);
    EXPECT_EQ(ProxyVariable("127.0.0.1:1"), "");
    EXPECT_EQ(ProxyVariable("unix:/socket"), "");
  }
  ::setenv("grpc_proxy", "", 1);
  EXPECT_EQ(ProxyVariable("far.example:1"), "https_proxy");
  for (const char* const variable : kVariables) ::unsetenv(variable);
  for (const auto& [variable, value] : before) ::setenv(variable.c_str(), value.c_str(), 1);
}

TEST(AddressesTest, WhatIsNoAddressToLookAtIsNotLookedAt) {
  for (const char* const address : {"host", ":1", "host:x", "host:", "dns:///host:1", "a/b:1"}) {
    EXPECT_EQ(WhyUnreachable(address, absl::Milliseconds(1)), "") << address;
  }
  EXPECT_EQ(WhyUnreachable("127.0.0.1:1", absl::Seconds(1)),
            ": the connection is refused: no server listens there");
  // Without its brackets.
  EXPECT_THAT(WhyUnreachable("[::1]:1", absl::Seconds(1)),
              testing::Not(HasSubstr("is not resolved")));
  // The longest path that a socket may have.
  EXPECT_EQ(WhyUnreachable("unix:/" + std::string(106, 'x'), absl::Seconds(1)),
            ": there is no such socket");
  EXPECT_EQ(WhyUnreachable("unix:/" + std::string(107, 'x'), absl::Seconds(1)),
            ": File name too long");
}

// One that listens, and takes no more connections.
TEST(AddressesTest, WhoeverDoesNotAnswerIsWaitedForAndThenGivenUp) {
  const int full = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  ASSERT_EQ(::bind(full, reinterpret_cast<sockaddr*>(&here), size), 0);
  ASSERT_EQ(::getsockname(full, reinterpret_cast<sockaddr*>(&here), &size), 0);
  ASSERT_EQ(::listen(full, 0), 0);
  std::vector<int> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(clients.back(), reinterpret_cast<sockaddr*>(&here), size);
  }
  EXPECT_EQ(WhyUnreachable(absl::StrCat("127.0.0.1:", ntohs(here.sin_port)), absl::Milliseconds(9)),
            ": nothing answers there, as behind a firewall");
  for (const int client : clients) ::close(client);
  ::close(full);
}

TEST(AddressesTest, ItConnectsToTheFirstThatAnswers) {
  const auto none = Connect("127.0.0.1:1,unix:/nobody/is/here", absl::Milliseconds(200));
  EXPECT_THAT(none.status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("at 127.0.0.1:1 within"), HasSubstr("/nobody"))));
}

}  // namespace
}  // namespace packhouse::client
