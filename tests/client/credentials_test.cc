// Credentials of the environment and of a file, and what does not fit together.
#include "client/cpp/credentials.h"

#include <map>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

Variables Of(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(CredentialsTest, TheEnvironmentGoesBeforeTheFile) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/client.conf";
  WriteText(file, "# ours\ntls_ca = /file/ca\n\ntoken_file=/file/token\n");
  PH_ASSERT_OK_AND_ASSIGN(
      const Credentials found,
      CredentialsFromEnvironment(
          Of({{"PACKHOUSE_CONFIG", file}, {"PACKHOUSE_TLS_CA", "/environment/ca"}})));
  EXPECT_EQ(found.tls_ca, "/environment/ca");
  EXPECT_EQ(found.token_file, "/file/token");
  PH_ASSERT_OK_AND_ASSIGN(
      const Credentials replaced,
      CredentialsFromEnvironment(Of({{"PACKHOUSE_CONFIG", file}, {"PACKHOUSE_TOKEN", "x"}})));
  EXPECT_EQ(replaced.token, "x");
  EXPECT_EQ(replaced.token_file, "");
  EXPECT_TRUE(CredentialsFromEnvironment(Of({}))->is_plain());
  EXPECT_TRUE(CredentialsFromEnvironment(Of({{"PACKHOUSE_TLS", "yes"}}))->tls);
}

TEST(CredentialsTest, WhatMakesNoSenseIsNamed) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/client.conf";
  for (const auto& [text, why] :
       {std::pair("tls_ca", "line 1: no NAME"), std::pair("\nca = x", "line 2: no NAME"),
        std::pair("tls = 1\ntls = 1", "line 2: the name is there twice"),
        std::pair("tls = maybe", "'maybe' is neither 1 nor 0")}) {
    WriteText(file, text);
    const absl::Status status =
        CredentialsFromEnvironment(Of({{"PACKHOUSE_CONFIG", file}})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  Credentials credentials;
  const auto refusal = [&] { return std::string(ToGrpc(credentials).status().message()); };
  credentials.tls_cert = file;
  EXPECT_THAT(refusal(), HasSubstr("one needs the other"));
  credentials = Credentials();
  credentials.token = "x";
  EXPECT_THAT(refusal(), HasSubstr("over TLS only"));
  credentials.tls_ca = folder.path() + "/nothing";
  EXPECT_THAT(refusal(), HasSubstr("tls_ca: cannot read"));
}

TEST(CredentialsTest, SaysWhichSideRefuses) {
  EXPECT_THAT(MeaningOf("Ssl handshake failed: SSL_ERROR_SSL: certificate verify failed"),
              HasSubstr("this client refuses the server's certificate"));
  EXPECT_THAT(MeaningOf("SSL: WRONG_VERSION_NUMBER"), HasSubstr("the server speaks plain text"));
  EXPECT_EQ(MeaningOf("there is nobody"), "");
  EXPECT_TRUE(MeansRefusal("SSL: WRONG_VERSION_NUMBER"));
  // A server that is being started closes connections, too.
  EXPECT_THAT(MeaningOf("Socket closed"), HasSubstr("it may want TLS"));
  EXPECT_FALSE(MeansRefusal("Socket closed"));
}

}  // namespace
}  // namespace packhouse::client
