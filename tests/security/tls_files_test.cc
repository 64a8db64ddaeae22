// Certificates on the disk: what is taken, what is refused, and what stays when a file breaks.
#include "service/security/tls_files.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/security/small_file.h"
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

}  // namespace
}  // namespace packhouse::security
