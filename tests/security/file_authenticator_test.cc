// Who a call comes from: certificates, tokens, both, neither, and files that change.
#include "service/access/security/file_authenticator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/security/jwt_issuer.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {
namespace {

using ::testing::HasSubstr;

class FileAuthenticatorTest : public ::testing::Test {
 protected:
  FileAuthenticatorTest() { Write("alice", "a-token"); }

  void Write(const std::string& who, const std::string& token) const {
    WriteText(path_, absl::StrCat(who, " ", HashOfToken(token), "\n"));
  }
  std::unique_ptr<FileAuthenticator> Open(bool takes_tokens, bool takes_certificates) const {
    FileAuthenticator::Options options;
    if (takes_tokens) options.token_file = path_;
    options.takes_certificates = takes_certificates;
    return *FileAuthenticator::Open(options, [] { return absl::UnixEpoch(); });
  }
  // The principal, or why not.
  static std::string Ask(const FileAuthenticator& authenticator, const std::string& authorization,
                         const std::vector<std::string>& certificate = {}) {
    CallCredentials call{
        "ipv4:10.0.0.1:1", !certificate.empty(), certificate, authorization, "", ""};
    const auto principal = authenticator.Authenticate(call);
    if (principal.ok()) return *principal;
    EXPECT_EQ(principal.status().code(), absl::StatusCode::kUnauthenticated);
    return std::string(principal.status().message());
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/tokens";
};

TEST_F(FileAuthenticatorTest, NobodyIsAskedWhereThereIsNothingToShow) {
  const auto open = Open(false, false);
  EXPECT_EQ(Ask(*open, ""), "");
  EXPECT_EQ(Ask(*open, "Bearer whatever"), "");
}

TEST_F(FileAuthenticatorTest, ATokenOrACertificate) {
  const auto both = Open(true, true);
  EXPECT_EQ(Ask(*both, "Bearer a-token"), "alice");
  EXPECT_EQ(Ask(*both, "bearer a-token", {"spiffe://x/y", "host"}), "alice");
  EXPECT_EQ(Ask(*both, "", {"spiffe://x/y", "host"}), "spiffe://x/y");
  EXPECT_THAT(Ask(*both, ""), HasSubstr("no certificate and no bearer token"));
  // A bad token is not made good by a certificate.
  EXPECT_THAT(Ask(*both, "Bearer b", {"host"}), HasSubstr("not one that it knows"));
  EXPECT_THAT(Ask(*both, "", {"a name with blanks"}), HasSubstr("no subject alternative name"));

  EXPECT_THAT(both->Authenticate({"ipv4:10.0.0.1:1", true, {}, "", "", ""}).status(),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       HasSubstr("no subject alternative name of a URI")));

