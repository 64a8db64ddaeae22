// What is remembered of a producer: a repetition is known, and never taken for what it is not.
#include "service/base/producer.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

TEST(CheckProducerTest, TakesWhatIsWithinTheBounds) {
  const std::string longest(ProducerSequence::kMaxNameLength, 'p');
  struct Case {
    std::string name;
    uint64_t sequence;
    absl::Duration forget_after;
    std::string refused;  // Empty: it is taken.
  };
  for (const Case& each : std::vector<Case>{
           {"p", 1, absl::InfiniteDuration(), ""},
           {longest, UINT64_MAX, absl::InfiniteDuration(), ""},
           {"p", 1, absl::ZeroDuration(), ""},
           {"p", 1, ProducerSequence::kMaxForgetAfter, ""},
           {"", 1, absl::InfiniteDuration(), "a name of 0 characters, must be 1 to 128"},
           {longest + "p", 1, absl::InfiniteDuration(), "a name of 129 characters"},
           {"p", 0, absl::InfiniteDuration(), "producer 'p': sequence 0"},
           {"p", 1, -absl::Nanoseconds(1), "forget_after -1ns"},
           {"p", 1, -absl::InfiniteDuration(), "forget_after -inf"},
           {"p", 1, ProducerSequence::kMaxForgetAfter + absl::Seconds(1), "must be 0 to 720h"},
       }) {
    ProducerSequence producer = {each.name, each.sequence};
    producer.forget_after = each.forget_after;
    if (each.refused.empty()) {
      EXPECT_THAT(CheckProducer(producer), IsOk()) << each.sequence;
    } else {
      EXPECT_THAT(CheckProducer(producer),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(each.refused)));
    }
  }
}

// Against a map of all that was ever taken.
TEST(ProducerHistoryTest, KnowsItsLastNumbers) {
  constexpr size_t kMost = 8;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    ProducerHistory history;
    std::map<uint64_t, uint32_t> taken;
    uint64_t first = 0;  // That was ever taken.
    for (int step = 0; step < 40; ++step) {
      const uint64_t last = history.last();
      const uint64_t number = last + random.Between(1, random.Below(4) == 0 ? 12 : 2);
      // Digest 0 is one like any other.
      const auto digest = static_cast<uint32_t>(random.Below(3));
      EXPECT_THAT(history.IsRepetition("set", {"p", number}, digest), IsOkAndHolds(false));
      history.Add({"p", number}, digest, kMost);
      taken[number] = digest;
      // All that is remembered follows each other: a gap that is too wide begins it anew.
      if (first == 0 || number - last >= kMost) first = number;
      EXPECT_EQ(history.last(), number);
      const uint64_t oldest = std::max(first, number < kMost ? 1 : number - kMost + 1);
      EXPECT_EQ(history.first_remembered(), oldest);
      for (uint64_t old = number < 12 ? 1 : number - 12; old <= number; ++old) {
        for (const uint32_t with : {0, 1, 2}) {
          const auto again = history.IsRepetition("set", {"p", old}, with);
          const auto refused = [&](const std::string& why) {
            return StatusIs(
                absl::StatusCode::kAlreadyExists,
                HasSubstr(absl::StrCat("set: sequence ", old, " of producer 'p' ", why)));
          };
          if (old < oldest) {
            EXPECT_THAT(again,
                        refused(absl::StrCat("is older than the last ", number - oldest + 1)));
          } else if (!taken.contains(old)) {
            EXPECT_THAT(again, refused("was left out"));
          } else if (std::max<uint32_t>(taken[old], 1) == std::max<uint32_t>(with, 1)) {
            EXPECT_THAT(again, IsOkAndHolds(true));
          } else {
            EXPECT_THAT(again, refused("was stored with other content before"));
          }
        }
      }
      EXPECT_THAT(history.IsRepetition("set", {"p", number}, 7),
                  StatusIs(absl::StatusCode::kAlreadyExists,
                           HasSubstr(absl::StrCat("; its next one is ", number + 1))));
    }
  }
}

// A made-up name is forgotten when its time is over, in whole seconds and never before.
TEST(ProducerHistoryTest, AMadeUpNameIsForgottenInItsTime) {
  ProducerHistory history;
  EXPECT_TRUE(history.is_named());
  EXPECT_FALSE(history.IsOver(absl::InfiniteFuture()));
  ProducerSequence request = {"p", 1};
  request.forget_after = absl::Seconds(10);
  for (const auto& [now, forget] :
       std::vector<std::pair<absl::Time, uint64_t>>{{absl::FromUnixSeconds(100), 110},
                                                    {absl::FromUnixMillis(100'001), 111},
                                                    {absl::FromUnixMillis(100'999), 111},
                                                    {absl::FromUnixSeconds(-1000), 1}}) {
    request.now = now;
    history.Add(request, 1, 8);
    ++request.sequence;
    EXPECT_FALSE(history.is_named());
    EXPECT_EQ(history.forget_seconds(), forget);
    EXPECT_FALSE(history.IsOver(absl::FromUnixSeconds(static_cast<int64_t>(forget))));
    EXPECT_TRUE(history.IsOver(absl::FromUnixMillis(static_cast<int64_t>(forget) * 1000 + 1)));
  }
  // It may become one that lasts.
  request.forget_after = absl::InfiniteDuration();
  history.Add(request, 1, 8);
  EXPECT_TRUE(history.is_named());
  EXPECT_FALSE(history.IsOver(absl::InfiniteFuture()));
}

}  // namespace
}  // namespace packhouse
