// Certificates on the disk: what is taken, what is refused, and what stays when a file breaks.
#include "service/access/security/tls_files.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/security/security_files.h"
#include "service/access/security/small_file.h"
#include "service/base/event_log.h"
#include "tests/security/jwt_issuer.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {
namespace {

using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() {
    MakeCertificate(folder_.path(), "a");
    MakeCertificate(folder_.path(), "b");
    Use("a", "a");
    WriteText(paths_.client_ca, ReadText(At("b.crt")));
  }

  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }
  void Use(const std::string& certificate, const std::string& key) const {
    WriteText(paths_.certificate, ReadText(At(certificate + ".crt")));
    WriteText(paths_.key, ReadText(At(key + ".key")));
  }
  void ExpectRefused(absl::string_view file, absl::string_view why) const {
    const absl::Status status = ReadTlsFiles(paths_, now_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(file)));
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(why)));
  }

  const TemporaryFolder folder_;
  const TlsPaths paths_{At("server.crt"), At("server.key"), At("clients.crt")};
  absl::Time now_ = absl::Now();
};

TEST_F(TlsFilesTest, GoodFilesAreTaken) {
  PH_ASSERT_OK_AND_ASSIGN(const TlsMaterial material, ReadTlsFiles(paths_, now_));
  EXPECT_EQ(material.certificate, ReadText(At("a.crt")));
  EXPECT_GT(material.expires, now_ + absl::Hours(9 * 24));
  EXPECT_LT(material.expires, now_ + absl::Hours(11 * 24));
}

TEST_F(TlsFilesTest, EachWayToBeWrongIsNamed) {
  Use("a", "b");
  ExpectRefused("server.key", "is not the key of the first certificate");
  Use("a", "a");
  now_ += absl::Hours(24 * 11);
  ExpectRefused("server.crt", "has expired at");
  now_ -= absl::Hours(24 * 11);
  WriteText(paths_.key, "nonsense");
  ExpectRefused("server.key", "has no private key");
  Openssl(absl::StrCat("ec -aes256 -passout pass:x -in ", At("a.key"), " -out ", paths_.key));
  ExpectRefused("server.key", "without a pass phrase");
  Use("a", "a");
  WriteText(paths_.certificate, "");
  ExpectRefused("server.crt", "has no certificate");
  const std::string whole = ReadText(At("a.crt"));
  WriteText(paths_.certificate, absl::StrCat(whole, whole.substr(0, whole.size() / 2)));
  ExpectRefused("server.crt", "broken certificate");
  Use("a", "a");
  WriteText(paths_.client_ca, "# none yet\n");
  ExpectRefused("clients.crt", "has no certificate");
  std::filesystem::remove(paths_.client_ca);
  EXPECT_EQ(ReadTlsFiles(paths_, now_).status().code(), absl::StatusCode::kNotFound);
}

// Whatever the order of the ends in a chain, the first one counts: clients refuse from then on.
TEST_F(TlsFilesTest, TheFirstEndOfAChainCounts) {
  MakeCertificate(folder_.path(), "mid", /*days=*/3);
  MakeCertificate(folder_.path(), "top", /*days=*/30);
  for (const auto& [chain, days] : {std::pair(std::vector<std::string>{"a"}, 10),
                                    std::pair(std::vector<std::string>{"a", "mid"}, 3),
                                    std::pair(std::vector<std::string>{"a", "mid", "top"}, 3),
                                    std::pair(std::vector<std::string>{"a", "top", "mid"}, 3),
                                    std::pair(std::vector<std::string>{"a", "top"}, 10)}) {
    std::string pem;
    for (const std::string& each : chain) pem += ReadText(At(each + ".crt"));
    WriteText(paths_.certificate, pem);
    PH_ASSERT_OK_AND_ASSIGN(const TlsMaterial material, ReadTlsFiles(paths_, now_));
    EXPECT_NEAR(absl::ToDoubleHours(material.expires - now_) / 24, days, 0.1) << chain.back();
    EXPECT_NEAR(absl::ToDoubleHours(material.begins - now_), 0, 0.1);
  }
  WriteText(paths_.certificate, ReadText(At("a.crt")) + ReadText(At("mid.crt")));
  now_ += absl::Hours(24 * 4);
  ExpectRefused("server.crt", "for '/CN=mid', that has expired at");
  Use("a", "a");
  EXPECT_THAT(ReadTlsFiles(paths_, now_), IsOk());
  now_ -= absl::Hours(24 * 5);
  ExpectRefused("server.crt", "that is not valid before");
  // One that was just made, by a clock that is not late by much.
  const absl::Time begins = ReadTlsFiles(paths_, absl::Now())->begins;
  now_ = begins - absl::Minutes(5);
  EXPECT_THAT(ReadTlsFiles(paths_, now_), IsOk());
  now_ -= absl::Seconds(1);
  ExpectRefused("server.crt", "that is not valid before");
  const absl::Time expires = ReadTlsFiles(paths_, begins)->expires;
  now_ = expires - absl::Seconds(1);
  EXPECT_THAT(ReadTlsFiles(paths_, now_), IsOk());
  now_ = expires;
  ExpectRefused("server.crt", "has expired at");
}

