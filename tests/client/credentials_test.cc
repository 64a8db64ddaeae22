// Credentials of the environment and of a file, and what does not fit together.
#include "client/cpp/credentials.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// Each by its name in the file, and by its variable, and nowhere else.
TEST(CredentialsTest, EachSettingHasItsPlace) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/client.conf";
  const std::map<std::string, std::string Credentials::*> places = {
      {"tls_ca", &Credentials::tls_ca},   {"tls_cert", &Credentials::tls_cert},
      {"tls_key", &Credentials::tls_key}, {"tls_server_name", &Credentials::tls_server_name},
      {"token", &Credentials::token},     {"token_file", &Credentials::token_file}};
  for (const auto& [name, place] : places) {
    WriteText(file, name + " = its-value ");
    for (const auto& variables : {std::map<std::string, std::string>{{"PACKHOUSE_CONFIG", file}},
                                  {{"PACKHOUSE_" + absl::AsciiStrToUpper(name), "its-value"}}}) {
      PH_ASSERT_OK_AND_ASSIGN(const Credentials found, CredentialsFromEnvironment(Of(variables)));
      for (const auto& [other, of_other] : places) {
        EXPECT_EQ(found.*of_other, other == name ? "its-value" : "") << name << " " << other;
      }
      EXPECT_FALSE(found.tls);
      EXPECT_FALSE(found.is_plain()) << name;
    }
  }
  for (const auto& [text, is_on] : std::map<std::string, bool>{{"1", true},
                                                               {"True", true},
                                                               {"yes", true},
                                                               {"0", false},
                                                               {"FALSE", false},
                                                               {"no", false},
                                                               {"", false}}) {
    EXPECT_EQ(CredentialsFromEnvironment(Of({{"PACKHOUSE_TLS", text}}))->tls, is_on) << text;
  }
}

TEST(CredentialsTest, TheFileIsTheNamedOneOrTheUsersOwn) {
  const TemporaryFolder folder;
  const std::string own = folder.path() + "/.config/packhouse";
  std::filesystem::create_directories(own);
  std::filesystem::create_directories(folder.path() + "/packhouse");
  WriteText(own + "/client.conf", "tls_ca = of-home");
  WriteText(folder.path() + "/packhouse/client.conf", "tls_ca = of-xdg");
  const auto found = [&](std::map<std::string, std::string> variables) {
    const auto credentials = CredentialsFromEnvironment(Of(std::move(variables)));
    return credentials.ok() ? credentials->tls_ca : credentials.status().ToString();
  };
  const std::pair<const std::string, std::string> home = {"HOME", folder.path()};
  EXPECT_EQ(found({home}), "of-home");
  EXPECT_EQ(found({home, {"XDG_CONFIG_HOME", ""}}), "of-home");
  EXPECT_EQ(found({home, {"XDG_CONFIG_HOME", folder.path()}}), "of-xdg");
  EXPECT_EQ(found({home, {"PACKHOUSE_CONFIG", ""}}), "");
  EXPECT_THAT(found({home, {"PACKHOUSE_CONFIG", folder.path() + "/none"}}),
              HasSubstr("PACKHOUSE_CONFIG: cannot read it"));
  WriteText(own + "/client.conf", "nonsense");
  EXPECT_THAT(found({home}), HasSubstr("line 1: no NAME"));
  // Two tokens of one place are for ToGrpc() to refuse.
  PH_ASSERT_OK_AND_ASSIGN(
      Credentials both,
      CredentialsFromEnvironment(Of({{"PACKHOUSE_TOKEN", "x"}, {"PACKHOUSE_TOKEN_FILE", "/y"}})));
  both.tls = true;
  EXPECT_THAT(ToGrpc(both).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("token and token_file: only one")));
  WriteText(folder.path() + "/file", "token_file = /z");
  PH_ASSERT_OK_AND_ASSIGN(
      both, CredentialsFromEnvironment(Of({{"PACKHOUSE_CONFIG", folder.path() + "/file"},
                                           {"PACKHOUSE_TOKEN", "x"},
                                           {"PACKHOUSE_TOKEN_FILE", "/y"}})));
  EXPECT_EQ(both.token + both.token_file, "x/y");
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
  credentials.tls_key = file;
  EXPECT_THAT(refusal(), HasSubstr("one needs the other"));
  credentials = Credentials();
  credentials.token = "x";
  EXPECT_THAT(refusal(), HasSubstr("over TLS only"));
  credentials = Credentials();
  credentials.token_file = file;
  EXPECT_THAT(refusal(), HasSubstr("over TLS only"));
  credentials.tls = true;
  WriteText(file, " \n");
  EXPECT_THAT(refusal(), HasSubstr("client.conf' is empty"));
  credentials.tls_ca = folder.path() + "/nothing";
  EXPECT_THAT(ToGrpc(credentials).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nothing: tls_ca: cannot read it: No such file or directory")));
  using Unreadable = std::tuple<std::string, absl::StatusCode, std::string>;
  for (const auto& [path, code, why] :
       {Unreadable(folder.path(), absl::StatusCode::kFailedPrecondition, "Is a directory"),
        Unreadable(file + "/x", absl::StatusCode::kFailedPrecondition, "Not a directory"),
        Unreadable(std::string(300, 'x'), absl::StatusCode::kUnknown, "File name too long"),
        // It can be opened, and nothing is mapped at its begin.
        Unreadable("/proc/self/mem", absl::StatusCode::kUnknown, "Input/output error")}) {
    credentials.tls_ca = path;
    EXPECT_EQ(ToGrpc(credentials).status(),
              absl::Status(code, absl::StrCat(path, ": tls_ca: cannot read it: ", why)));
  }
}

