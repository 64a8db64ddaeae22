#include "service/access/client_identity.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

// Ports tell connections apart, not clients.
TEST(PeerAddressIdentityTest, IsTheHostsAddress) {
  const PeerAddressIdentity identity;
  EXPECT_EQ(identity.Of("ipv4:10.1.2.3:4711"), "10.1.2.3");
  EXPECT_EQ(identity.Of("ipv4:10.1.2.3:1"), "10.1.2.3");
  EXPECT_EQ(identity.Of("ipv6:[::1]:4711"), "::1");
  EXPECT_EQ(identity.Of("ipv6:%5Bfe80::2%25eth0%5D:4711"), "fe80::2%eth0");
  for (const char* const odd : {"", "::1", "[::1"}) {
    EXPECT_EQ(identity.Of(absl::StrCat("ipv6:", odd)), odd);
  }
  EXPECT_EQ(identity.Of("unix:"), "unix");
  EXPECT_EQ(identity.Of("unix:/run/packhouse"), "unix");
  EXPECT_EQ(identity.Of("inproc"), "in-process");
  EXPECT_EQ(identity.Of(""), "in-process");
}

}  // namespace
}  // namespace packhouse
