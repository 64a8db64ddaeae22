// What flags of security mean: who is let in to pages, which key signs, what administrators are
// told.
#include "service/program/server_security.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/security/static_tokens.h"
#include "service/program/version.h"
#include "tests/support/openssl_command.h"
#include "tests/support/recorded_log.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServerSecurityTest : public ::testing::Test {
 protected:
  std::unique_ptr<security::SecurityFiles> OpenFiles(const Options& options) {
    return security::SecurityFiles::Open(
               options.security, [] { return absl::UnixEpoch(); }, &log_)
        .value();
  }
  // With tokens of these principals, which are their names.
  Options WithTokens(const std::vector<std::string>& principals) {
    Options options;
    options.security.callers.token_file = folder_.path() + "/tokens";
    std::string text;
    for (const std::string& each : principals) {
      absl::StrAppend(&text, each, " ", security::HashOfToken(each), "\n");
    }
    WriteText(options.security.callers.token_file, text);
    return options;
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  RecordedLog log_;
};

TEST_F(ServerSecurityTest, WhoShowsNothingIsLetInUnlessItIsDemanded) {
  Options options = WithTokens({"alice", "prometheus", "mallory"});
  options.security.policy = folder_.path() + "/policy";
  options.http_names = {"a.example"};
  WriteText(options.security.policy,
            "version: 1\nroles:\n- {role: viewer, principals: [alice], namespaces: [team]}\n"
            "- {role: viewer, principals: [prometheus], namespaces: ['*']}\n");
  const auto files = OpenFiles(options);
  const auto ask = [&](const std::string& path, const std::string& token) {
    const http::HttpSecurity http = HttpSecurityOf(*files, options);
    EXPECT_EQ(http.tls, nullptr);
    EXPECT_THAT(http.names, ElementsAre("a.example"));
    http::Request request;
    request.path = path;
    if (!token.empty()) request.authorization = "Bearer " + token;
    const http::Admission admission = http.admit(http::Caller(), request);
    return absl::StrCat(admission.status, " ", admission.principal, admission.why_not);
  };
  const std::string unknown = "401 the server refuses the token: it is not one that it knows";
  EXPECT_EQ(ask("/metrics", ""), "200 ");
  EXPECT_EQ(ask("/metrics", "mallory"), "200 mallory");
  EXPECT_EQ(ask("/metrics", "x"), unknown);
  options.http_auth = true;
  EXPECT_EQ(ask("/metrics", ""), "401 the server refuses the call: it has shown no bearer token");
  EXPECT_EQ(ask("/metrics", "x"), unknown);
  EXPECT_EQ(ask("/metrics", "alice"),
            "403 the server's policy gives principal 'alice' no right 'view' on the server");
  EXPECT_EQ(ask("/metrics", "prometheus"), "200 prometheus");
  EXPECT_EQ(ask("/other", "alice"), "200 alice");
  EXPECT_EQ(ask("/other", "mallory"),
            "403 the server's policy gives principal 'mallory' no right 'view' in any namespace");
}

TEST_F(ServerSecurityTest, AKeyIsOfTheFlagOrOfTheDataFolderOrTemporary) {
  const auto sign = [&](const Options& options) {
    return OpenSigner(options, log_).value().Sign("a", "b");
  };
  Options options;
  EXPECT_NE(sign(options), sign(options));
  options.data_dir = folder_.path();
  const std::string of_folder = sign(options);
  EXPECT_EQ(sign(options), of_folder);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/signing.key"));
  options.signing_key = folder_.path() + "/key";
  const std::string of_flag = sign(options);
  EXPECT_NE(of_flag, of_folder);
  EXPECT_EQ(sign(options), of_flag);
  options.data_dir = "";
  EXPECT_EQ(sign(options), of_flag);
  EXPECT_THAT(log_.lines(), ElementsAre());
  // What is no key is refused. Without one that can be read, cursors are good for a while.
  const auto refused = [&](const std::string& path, absl::StatusCode code, const char* why) {
    EXPECT_THAT(OpenSigner(options, log_).status(),
                StatusIs(code, HasSubstr(absl::StrCat("--signing-key: ", why, "'", path, "'"))));
  };
  WriteText(options.signing_key, "no key");
  refused(options.signing_key, absl::StatusCode::kInvalidArgument, "");
  std::filesystem::remove(options.signing_key);
  std::filesystem::create_directory(options.signing_key);
  refused(options.signing_key, absl::StatusCode::kFailedPrecondition, "cannot read ");
  options.signing_key = "";
  options.data_dir = folder_.path();
  WriteText(folder_.path() + "/signing.key", "no key");
  refused(folder_.path() + "/signing.key", absl::StatusCode::kInvalidArgument, "");
  EXPECT_THAT(log_.lines(), ElementsAre());
  std::filesystem::remove(folder_.path() + "/signing.key");
  std::filesystem::create_directory(folder_.path() + "/signing.key");
  EXPECT_NE(sign(options), sign(options));
  ASSERT_EQ(log_.lines().size(), 2U);
  EXPECT_THAT(log_.lines()[0], testing::StartsWith("warning \"event\":\"no key for cursors\","
                                                   "\"message\":\"cannot read '"));
  EXPECT_THAT(log_.lines()[0], testing::EndsWith("; cursors are good until the server ends\""));
}

TEST_F(ServerSecurityTest, AdministratorsAreToldOfFilesAndSetTheLevel) {
  const Options options = WithTokens({"alice"});
  const auto files = OpenFiles(options);
  testing::internal::CaptureStderr();
  {
    SpdlogLog log("info");
    const absl::Time started = absl::FromUnixSeconds(7);
    const rpc::AdminActions actions = AdminActionsOf(files.get(), &log, started);
    EXPECT_EQ(actions.version, kVersion);
    EXPECT_EQ(actions.started, started);
    EXPECT_EQ(actions.log_level(), "info");
    actions.set_log_level("error");
    EXPECT_EQ(actions.log_level(), "error");
    log.Log(LogLevel::kWarning, "not told", {});
    log.Close(absl::Minutes(1));
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr(R"("level":"info","event":"log level","from":"info","to":"error"})"));
  EXPECT_THAT(told, testing::Not(HasSubstr("not told")));
  SpdlogLog log("off");
  const rpc::AdminActions actions = AdminActionsOf(files.get(), &log, absl::UnixEpoch());
  const auto states = [&] {
    std::string all;
    for (const FileState& state : actions.files()) {
      absl::StrAppend(&all, state.name, " ", state.num_reloads, " ", state.failure, ";");
    }
    return all;
  };
  EXPECT_EQ(states(), "tokens 0 ;");
  WithTokens({"bob"});
  actions.reload();
  EXPECT_EQ(states(), "tokens 1 ;");
  WriteText(options.security.callers.token_file, "bob\n");
  actions.reload();
  EXPECT_THAT(states(), testing::StartsWith("tokens 1 '"));
}

}  // namespace
}  // namespace packhouse
