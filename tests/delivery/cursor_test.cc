#include "service/engine/jobs/cursor.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Cursor RandomCursor(Random& random) {
  Cursor cursor;
  cursor.identity = IdentityOf({random.Below(100), random.Below(100)}, random.Next());
  cursor.identity.options = std::string(random.Below(9), 'x');
  cursor.generation = random.Next() >> random.Below(64);
  const uint64_t batches = cursor.identity.num_batches();
  for (uint64_t i = random.Below(batches + 1); i != 0; --i) {
    cursor.done.Insert(random.Below(batches));
  }
  return cursor;
}

TEST(CursorTest, RoundTrip) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Cursor cursor = RandomCursor(random);
    PH_ASSERT_OK_AND_ASSIGN(const Cursor back, DecodeCursor(EncodeCursor(cursor)));
    EXPECT_EQ(back, cursor);
  }
}

TEST(CursorTest, IsSmallAndSafeInAUrl) {
  Cursor cursor = {IdentityOf({1'600'000}), 1, {}};
  cursor.done.InsertRun({0, 800'000});
  for (uint64_t batch = 800'001; batch < 800'032; batch += 2) cursor.done.Insert(batch);
  const std::string text = EncodeCursor(cursor);
  EXPECT_LT(text.size(), 160U);
  EXPECT_EQ(
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
      std::string::npos);
}

// One byte changed, cut off or added: never a crash, never another cursor.
TEST(CursorTest, EveryChangeIsNoticed) {
  Random random(1);
  const std::string text = EncodeCursor(RandomCursor(random));
  std::string bytes;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(text, &bytes));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_THAT(DecodeCursor(absl::WebSafeBase64Escape(changed)),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cursor: ")));
    }
    EXPECT_THAT(DecodeCursor(absl::WebSafeBase64Escape(bytes.substr(0, i))),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cursor: ")));
  }
  EXPECT_THAT(DecodeCursor(absl::WebSafeBase64Escape(bytes + "x")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("checksum")));
  EXPECT_THAT(DecodeCursor("no cursor!"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("base64url")));
}

// Trainers keep cursors over upgrades: the present format is this text, until there is a next one.
TEST(CursorTest, WritesThisText) {
  EpochIdentity identity = {{"train", 3}, "molecules", 16835670768039788211U, 3, {}, {}};
  identity.rank_groups = {{{9, 12, 3}, 0, 6}};
  identity.options = "(9, 12, 3); shuffled";
  const Cursor cursor = {identity, 2, BatchSet::Of({0, 2, 3})};
  const std::string text =
      "CkUKCQoFdHJhaW4QAxIJbW9sZWN1bGVzGbN-cERdUaTpIAMqAQMyAQA6AQZCAwoNBEoUKDksIDEyLCAzKTsgc2h1ZmZs"
      "ZWQQAhoEAAEBAvEmvNc";
  EXPECT_EQ(EncodeCursor(cursor), text);
  EXPECT_THAT(DecodeCursor(text), IsOkAndHolds(cursor));
}

TEST(CursorTest, ALongTextIsRefusedBeforeItIsRead) {
  EXPECT_THAT(DecodeCursor(std::string(kMaxCursorLength + 1, 'A')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 2097152")));
  // As many runs as there can be.
  Cursor cursor = {IdentityOf({~uint32_t{0}}), ~uint64_t{0}, {}};
  for (uint64_t run = 0; run < 65536; ++run) {
    cursor.done.InsertRun({run * 65536 + 3000, run * 65536 + 60000});
  }
  PH_ASSERT_OK_AND_ASSIGN(const Cursor back, DecodeCursor(EncodeCursor(cursor)));
  EXPECT_EQ(back, cursor);
}

TEST(CursorTest, ABatchBeyondTheEpochIsMalformed) {
  const Cursor cursor = {IdentityOf({5}), 1, BatchSet::Of({5})};
  EXPECT_THAT(DecodeCursor(EncodeCursor(cursor)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("batch 5 is done, the epoch has 5 batches")));
}

// Of an epoch with windows: what is known of them fits it, and what is done is known.
TEST(CursorTest, WindowsThatDoNotFitAreMalformed) {
  EpochIdentity identity = IdentityOf({10, 20});
  identity.num_windows = 3;
  const auto decoded = [&](std::vector<uint32_t> windows, const BatchSet& done) {
    return DecodeCursor(EncodeCursor({identity, 1, done, std::move(windows)}));
  };
  EXPECT_THAT(decoded({2, 5}, BatchSet::Of({1, 14})), IsOk());
  EXPECT_THAT(decoded({2, 5, 8, 15, 0, 0}, BatchSet::Of({9, 29})), IsOk());
  for (const std::vector<uint32_t>& windows :
       std::vector<std::vector<uint32_t>>{{2}, {11, 5}, {2, 5, 2, 16}, {0, 0, 0, 0, 0, 0, 0, 0}}) {
    EXPECT_THAT(decoded(windows, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of 3 windows")));
  }
  EXPECT_THAT(
      decoded({2, 5}, BatchSet::Of({2})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank group 0 is done beyond")));
  EXPECT_THAT(decoded({2, 5}, BatchSet::Of({1, 15})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beyond the first 5")));
}

TEST(CheckSameEpochTest, NamesTheFirstDifferenceAndBothValues) {
  const EpochIdentity epoch = IdentityOf({5});
  const auto expect_named = [&](EpochIdentity other, absl::string_view ours,
                                absl::string_view theirs) {
    EXPECT_THAT(CheckSameEpoch(epoch, other, "cursor"),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(std::string(ours)), HasSubstr(std::string(theirs)))));
  };
  EXPECT_THAT(CheckSameEpoch(epoch, epoch, "cursor"), IsOk());
  EpochIdentity other = epoch;
  other.key.job = "another";
  expect_named(other, "epoch has job job", "is of job another");
  other = epoch;
  other.key.epoch = 8;
  expect_named(other, "epoch has epoch 0", "is of epoch 8");
  other = epoch;
  other.dataset = "proteins";
  expect_named(other, "dataset molecules", "dataset proteins");
  other = epoch;
  other.dataset_version = 4;
  expect_named(other, "dataset version 3", "dataset version 4");
  other = epoch;
  other.seed = 12;
  expect_named(other, "seed 11", "seed 12");
  other = epoch;
  other.rank_groups[0].capacities[1] = 500;
  expect_named(other, "(222, 502, -), 5 batches", "(222, 500, -), 5 batches");
  other = epoch;
  other.rank_groups[0].num_batches = 6;
  expect_named(other, "5 batches", "6 batches");
  other = epoch;
  other.options = "in order";
  expect_named(other, "options shuffle", "options in order");
}

TEST(CheckIdentityTest, Refuses) {
  EXPECT_THAT(CheckIdentity(IdentityOf({5})), IsOk());
  EXPECT_THAT(CheckIdentity(IdentityOf({})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 rank groups")));
  EXPECT_THAT(CheckIdentity(IdentityOf({~uint64_t{0}, 7})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 2^32 - 1")));
  EXPECT_THAT(CheckIdentity(IdentityOf(std::vector<uint64_t>(16, 1))), IsOk());
  EXPECT_THAT(CheckIdentity(IdentityOf(std::vector<uint64_t>(17, 1))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("17 rank groups")));
  EpochIdentity nameless = IdentityOf({5});
  nameless.key.job.clear();
  EXPECT_THAT(CheckIdentity(nameless),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("job name")));
}

}  // namespace
}  // namespace packhouse
