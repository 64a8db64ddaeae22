#include "client/graph/server_process.h"

#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<std::unique_ptr<ServerProcess>> StartShell(
    const std::string& script, ServerProcess::Log log = ServerProcess::Log::kKeep) {
  return ServerProcess::Start({"/bin/sh", "-c", script}, log);
}

TEST(ServerProcessTest, TellsWhereTheServerListens) {
  PH_ASSERT_OK_AND_ASSIGN(
      const auto server,
      StartShell("echo starting >&2; echo "
                 "'{\"event\":\"listening\",\"grpc\":\"a:1\",\"http\":\"\"}'; exec sleep 600"));
  ASSERT_THAT(server->WaitUntilReady(), IsOk());
  EXPECT_EQ(server->Listening("grpc"), "a:1");
  EXPECT_EQ(server->Listening("http"), "");
  EXPECT_EQ(server->Listening("tcp"), "");
}

TEST(ServerProcessTest, IsKilledWithTheObject) {
  PH_ASSERT_OK_AND_ASSIGN(
      auto server, StartShell("echo '{\"event\":\"listening\",\"grpc\":\"a\"}'; exec sleep 600"));
  ASSERT_THAT(server->WaitUntilReady(), IsOk());
  const pid_t pid = server->pid();
  EXPECT_EQ(kill(pid, 0), 0);
  server = nullptr;
  EXPECT_NE(kill(pid, 0), 0);
}

// Nor does it outlive who started it, should that one be killed.
TEST(ServerProcessTest, IsKilledWithTheThreadThatStartedIt) {
  std::unique_ptr<ServerProcess> server;
  std::thread([&] {
    server = StartShell("echo '{\"event\":\"listening\",\"grpc\":\"a\"}'; exec sleep 20").value();
    EXPECT_THAT(server->WaitUntilReady(), IsOk());
  }).join();
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(server->pid()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ended.si_code, CLD_KILLED);
  EXPECT_EQ(ended.si_status, SIGKILL);
}

TEST(ServerProcessTest, HasNothingToRead) {
  PH_ASSERT_OK_AND_ASSIGN(
      const auto server,
      StartShell("cat; echo '{\"event\":\"listening\",\"grpc\":\"a\"}'; exec sleep 600"));
  EXPECT_THAT(server->WaitUntilReady(), IsOk());
}

TEST(ServerProcessTest, WhoDoesNotComeUpHasLastWords) {
  const std::string much = "i=0; while [ $i -lt 3000 ]; do echo $i >&2; i=$((i+1)); done; ";
  PH_ASSERT_OK_AND_ASSIGN(auto server, StartShell(much + "echo no disk >&2; exit 1"));
  EXPECT_THAT(server->WaitUntilReady(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("/bin/sh ended before it was ready: "),
                             EndsWith("2999\nno disk"), Not(HasSubstr("\n42\n")))));
  PH_ASSERT_OK_AND_ASSIGN(server,
                          ServerProcess::Start({"/nonexistent"}, ServerProcess::Log::kKeep));
  EXPECT_THAT(server->WaitUntilReady(),
              StatusIs(absl::StatusCode::kUnavailable,
                       "/nonexistent ended before it was ready: cannot be executed"));
  PH_ASSERT_OK_AND_ASSIGN(server, StartShell("exit 1", ServerProcess::Log::kPassOn));
  EXPECT_THAT(server->WaitUntilReady(),
              StatusIs(absl::StatusCode::kUnavailable, "/bin/sh ended before it was ready"));
}

TEST(ServerProcessTest, AnotherProgramIsNoServer) {
  PH_ASSERT_OK_AND_ASSIGN(const auto server, StartShell("echo hello; exec sleep 600"));
  EXPECT_THAT(server->WaitUntilReady(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("said 'hello' instead of")));
}

}  // namespace
}  // namespace packhouse::client
