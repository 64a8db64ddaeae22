// What RebuildBatches plans and makes, and what it says of batches that there are not.
#include "service/server/services/rebuild_source.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Windows of known numbers of batches, that are planned one after the other.
class CountedWindows final : public EpochWindows {
 public:
  explicit CountedWindows(std::vector<std::vector<uint32_t>> counts) : counts_(std::move(counts)) {}

  uint64_t num_windows() const override { return counts_.size(); }
  std::vector<uint32_t> Counts() const override {
    std::vector<uint32_t> known;
    for (uint64_t i = 0; i < num_planned_; ++i) {
      known.insert(known.end(), counts_[i].begin(), counts_[i].end());
    }
    return known;
  }
  absl::Status Learn(absl::Span<const uint32_t> /*counts*/) const override {
    return absl::OkStatus();
  }
  std::optional<uint64_t> FirstMissing(absl::Span<const uint64_t> /*batches*/) const override {
    return std::nullopt;
  }
  absl::Status Plan(uint64_t window, const Making& /*making*/) const override {
    EXPECT_EQ(window, num_planned_);
    if (window == fails_at) return absl::DataLossError(absl::StrCat("window ", window));
    ++num_planned_;
    return absl::OkStatus();
  }

  uint64_t num_planned() const { return num_planned_; }

  uint64_t fails_at = UINT64_MAX;

 private:
  const std::vector<std::vector<uint32_t>> counts_;
  mutable uint64_t num_planned_ = 0;
};

// Has batches, and makes none: the one of number `fails_at` not even that.
class NumberedEpoch final : public LoadableEpoch {
 public:
  NumberedEpoch(const std::vector<uint64_t>& num_batches, const CountedWindows* windows)
      : NumberedEpoch(num_batches) {
    windows_ = windows;
    identity_.num_windows = windows->num_windows();
  }
  explicit NumberedEpoch(const std::vector<uint64_t>& num_batches) {
    identity_ = {{"job", 3}, "graphs", 7, 1, {}, "words", 0};
    for (const uint64_t each : num_batches) identity_.rank_groups.push_back({{24, 6}, 1, each});
  }

  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return schema_; }
  absl::Span<const BatchShape> shapes(size_t /*rank_group*/) const override { return {}; }
  uint64_t num_graphs() const override { return 0; }
  uint64_t NumGraphs(uint64_t /*number*/) const override { return 0; }
  const EpochWindows* windows() const override { return windows_; }
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override {
    if (number == fails_at) return absl::DataLossError(absl::StrCat("batch ", number));
    return BuiltBatch();
  }
  absl::StatusOr<BuiltBatch> BuildPadding(size_t /*rank_group*/) const override {
    return BuiltBatch();
  }

  uint64_t fails_at = UINT64_MAX;

 private:
  EpochIdentity identity_;
  const EpochWindows* windows_ = nullptr;
  const GraphSchema schema_ = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
};

absl::Status Opened(const std::vector<uint64_t>& num_batches, uint64_t number) {
  return RebuildSource::Open(std::make_shared<const NumberedEpoch>(num_batches), {number},
                             std::nullopt, Making(nullptr, nullptr))
      .status();
}

TEST(RebuildSourceTest, NumbersBeyondAreToldByRankGroup) {
  EXPECT_THAT(Opened({5}, 4), IsOk());
  EXPECT_THAT(Opened({5}, 5), StatusIs(absl::StatusCode::kOutOfRange,
                                       AllOf(HasSubstr("batch 5: epoch 3 has 5 batches, numbered "
                                                       "from 0"),
                                             Not(HasSubstr("rank group")))));
  EXPECT_THAT(Opened({5, 7}, 11), IsOk());
  EXPECT_THAT(
      Opened({5, 7}, 12),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("batch 12: epoch 3 has 5 batches of rank group 0, numbered from 0, 7 "
                         "batches of rank group 1, numbered from 5; batches of padding")));
}

