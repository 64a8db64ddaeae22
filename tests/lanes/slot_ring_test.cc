#include "service/server/lanes/slot_ring.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

std::string Words(const std::vector<uint32_t>& slots) {
  return std::string(reinterpret_cast<const char*>(slots.data()), slots.size() * sizeof(uint32_t));
}

TEST(SlotRingTest, RefusesWhatTheClientCannotSay) {
  SlotRing ring(3);
  ASSERT_EQ(ring.Take(), 0U);
  ASSERT_EQ(ring.Take(), 1U);
  ring.Send(0);
  const auto refused = [&](const std::string& message, const char* why) {
    EXPECT_THAT(ring.Release(message),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused("", "0 bytes");
  refused("abc", "3 bytes");
  refused(Words({0, 0, 0, 0}), "16 bytes");
  refused(Words({3}), "slot 3, there are 3");
  refused(Words({UINT32_MAX}), "slot 4294967295, there are 3");
  // The server's, and nobody's.
  refused(Words({1}), "slot 1, which the client does not have");
  refused(Words({2}), "slot 2, which the client does not have");
  EXPECT_EQ(ring.num_sent(), 1U);
  EXPECT_THAT(ring.TakeBack(1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot 1 of 3")));
  EXPECT_THAT(ring.TakeBack(3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot 3 of 3")));
  // Twice: the first counts.
  refused(Words({0, 0}), "slot 0, which the client does not have");
  EXPECT_EQ(ring.num_sent(), 0U);
  EXPECT_EQ(ring.num_free(), 2U);
}

// Against a list of owners: no slot is lost, and none has two owners.
TEST(SlotRingTest, EverySlotHasOneOwner) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto num_slots = static_cast<uint32_t>(random.Between(1, 16));
    SlotRing ring(num_slots);
    std::vector<char> owners(num_slots, 'f');
    const auto count = [&](char owner) {
      return static_cast<uint32_t>(std::count(owners.begin(), owners.end(), owner));
    };
    for (int step = 0; step < 200; ++step) {
      const auto slot = static_cast<uint32_t>(random.Below(num_slots));
      switch (random.Below(4)) {
        case 0:
          if (const auto taken = ring.Take()) {
            ASSERT_EQ(owners[*taken], 'f');
            owners[*taken] = 's';
          } else {
            ASSERT_EQ(count('f'), 0U);
          }
          break;
        case 1:
          if (owners[slot] != 's') break;
          if (random.Below(4) == 0) {
            ring.GiveBack(slot);
            owners[slot] = 'f';
          } else {
            ring.Send(slot);
            owners[slot] = 'c';
          }
          break;
        case 2:
          ASSERT_EQ(ring.TakeBack(slot).ok(), owners[slot] == 'c');
          if (owners[slot] == 'c') owners[slot] = 's';
          break;
        default:
          ASSERT_EQ(ring.Release(Words({slot})).ok(), owners[slot] == 'c');
          if (owners[slot] == 'c') owners[slot] = 'f';
      }
      ASSERT_EQ(ring.num_free(), count('f'));
      ASSERT_EQ(ring.num_sent(), count('c'));
    }
  }
}

}  // namespace
}  // namespace packhouse