TEST(CredentialsTest, AnEmptyTokenIsNone) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/client.conf";
  WriteText(file, "token =\ntoken_file = /t");
  auto read = CredentialsFromEnvironment(Of({{"PACKHOUSE_CONFIG", file}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token, "");
  EXPECT_EQ(read->token_file, "/t");
  // It replaces the file's of either kind.
  WriteText(file, "token = x\ntoken_file = /t");
  read = CredentialsFromEnvironment(Of({{"PACKHOUSE_CONFIG", file}, {"PACKHOUSE_TOKEN", ""}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token, "");
  EXPECT_EQ(read->token_file, "");
}

TEST(CredentialsTest, ACertificateOfOnesOwnMeansTls) {
  const TemporaryFolder folder;
  Credentials credentials;
  credentials.token = "x";
  credentials.tls_cert = credentials.tls_key = folder.path() + "/pem";
  WriteText(credentials.tls_cert, "nobody reads it before a connection is made");
  EXPECT_TRUE(ToGrpc(credentials).ok());
}

// gRPC prints a header that it cannot send. So what cannot be one is refused before, and not shown.
TEST(CredentialsTest, ATokenThatNoHeaderCarriesIsNamedAndNotShown) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/token";
  const std::string config = folder.path() + "/client.conf";
  const std::string token = "0123456789abcdef";
  Credentials credentials;
  credentials.tls = true;
  const auto of_file = [&](const std::string& text) {
    WriteText(file, text);
    credentials.token_file = file;
    return ToGrpc(credentials).status();
  };
  for (const std::string& good :
       {token, token + "\n", "\xEF\xBB\xBF" + token + "\r\n", " " + token}) {
    EXPECT_THAT(of_file(good), IsOk());
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bad = absl::StrCat(token, std::string(1, static_cast<char>(byte)), token);
    const bool is_good = byte > 0x20 && byte < 0x7F;
    EXPECT_EQ(of_file("\n" + bad).ok(), is_good) << byte;
    Credentials direct;
    direct.tls = true;
    direct.token = bad;
    EXPECT_EQ(ToGrpc(direct).ok(), is_good) << byte;
    const auto of_variable = CredentialsFromEnvironment(Of({{"PACKHOUSE_TOKEN", bad}}));
    EXPECT_EQ(of_variable.ok(), is_good) << byte;
    WriteText(config, absl::StrCat("tls = 1\ntoken = ", bad, "\n"));
    const auto of_config = CredentialsFromEnvironment(Of({{"PACKHOUSE_CONFIG", config}}));
    EXPECT_EQ(of_config.ok(), is_good) << byte;
    for (const absl::Status& status :
         {of_file("\n" + bad), ToGrpc(direct).status(), of_variable.status(), of_config.status()}) {
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(token)));
    }
    if (is_good) continue;
    EXPECT_THAT(std::string(of_file("\n" + bad).message()),
                HasSubstr(absl::StrCat(file, "': line 2")));
    EXPECT_THAT(std::string(of_variable.status().message()), HasSubstr("PACKHOUSE_TOKEN"));
    EXPECT_THAT(std::string(of_config.status().message()), HasSubstr(config));
  }
  EXPECT_THAT(std::string(of_file(token + "\n" + token).message()),
              HasSubstr("line 1: more follows the token"));
}

TEST(CredentialsTest, SaysWhichSideRefuses) {
  for (const auto& [words, meaning] : std::map<std::string, std::string>{
           {"certificate verify failed", "none of its CAs (tls_ca) signed"},
           {"house is not in peer certificate", "for another name (tls_server_name)"},
           {"tlsv13 alert certificate required", "wants a certificate of the client"},
           {"SSLV3_ALERT_BAD_CERTIFICATE", "refuses this client's certificate (tls_cert)"},
           {"tlsv1 alert unknown ca", "which none of its CAs signed"}}) {
    EXPECT_THAT(MeaningOf(words), HasSubstr(meaning));
    EXPECT_TRUE(MeansRefusal(words)) << words;
  }
  EXPECT_THAT(MeaningOf("recv: Connection reset by peer"), HasSubstr("it may want TLS"));
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
