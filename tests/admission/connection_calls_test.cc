// Connections with more calls than they may have are found, once each.
#include "service/server/calls/connection_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kA[] = "ipv4:10.0.0.1:1";
constexpr char kB[] = "ipv4:10.0.0.1:2";

class ConnectionCallsTest : public ::testing::Test {
 protected:
  // A call that has come and gone.
  void Make(const std::string& peer, bool with_request) {
    const auto call = calls_.Begin(peer);
    if (with_request) call->OnRequest();
  }

  SimulatedClock clock_;
  std::vector<std::string> ended_;
  absl::Status why_;
  ConnectionCalls calls_{&clock_,
                         {.most_open = 4, .most_wasted = 6},
                         [this](const std::string& connection, const absl::Status& why) {
                           ended_.push_back(connection);
                           why_ = why;
                         }};
};

TEST_F(ConnectionCallsTest, NamesAreTheClientsAddressWithItsPort) {
  EXPECT_EQ(ConnectionCalls::NameOf(kA), kA);
  EXPECT_EQ(ConnectionCalls::NameOf("ipv6:%5B::1%5D:4711"), "ipv6:[::1]:4711");
  EXPECT_EQ(ConnectionCalls::NameOf("ipv6:[fe80::1%2]:4711"),
            ConnectionCalls::NameOf("ipv6:%5Bfe80::1%252%5D:4711"));
  EXPECT_EQ(ConnectionCalls::NameOf("unix:/run/socket"), "");
  EXPECT_EQ(ConnectionCalls::NameOf("inproc"), "");
  EXPECT_EQ(calls_.Begin("unix:"), nullptr);
}

TEST_F(ConnectionCallsTest, BoundsCallsAtOnceOfEachConnection) {
  std::vector<std::shared_ptr<ConnectionCalls::Call>> open;
  for (int i = 0; i < 4; ++i) {
    open.push_back(calls_.Begin(kA));
    open.push_back(calls_.Begin(kB));
  }
  // One after another there may be any number.
  open.pop_back();
  for (int i = 0; i < 100; ++i) Make(kB, /*with_request=*/true);
  EXPECT_THAT(ended_, IsEmpty());
  open.push_back(calls_.Begin(kA));
  open.push_back(calls_.Begin(kA));
  EXPECT_THAT(ended_, ElementsAre(kA));
  EXPECT_THAT(why_, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4 calls at once")));
}

TEST_F(ConnectionCallsTest, BoundsCallsWithoutRequestsWithinASecond) {
  for (int second = 0; second < 20; ++second) {
    for (int i = 0; i < 6; ++i) Make(kA, /*with_request=*/false);
    for (int i = 0; i < 50; ++i) Make(kA, /*with_request=*/true);
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_THAT(ended_, IsEmpty());
  for (int i = 0; i < 20; ++i) Make(kA, /*with_request=*/false);
  EXPECT_THAT(ended_, ElementsAre(kA));
  EXPECT_THAT(why_,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("6 calls within a second")));
}

// A port that another connection gets later begins anew.
TEST_F(ConnectionCallsTest, QuietConnectionsAreForgotten) {
  for (int i = 0; i < 7; ++i) Make(kA, /*with_request=*/false);
  EXPECT_THAT(ended_, ElementsAre(kA));
  clock_.Advance(absl::Seconds(11));
  Make(kB, /*with_request=*/false);
  for (int i = 0; i < 7; ++i) Make(kA, /*with_request=*/false);
  EXPECT_THAT(ended_, ElementsAre(kA, kA));
}

}  // namespace
}  // namespace packhouse