// As many windows are planned as a number needs, in their order.
TEST(RebuildSourceTest, WindowsArePlannedAsFarAsTheNumbersNeedIt) {
  const std::vector<std::vector<uint32_t>> counts = {{3, 1}, {2, 2}, {4, 0}};
  struct Numbers {
    std::vector<uint64_t> numbers;
    uint64_t num_planned;
  };
  // Those of the second rank group begin at 12.
  for (const Numbers& each :
       {Numbers{{0, 2}, 1}, Numbers{{12}, 1}, Numbers{{3}, 2}, Numbers{{13}, 2},
        Numbers{{14, 0}, 2}, Numbers{{5}, 3}, Numbers{{0, 8, 12}, 3}}) {
    for (uint64_t fails_at = 0; fails_at <= each.num_planned; ++fails_at) {
      CountedWindows windows(counts);
      windows.fails_at = fails_at;
      const absl::Status opened =
          RebuildSource::Open(
              std::make_shared<const NumberedEpoch>(std::vector<uint64_t>{12, 8}, &windows),
              each.numbers, std::nullopt, Making(nullptr, nullptr))
              .status();
      EXPECT_EQ(opened, fails_at == each.num_planned
                            ? absl::OkStatus()
                            : absl::DataLossError(absl::StrCat("window ", fails_at)));
      EXPECT_EQ(windows.num_planned(), fails_at);
    }
    // Nobody waits any more, after so many windows.
    for (uint64_t given_up_at = 0; given_up_at < each.num_planned; ++given_up_at) {
      CountedWindows windows(counts);
      const Making making(nullptr, [&] { return windows.num_planned() == given_up_at; });
      EXPECT_EQ(RebuildSource::Open(
                    std::make_shared<const NumberedEpoch>(std::vector<uint64_t>{12, 8}, &windows),
                    each.numbers, std::nullopt, making)
                    .status(),
                absl::CancelledError("epoch: given up by the caller"));
      EXPECT_EQ(windows.num_planned(), given_up_at);
    }
  }
  for (const uint64_t beyond : {9, 11, 15, 20, 1000}) {
    CountedWindows windows(counts);
    EXPECT_EQ(RebuildSource::Open(
                  std::make_shared<const NumberedEpoch>(std::vector<uint64_t>{12, 8}, &windows),
                  {0, beyond, 12}, std::nullopt, Making(nullptr, nullptr))
                  .status(),
              absl::OutOfRangeError(absl::StrCat(
                  "numbers: batch ", beyond,
                  ": epoch 3 has 9 batches of rank group 0, numbered from 0, 3 batches of rank "
                  "group 1, numbered from 12; batches of padding alone come after them, and are "
                  "not made again")));
    EXPECT_EQ(windows.num_planned(), 3U);
  }
}

TEST(RebuildSourceTest, NumbersAreBounded) {
  const auto opened = [](size_t count) {
    return RebuildSource::Open(std::make_shared<const NumberedEpoch>(std::vector<uint64_t>{5}),
                               std::vector<uint64_t>(count, 4), std::nullopt,
                               Making(nullptr, nullptr))
        .status();
  };
  EXPECT_EQ(opened(0), absl::InvalidArgumentError("numbers: 0 batches, must be 1 to 1024"));
  EXPECT_THAT(opened(1), IsOk());
  EXPECT_THAT(opened(1024), IsOk());
  EXPECT_EQ(opened(1025), absl::InvalidArgumentError("numbers: 1025 batches, must be 1 to 1024"));
}

// First what the epoch is, then the batches in the order of the numbers, up to one that fails.
TEST(RebuildSourceTest, BatchesComeInTheOrderOfTheNumbersUpToOneThatFails) {
  const auto epoch = std::make_shared<NumberedEpoch>(std::vector<uint64_t>{5});
  for (const std::optional<uint64_t> words_of : {std::optional<uint64_t>(), {0}, {7}}) {
    for (const uint64_t fails_at : {uint64_t{9}, uint64_t{1}}) {
      epoch->fails_at = fails_at;
      PH_ASSERT_OK_AND_ASSIGN(const auto source, RebuildSource::Open(epoch, {4, 0, 1}, words_of,
                                                                     Making(nullptr, nullptr)));
      PH_ASSERT_OK_AND_ASSIGN(const auto opened, source->Next());
      ASSERT_TRUE(opened.has_value());
      EXPECT_EQ(opened->message.opened().epoch().job(), "job");
      EXPECT_EQ(opened->message.opened().epoch().epoch(), 3U);
      EXPECT_TRUE(opened->message.opened().has_schema());
      EXPECT_EQ(opened->message.has_words_of_epoch(), words_of.has_value());
      EXPECT_EQ(opened->message.words_of_epoch(), words_of.value_or(0));
      for (const uint64_t number : {4, 0}) {
        PH_ASSERT_OK_AND_ASSIGN(const auto batch, source->Next());
        ASSERT_TRUE(batch.has_value());
        EXPECT_EQ(batch->message.batch().batch().id(), number);
        EXPECT_EQ(batch->message.batch().batch().epoch(), 3U);
      }
      const auto last = source->Next();
      if (fails_at == 1) {
        EXPECT_EQ(last.status(), absl::DataLossError("batch 1"));
        continue;
      }
      ASSERT_TRUE(last.ok() && last->has_value());
      PH_ASSERT_OK_AND_ASSIGN(const auto end, source->Next());
      EXPECT_FALSE(end.has_value());
    }
  }
}

}  // namespace
}  // namespace packhouse