  const auto tokens = Open(true, false);
  EXPECT_EQ(tokens->tokens()->note(), "");
  EXPECT_THAT(Ask(*tokens, ""), HasSubstr("it has shown no bearer token"));
  for (const std::string& wrong :
       {std::string("a-token"), std::string("Basic a-token"), std::string("Bearer"),
        std::string("Bearer "), std::string("Bearer  a-token"), std::string("Bearer a-token "),
        absl::StrCat("Bearer ", std::string(20'000, 'x'))}) {
    EXPECT_THAT(Ask(*tokens, wrong), HasSubstr("the server refuses the"));
  }
  const std::string longest(16384, 'x');
  EXPECT_THAT(Ask(*tokens, "Bearer " + longest), HasSubstr("not one that it knows"));
  EXPECT_THAT(Ask(*tokens, "Bearer " + longest + "x"),
              HasSubstr("it has 16385 bytes, not 1 to 16384"));
  // A certificate is no token.
  EXPECT_EQ(Ask(*tokens, "", {"host"}), "host");
  const auto certificates = Open(false, true);
  EXPECT_THAT(Ask(*certificates, ""), HasSubstr("it has shown no certificate"));
}

// A server does not begin with files that it cannot use.
TEST_F(FileAuthenticatorTest, NothingBeginsWithAFileThatIsNone) {
  for (const bool is_missing : {true, false}) {
    const std::string path = is_missing ? folder_.path() + "/none" : path_;
    WriteText(path_, "nonsense");
    FileAuthenticator::Options tokens;
    tokens.token_file = path;
    FileAuthenticator::Options keys;
    keys.jwks_file = path;
    for (const FileAuthenticator::Options& options : {tokens, keys}) {
      EXPECT_THAT(
          FileAuthenticator::Open(options, [] { return absl::UnixEpoch(); }),
          StatusIs(is_missing ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                   HasSubstr(path)));
    }
  }
}

TEST_F(FileAuthenticatorTest, TokensAreExchangedWhileItRuns) {
  const auto tokens = Open(true, false);
  Write("bob", "b-token");
  EXPECT_EQ(Ask(*tokens, "Bearer a-token"), "alice");
  EXPECT_TRUE(*tokens->tokens()->Reload());
  EXPECT_FALSE(*tokens->tokens()->Reload());
  EXPECT_EQ(Ask(*tokens, "Bearer b-token"), "bob");
  EXPECT_THAT(Ask(*tokens, "Bearer a-token"), HasSubstr("refuses the token"));
  // As it is when somebody begins to write it.
  WriteText(path_, "");
  EXPECT_FALSE(tokens->tokens()->Reload().ok());
  EXPECT_EQ(Ask(*tokens, "Bearer b-token"), "bob");
  // Half of it.
  Write("carol", "c-token");
  EXPECT_FALSE(*tokens->tokens()->Look());
  EXPECT_FALSE(tokens->tokens()->is_at_rest());
  EXPECT_EQ(Ask(*tokens, "Bearer b-token"), "bob");
  Write("bob", "b-token");
  EXPECT_FALSE(*tokens->tokens()->Look());
  WriteText(path_, "carol nothing");
  EXPECT_THAT(std::string(tokens->tokens()->Reload().status().message()), HasSubstr("line 1"));
  EXPECT_EQ(Ask(*tokens, "Bearer b-token"), "bob");
}

TEST_F(FileAuthenticatorTest, KeysOfAnIssuerAreExchangedWhileItRuns) {
  const Signer first = MakeKey(folder_, "a.pem", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
  const Signer second = MakeKey(folder_, "b.pem", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
  const auto write = [&](const Signer& signer) {
    WriteText(path_, nlohmann::json{{"keys", {EcJwk(signer, "key")}}}.dump());
  };
  write(first);
  absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  FileAuthenticator::Options options;
  options.jwks_file = path_;
  options.jwt.audience = "packhouse";
  PH_ASSERT_OK_AND_ASSIGN(const auto keys,
                          FileAuthenticator::Open(options, [&now] { return now; }));
  const auto bearer = [&](const Signer& signer) {
    return "Bearer " + Signed(signer.pem, JWT_ALG_ES256, "key", GoodClaims(now));
  };
  const std::string of_first = bearer(first);
  const std::string of_second = bearer(second);
  const std::string subject = "system:serviceaccount:ml:train";
  // The second time it is a known one.
  EXPECT_EQ(Ask(*keys, of_first), subject);
  EXPECT_EQ(Ask(*keys, of_first), subject);
  EXPECT_THAT(Ask(*keys, of_second), HasSubstr("signature"));

  EXPECT_EQ(keys->keys()->note(), "");

  write(second);
  EXPECT_FALSE(*keys->keys()->Look());
  EXPECT_EQ(Ask(*keys, of_first), subject) << "before the file is read again";
  EXPECT_TRUE(*keys->keys()->Reload());
  EXPECT_FALSE(*keys->keys()->Reload());
  EXPECT_THAT(Ask(*keys, of_first), HasSubstr("signature")) << "although it was known";
  EXPECT_EQ(Ask(*keys, of_second), subject);

  for (const char* const broken : {"", "{\"keys\":[", "{\"keys\":[]}"}) {
    WriteText(path_, broken);
    EXPECT_FALSE(keys->keys()->Reload().ok());
    EXPECT_FALSE(keys->keys()->is_at_rest());
    EXPECT_FALSE(keys->keys()->Look().ok());
    EXPECT_TRUE(keys->keys()->is_at_rest());
    EXPECT_EQ(Ask(*keys, of_second), subject);
    EXPECT_EQ(Ask(*keys, bearer(second)), subject);
  }
  now += absl::Hours(1) + absl::Minutes(1);
  EXPECT_THAT(Ask(*keys, of_second), HasSubstr("it has expired")) << "although it was known";
  WriteText(path_, nlohmann::json{{"keys", {EcJwk(second, "key"), 7}}}.dump());
  EXPECT_TRUE(*keys->keys()->Reload());
  EXPECT_EQ(keys->keys()->note(), "left out: key 2 '': it is no object");
}

}  // namespace
}  // namespace packhouse::security