TEST_F(TlsFilesTest, CasOfClientsThatHaveExpiredAreNamed) {
  MakeCertificate(folder_.path(), "old", /*days=*/2);
  const std::string old = ReadText(At("old.crt"));
  WriteText(paths_.client_ca, old + ReadText(At("b.crt")));
  EXPECT_EQ(ReadTlsFiles(paths_, now_)->note, "");
  now_ += absl::Hours(24 * 3);
  PH_ASSERT_OK_AND_ASSIGN(const TlsMaterial material, ReadTlsFiles(paths_, now_));
  EXPECT_THAT(material.note, HasSubstr("the CA of clients '/CN=old' has expired at"));
  WriteText(paths_.client_ca, old);
  ExpectRefused("clients.crt", "has no CA that is good: the CA of clients '/CN=old'");
  // Each of several is named.
  MakeCertificate(folder_.path(), "older", /*days=*/1);
  WriteText(paths_.client_ca, old + ReadText(At("older.crt")) + ReadText(At("b.crt")));
  EXPECT_THAT(ReadTlsFiles(paths_, now_)->note, HasSubstr("; the CA of clients '/CN=older'"));
}

TEST_F(TlsFilesTest, WithoutACaThereAreNoRootsAndTheOthersMustBeThere) {
  const TlsPaths paths{paths_.certificate, paths_.key, ""};
  const auto open = [&] { return TlsFiles::Open(paths, [this] { return now_; }); };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto files, open());
    EXPECT_EQ(files->roots_path(), "");
    EXPECT_EQ(files->material().client_ca, "");
    EXPECT_EQ(files->begins(), files->material().begins);
    EXPECT_EQ(files->expires(), files->material().expires);
    EXPECT_LT(files->begins(), now_ + absl::Minutes(5));
    EXPECT_LT(files->expires(), absl::InfiniteFuture());
    // The same key, written otherwise.
    const std::string key = ReadText(paths_.key) + "\n";
    WriteText(paths_.key, key);
    EXPECT_TRUE(*files->Reload());
    EXPECT_EQ(*ReadSmallFile(files->identity_path()), key + "\n" + ReadText(paths_.certificate));
  }
  for (const std::string& path : {paths_.certificate, paths_.key}) {
    const std::string sound = ReadText(path);
    std::filesystem::remove(path);
    const auto is_missing =
        StatusIs(absl::StatusCode::kNotFound, HasSubstr(absl::StrCat("cannot open '", path, "'")));
    EXPECT_THAT(ReadTlsFiles(paths, now_).status(), is_missing);
    EXPECT_THAT(open().status(), is_missing);
    WriteText(path, sound);
  }
}

// A chain that is being written is good as soon as its first certificate is there.
TEST_F(TlsFilesTest, WhatIsBeingWrittenInPlaceChangesNothing) {
  PH_ASSERT_OK_AND_ASSIGN(const auto files, TlsFiles::Open(paths_, [this] { return now_; }));
  const std::string before = files->material().certificate;
  const std::string whole = before + ReadText(At("b.crt"));
  for (size_t size = 0; size < whole.size(); size += 16) {
    WriteText(paths_.certificate, whole.substr(0, size));
    files->Look().IgnoreError();
    ASSERT_EQ(files->material().certificate, before);
  }
  WriteText(paths_.certificate, whole);
  EXPECT_FALSE(*files->Look());
  EXPECT_FALSE(files->is_at_rest());
  EXPECT_TRUE(*files->Look());
  EXPECT_TRUE(files->is_at_rest());
  EXPECT_EQ(files->material().certificate, whole);
}

// What gRPC watches is always whole and good.
TEST_F(TlsFilesTest, WhatIsOfferedIsTheLastGoodMaterial) {
  PH_ASSERT_OK_AND_ASSIGN(const auto files, TlsFiles::Open(paths_, [this] { return now_; }));
  const std::string identity = files->identity_path();
  const std::string first = ReadText(At("a.key")) + "\n" + ReadText(At("a.crt"));
  EXPECT_EQ(*ReadSmallFile(identity), first);
  EXPECT_EQ(*ReadSmallFile(files->roots_path()), ReadText(At("b.crt")));
  EXPECT_FALSE(*files->Reload());

  Use("b", "a");  // Between the two steps of a renewal.
  EXPECT_EQ(files->Reload().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*ReadSmallFile(identity), first);
  EXPECT_EQ(files->material().certificate, ReadText(At("a.crt")));

  Use("b", "b");
  EXPECT_TRUE(*files->Reload());
  EXPECT_EQ(files->identity_path(), identity);
  EXPECT_EQ(*ReadSmallFile(identity), ReadText(At("b.key")) + "\n" + ReadText(At("b.crt")));
  WriteText(paths_.client_ca, ReadText(At("a.crt")));
  EXPECT_TRUE(*files->Reload());
  EXPECT_EQ(*ReadSmallFile(files->roots_path()), ReadText(At("a.crt")));
}

