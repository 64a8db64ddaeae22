// Signatures: only what was signed with the same key for the same purpose is good; the key lasts.
#include "service/access/security/hmac_signer.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {
namespace {

using ::testing::HasSubstr;

TEST(HmacSignerTest, TakesWhatItHasSignedAndNothingElse) {
  PH_ASSERT_OK_AND_ASSIGN(const HmacSigner signer, HmacSigner::Temporary());
  for (const std::string text : {"", "a", "team/a.b", "with.dots.", "xyz-_0"}) {
    const std::string good = signer.Sign("cursor", text);
    PH_ASSERT_OK_AND_ASSIGN(const std::string found, signer.Verify("cursor", good));
    EXPECT_EQ(found, text);
    EXPECT_EQ(signer.Verify("page", good).status().code(), absl::StatusCode::kInvalidArgument);
    for (size_t i = 0; i < good.size(); ++i) {
      std::string changed = good;
      changed[i] = changed[i] == 'A' ? 'B' : 'A';
      EXPECT_EQ(signer.Verify("cursor", changed).status().code(),
                absl::StatusCode::kInvalidArgument)
          << changed;
      EXPECT_EQ(signer.Verify("cursor", good.substr(0, i)).status().code(),
                absl::StatusCode::kInvalidArgument);
    }
    EXPECT_EQ(signer.Verify("cursor", good + "A").status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(std::string(signer.Verify("cursor", "abc").status().message()),
              HasSubstr("cursor: is not signed"));
  PH_ASSERT_OK_AND_ASSIGN(const HmacSigner other, HmacSigner::Temporary());
  EXPECT_THAT(std::string(other.Verify("cursor", signer.Sign("cursor", "a")).status().message()),
              HasSubstr("another server gave it"));
}

// As openssl computes it, with a key of zeros.
TEST(HmacSignerTest, IsHmacSha256OfPurposeAndText) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/key";
  WriteText(path, std::string(64, '0') + "\n");
  PH_ASSERT_OK_AND_ASSIGN(const HmacSigner signer, HmacSigner::OpenOrMake(path));
  // printf 'cursor\\0text' | openssl dgst -sha256 -mac HMAC -macopt hexkey:00...00
  EXPECT_EQ(signer.Sign("cursor", "text"), "text.JmLIZ-wsvQWJm_rHu-hdYA");
}

TEST(HmacSignerTest, TheKeyIsMadeOnceAndForItsOwnerAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/signing.key";
  PH_ASSERT_OK_AND_ASSIGN(const HmacSigner first, HmacSigner::OpenOrMake(path));
  struct stat made = {};
  ASSERT_EQ(::stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600);
  EXPECT_EQ(made.st_size, 65);
  PH_ASSERT_OK_AND_ASSIGN(const HmacSigner again, HmacSigner::OpenOrMake(path));
  EXPECT_TRUE(again.Verify("cursor", first.Sign("cursor", "x")).ok());
  EXPECT_THAT(HmacSigner::CheckKey(path), IsOk());
  EXPECT_EQ(HmacSigner::CheckKey(path + "s"),
            absl::NotFoundError(absl::StrCat("there is no '", path, "s'")));
  // Below what is no folder nothing is made, and nothing is missing.
  for (const absl::Status& status :
       {HmacSigner::CheckKey(path + "/x"), HmacSigner::OpenOrMake(path + "/x").status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr(absl::StrCat("cannot open '", path, "/x'"))));
  }
  for (const std::string& bad :
       {std::string(), std::string("12"), std::string("no key at all"), std::string(63, 'a'),
        std::string(65, 'a'), std::string(63, 'a') + "g"}) {
    WriteText(path, bad);
    const absl::Status status = HmacSigner::OpenOrMake(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

}  // namespace
}  // namespace packhouse::security
