#include "service/engine/jobs/cursor.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/checksum.h"
#include "service/engine/jobs/stored_epoch.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

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

// The text of such a message, with its checksum.
std::string TextOf(const std::string& message) {
  std::string bytes = message;
  const uint32_t crc = Crc32c(message);
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(crc >> shift));
  return absl::WebSafeBase64Escape(bytes);
}

// What people are told of a text that is none.
TEST(CursorTest, SaysWhatIsWrong) {
  const auto refused = [](const std::string& text) {
    const absl::Status status = DecodeCursor(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refused(""), "cursor: 0 bytes");
  EXPECT_EQ(refused(absl::WebSafeBase64Escape("abc")), "cursor: 3 bytes");
  EXPECT_EQ(refused(absl::WebSafeBase64Escape("abcd")),
            "cursor: its checksum is wrong; the text was changed");
  EXPECT_EQ(refused(TextOf("\xff")), "cursor: is no message of a cursor");
  EpochIdentity nameless = IdentityOf({5});
  nameless.key.job.clear();
  EXPECT_EQ(refused(EncodeCursor({nameless, 1, {}})), "cursor: epoch: without a job name");
  internal::Cursor stored;
  WriteIdentity(IdentityOf({5}), *stored.mutable_identity());
  EXPECT_THAT(DecodeCursor(TextOf(stored.SerializeAsString())), IsOk());
  EXPECT_EQ(refused(TextOf(stored.SerializeAsString() + std::string("\xa0\x01\x01", 3))),
            "cursor: malformed, or written by a later release of packhoused");
  internal::Cursor odd = stored;
  odd.add_done(1);
  EXPECT_EQ(refused(TextOf(odd.SerializeAsString())), "cursor: malformed");
  // A run without batches, one that follows without a gap, and one that wraps around.
  for (const std::vector<uint64_t>& runs :
       std::vector<std::vector<uint64_t>>{{1, 0}, {0, 1, 0, 1}, {1, ~uint64_t{0}}}) {
    internal::Cursor changed = stored;
    changed.mutable_done()->Add(runs.begin(), runs.end());
    EXPECT_EQ(refused(TextOf(changed.SerializeAsString())), "cursor: malformed");
  }
  for (const auto& change : std::vector<void (*)(internal::EpochIdentity&)>{
           [](internal::EpochIdentity& identity) { identity.add_planned_ranks(1); },
           [](internal::EpochIdentity& identity) { identity.add_num_batches(1); },
           [](internal::EpochIdentity& identity) { identity.add_capacities(1); },
           [](internal::EpochIdentity& identity) { identity.set_num_capacities(0, 4); }}) {
    internal::Cursor changed = stored;
    change(*changed.mutable_identity());
    EXPECT_EQ(refused(TextOf(changed.SerializeAsString())), "cursor: malformed");
  }
}

TEST(CursorTest, ALongTextIsRefusedBeforeItIsRead) {
  EXPECT_EQ(DecodeCursor(std::string(kMaxCursorLength + 1, 'A')).status(),
            absl::InvalidArgumentError("cursor: 2097153 characters, at most 2097152"));
  EXPECT_EQ(DecodeCursor(std::string(kMaxCursorLength, 'A')).status(),
            absl::InvalidArgumentError("cursor: its checksum is wrong; the text was changed"));
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
                       "cursor: batch 5 is done, the epoch has 5 batches"));
  EXPECT_THAT(DecodeCursor(EncodeCursor({IdentityOf({5}), 1, BatchSet::Of({4})})), IsOk());
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
    EXPECT_THAT(decoded(windows, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                               absl::StrCat("cursor: has ", windows.size(),
                                                            " numbers of batches of 3 windows")));
  }
  EXPECT_EQ(decoded({2, 5}, BatchSet::Of({2})).status(),
            absl::InvalidArgumentError("cursor: a batch of rank group 0 is done beyond the first "
                                       "2, which are known"));
  EXPECT_EQ(decoded({2, 5}, BatchSet::Of({1, 15})).status(),
            absl::InvalidArgumentError("cursor: a batch of rank group 1 is done beyond the first "
                                       "5, which are known"));
}

TEST(CheckSameEpochTest, NamesTheFirstDifferenceAndBothValues) {
  const EpochIdentity epoch = IdentityOf({5, 7});
  EXPECT_THAT(CheckSameEpoch(epoch, epoch, "cursor"), IsOk());
  const auto expect_named = [&](const auto& change, const std::string& theirs,
                                const std::string& ours) {
    EpochIdentity other = epoch;
    change(other);
    EXPECT_EQ(CheckSameEpoch(epoch, other, "cursor"),
              absl::FailedPreconditionError(
                  absl::StrCat("cursor: is of ", theirs, ", the epoch has ", ours)));
  };
  using Other = EpochIdentity;
  expect_named([](Other& other) { other.key.job = "another"; }, "job another", "job job");
  expect_named([](Other& other) { other.key.epoch = 8; }, "epoch 8", "epoch 0");
  expect_named([](Other& other) { other.dataset = "proteins"; }, "dataset proteins",
               "dataset molecules");
  expect_named([](Other& other) { other.dataset_version = 4; }, "dataset version 4",
               "dataset version 3");
  expect_named([](Other& other) { other.seed = 12; }, "seed 12", "seed 11");
  const std::string limits = "limits (222, 502, -), 5 batches; (222, 502, -), 7 batches";
  expect_named([](Other& other) { other.rank_groups[0].capacities[1] = 500; },
               "limits (222, 500, -), 5 batches; (222, 502, -), 7 batches", limits);
  expect_named([](Other& other) { other.rank_groups[1].planned_ranks = 3; },
               "limits (222, 502, -), 5 batches; (222, 502, -) of 3 ranks, 7 batches", limits);
  expect_named([](Other& other) { other.rank_groups[0].num_batches = 6; },
               "limits (222, 502, -), 6 batches; (222, 502, -), 7 batches", limits);
  expect_named([](Other& other) { other.options = "in order"; }, "options in order",
               "options shuffle");
  expect_named([](Other& other) { other.num_windows = 2; }, "windows 2", "windows 0");
  expect_named(
      [](Other& other) {
        other.num_windows = 2;
        other.options = "in order";
        other.seed = 12;
      },
      "seed 12", "seed 11");
}

TEST(CheckIdentityTest, Refuses) {
  EXPECT_THAT(CheckIdentity(IdentityOf({5})), IsOk());
  const auto refused = [](std::vector<uint64_t> batches) {
    const absl::Status status = CheckIdentity(IdentityOf(std::move(batches)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  constexpr uint64_t kMost = ~uint32_t{0};
  EXPECT_EQ(refused({}), "epoch: 0 rank groups, must be 1 to 16");
  EXPECT_EQ(refused(std::vector<uint64_t>(17, 1)), "epoch: 17 rank groups, must be 1 to 16");
  EXPECT_THAT(CheckIdentity(IdentityOf(std::vector<uint64_t>(16, 1))), IsOk());
  EXPECT_THAT(CheckIdentity(IdentityOf({7, kMost - 7})), IsOk());
  EXPECT_EQ(refused({7, kMost - 6}), "epoch: 7 and 4294967289 batches, at most 2^32 - 1");
  EXPECT_EQ(refused({7, ~uint64_t{0}}),
            "epoch: 7 and 18446744073709551615 batches, at most 2^32 - 1");
  EpochIdentity nameless = IdentityOf({5});
  nameless.key.job.clear();
  EXPECT_EQ(CheckIdentity(nameless), absl::InvalidArgumentError("epoch: without a job name"));
}

}  // namespace
}  // namespace packhouse