// What cannot be kept in memory is not in use, and what was in use is as it was.
TEST_F(TlsFilesTest, WithoutMemoryEverythingStaysAsItWas) {
  const auto open = [this] { return TlsFiles::Open(paths_, [this] { return now_; }); };
  PH_ASSERT_OK_AND_ASSIGN(const auto files, open());
  const std::string identity = ReadText(At("a.key")) + "\n" + ReadText(At("a.crt"));
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_signal = std::signal(SIGXFSZ, SIG_IGN);
  const auto with_bytes = [&before](rlim_t bytes, const auto& attempt) {
    const struct rlimit few = {bytes, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
    const absl::Status status = attempt();
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    return status;
  };
  const auto are_not_kept = [](const std::string& bytes) {
    return StatusIs(absl::StatusCode::kResourceExhausted,
                    absl::StrCat("cannot keep ", bytes.size(), " bytes of certificates in memory"));
  };
  const std::string roots = ReadText(At("b.crt"));
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{10}}) {
    EXPECT_THAT(with_bytes(bytes, [&] { return open().status(); }), are_not_kept(identity));
    for (const bool is_of_roots : {false, true}) {
      Use(is_of_roots ? "a" : "b", is_of_roots ? "a" : "b");
      WriteText(paths_.client_ca, is_of_roots ? ReadText(At("a.crt")) : roots);
      const std::string wanted = is_of_roots ? ReadText(At("a.crt"))
                                             : ReadText(At("b.key")) + "\n" + ReadText(At("b.crt"));
      EXPECT_THAT(with_bytes(bytes, [&] { return files->Reload().status(); }),
                  are_not_kept(wanted));
      EXPECT_EQ(*ReadSmallFile(files->identity_path()), identity);
      EXPECT_EQ(*ReadSmallFile(files->roots_path()), roots);
      EXPECT_EQ(files->material().certificate, ReadText(At("a.crt")));
      EXPECT_EQ(files->material().client_ca, roots);
    }
  }
  std::signal(SIGXFSZ, old_signal);
  EXPECT_TRUE(*files->Reload());
  EXPECT_EQ(*ReadSmallFile(files->roots_path()), ReadText(At("a.crt")));
}

// All files together: each that is named is opened, watched and in use; none that is missing is.
TEST_F(TlsFilesTest, AllFilesOfSecurityAreOpenedTogether) {
  SilentLog log;
  WriteText(At("tokens"), absl::StrCat("alice ", HashOfToken("a-token"), "\n"));
  WriteText(At("policy"),
            "version: 1\nroles: [{role: admin, principals: [alice], "
            "namespaces: [\"*\"]}]\n");
  const Signer signer =
      MakeKey(folder_, "jwt.pem", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
  WriteText(At("jwks"), nlohmann::json{{"keys", {EcJwk(signer, "key")}}}.dump());
  const auto names_of = [](const SecurityFiles& files) {
    std::vector<std::string> names;
    for (const Reloader::Reading& reading : files.readings()) names.push_back(reading.name);
    return names;
  };
  const auto now = [this] { return now_; };
  PH_ASSERT_OK_AND_ASSIGN(const auto none, SecurityFiles::Open({}, now, &log));
  EXPECT_THAT(names_of(*none), ::testing::IsEmpty());
  EXPECT_EQ(none->tls(), nullptr);
  EXPECT_EQ(none->authorizer(), nullptr);
  EXPECT_EQ(none->authenticator()->Authenticate({}).value(), "");

  SecurityOptions options;
  options.tls = paths_;
  options.callers.token_file = At("tokens");
  options.callers.jwks_file = At("jwks");
  options.policy = At("policy");
  PH_ASSERT_OK_AND_ASSIGN(const auto all, SecurityFiles::Open(options, now, &log));
  EXPECT_THAT(names_of(*all),
              ::testing::ElementsAre("certificates", "tokens", "jwt keys", "policy"));
  ASSERT_NE(all->tls(), nullptr);
  EXPECT_EQ(all->tls()->material().client_ca, ReadText(At("b.crt")));
  ASSERT_NE(all->authorizer(), nullptr);
  EXPECT_TRUE(all->authorizer()->policy()->Allows("alice", Right::kAdminister, "x"));
  const auto shown_none = [](const SecurityFiles& files) {
    return std::string(files.authenticator()->Authenticate({}).status().message());
  };
  EXPECT_EQ(shown_none(*all),
            "the server refuses the call: it has shown no certificate and no bearer token");
  // Clients' certificates are asked for where there is a CA for them.
  SecurityOptions without_ca = options;
  without_ca.tls.client_ca = "";
  PH_ASSERT_OK_AND_ASSIGN(const auto tokens, SecurityFiles::Open(without_ca, now, &log));
  EXPECT_EQ(shown_none(*tokens), "the server refuses the call: it has shown no bearer token");
  for (std::string* const path : {&options.tls.certificate, &options.callers.token_file,
                                  &options.callers.jwks_file, &options.policy}) {
    const std::string there = std::exchange(*path, At("none"));
    EXPECT_THAT(SecurityFiles::Open(options, now, &log).status(),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("none"))));
    *path = there;
  }
}

}  // namespace
}  // namespace packhouse::security
