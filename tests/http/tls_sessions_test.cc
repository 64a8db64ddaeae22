// What an operator puts in place of a certificate is read once, whether it is good or not.
#include "service/server/http/tls_sessions.h"

#include <malloc.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::http {
namespace {

using ::testing::HasSubstr;

TEST(TlsSessionsTest, WhatIsRefusedIsNotTriedAgain) {
  const TemporaryFolder folder;
  MakeCertificate(folder.path(), "one");
  MakeCertificate(folder.path(), "two");
  const auto identity_of = [&](const std::string& name) {
    const std::string path = folder.path() + "/" + name;
    return TlsIdentity{ReadText(path + ".crt"), ReadText(path + ".key"), ReadText(path + ".crt")};
  };
  TlsIdentity now = identity_of("one");
  const auto sessions = TlsSessions::Open([&now] { return now; });
  ASSERT_THAT(sessions, IsOk());
  EXPECT_EQ((*sessions)->num_kept(), 1U);
  // The certificate is good, and comes into use; the CA is not.
  now = identity_of("two");
  now.client_ca = "no CA";
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT((*sessions)->Refresh(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the CAs of clients")));
    EXPECT_EQ((*sessions)->num_kept(), 2U);
  }
  now = identity_of("two");
  EXPECT_THAT((*sessions)->Refresh(), IsOk());
  EXPECT_EQ((*sessions)->num_kept(), 2U);
}

// Whatever is replaced, refused or ended leaves nothing. (Where a sanitizer allocates, it looks for
// that by itself.)
TEST(TlsSessionsTest, WhatIsLetGoOfIsFreed) {
  const TemporaryFolder folder;
  std::vector<TlsIdentity> identities;
  for (const char* const name : {"one", "two"}) {
    MakeCertificate(folder.path(), name);
    const std::string path = folder.path() + "/" + name;
    identities.push_back(
        {ReadText(path + ".crt"), ReadText(path + ".key"), ReadText(path + ".crt")});
  }
  const auto use = [&](int times) {
    for (int i = 0; i < times; ++i) {
      TlsIdentity now = identities[0];
      const auto sessions = TlsSessions::Open([&now] { return now; });
      ASSERT_THAT(sessions, IsOk());
      now = identities[1];
      EXPECT_THAT((*sessions)->Refresh(), IsOk());
      now.key = now.client_ca = "none";
      EXPECT_FALSE((*sessions)->Refresh().ok());
    }
  };
  use(20);
  const size_t before = mallinfo2().uordblks;
  use(100);
  EXPECT_LT(mallinfo2().uordblks, before + 50 * 1024);
}

}  // namespace
}  // namespace packhouse::http
