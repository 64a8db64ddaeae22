// What histograms reserve is what they hold (tests/support/accounting.h).
#include "tests/support/accounting.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/wings/cluster/histograms/waiting_counts.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

const absl::Time kCountedAt = absl::UnixEpoch() + absl::Hours(1000);

HistogramKey CountedAs(std::string name, absl::Duration half_life) {
  return {std::move(name), SizeSchema::NodesAndEdges(), half_life};
}

// Of so many graphs, most of which have a size of their own.
SizeHistogram SomeSizes(size_t num_graphs, uint64_t seed) {
  Random random(seed);
  SizeHistogram histogram(2);
  for (size_t i = 0; i < num_graphs; ++i) {
    const std::vector<uint32_t> tuple = {static_cast<uint32_t>(random.Below(500)),
                                         static_cast<uint32_t>(random.Below(500))};
    EXPECT_THAT(histogram.Add(tuple), IsOk());
  }
  return histogram;
}

using Store = std::unique_ptr<HistogramStore>;

// Three histograms that several producers count in, with and without a half-life; one is taken from
// again, and one is deleted.
absl::StatusOr<Store> CountSome(MemoryBudget* memory, absl::Duration half_life) {
  auto store = std::make_unique<HistogramStore>(HistogramStore::Bounds(), memory);
  const bool is_exact = half_life == absl::InfiniteDuration();
  for (uint64_t call = 0; call < 12; ++call) {
    const HistogramKey key = CountedAs(absl::StrCat("h", call % 3), half_life);
    const ProducerSequence producer = {absl::StrCat("producer ", call % 4), call + 1};
    const SizeHistogram sizes = SomeSizes(20 + 40 * call, call);
    PH_RETURN_IF_ERROR(store->Merge(key, sizes, producer, kCountedAt).status());
    if (is_exact && call % 3 == 1) {
      PH_RETURN_IF_ERROR(
          store->Subtract(key, SomeSizes(20 + 40 * call, call), {}, kCountedAt).status());
    }
  }
  PH_RETURN_IF_ERROR(store->Delete("h2"));
  return store;
}

TEST(HistogramAccountingTest, Stores) {
  for (const absl::Duration half_life : {absl::InfiniteDuration(), absl::Hours(1)}) {
    SCOPED_TRACE(absl::FormatDuration(half_life));
    // What a copy of each takes, by a store with room for copies.
    MemoryBudget ample(UINT64_MAX);
    PH_ASSERT_OK_AND_ASSIGN(const Store same, CountSome(&ample, half_life));
    uint64_t bytes = 0;
    for (const std::string name : {"h0", "h1"}) {
      PH_ASSERT_OK_AND_ASSIGN(const KeptHistogram kept, same->Keep(name, kCountedAt));
      bytes += kept.memory.bytes();
    }
    // Where there is no room for as many sizes as there may be, those that are new are counted.
    ExpectAccounted([&](MemoryBudget* memory) { return CountSome(memory, half_life); },
                    [&](const Store&) { return bytes; }, {.may_do_without = true});
  }
}

// A change that is refused leaves the histogram as it was, and holds nothing more.
TEST(HistogramAccountingTest, ARefusedChangeHoldsNothing) {
  bool has_refused = true;
  for (uint64_t refused = 0; has_refused; ++refused) {
    SCOPED_TRACE(refused);
    SeenBudget seen;
    {
      PH_ASSERT_OK_AND_ASSIGN(const Store store,
                              CountSome(seen.memory(), absl::InfiniteDuration()));
      // A copy takes memory of its own.
      const uint64_t held = seen.held();
      PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot before, store->Get("h0", kCountedAt));
      const uint64_t with_copy = seen.held();
      seen.RefuseFromNow(refused, /*lasts=*/true);
      const auto merged = store->Merge(CountedAs("h0", absl::InfiniteDuration()),
                                       SomeSizes(5000, 77), ProducerSequence{"new", 1}, kCountedAt);
      has_refused = seen.has_refused();
      if (!has_refused) {
        EXPECT_THAT(merged, IsOk());
        EXPECT_GT(seen.held(), with_copy);
      } else {
        EXPECT_THAT(merged, StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
        seen.RefuseFromNow(SeenBudget::kNone);
        EXPECT_EQ(seen.held(), with_copy);
        PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot after, store->Get("h0", kCountedAt));
        EXPECT_TRUE(after.histogram == before.histogram);
        EXPECT_EQ(seen.held() - with_copy, with_copy - held);
      }
    }
    EXPECT_EQ(seen.held(), 0);
    if (HasFailure()) return;
  }
}

using Waiting = std::unique_ptr<WaitingCounts>;

absl::StatusOr<Waiting> LetWait(MemoryBudget* memory) {
  auto waiting = std::make_unique<WaitingCounts>(memory);
  for (uint64_t call = 0; call < 9; ++call) {
    SizeHistogram sizes = SomeSizes(20 + 40 * call, call);
    const HistogramKey key = CountedAs(absl::StrCat("h", call % 3), absl::InfiniteDuration());
    PH_RETURN_IF_ERROR(waiting->Add(key, sizes, kCountedAt).status());
  }
  // One is taken, and waits on.
  std::optional<WaitingCounts::Counts> counts = waiting->Take("h1");
  if (!counts) return absl::InternalError("nothing waits");
  PH_RETURN_IF_ERROR(waiting->PutBack(*counts, absl::AbortedError("no room")));
  return waiting;
}

TEST(HistogramAccountingTest, WaitingCounts) {
  uint64_t bytes = 0;
  PH_ASSERT_OK_AND_ASSIGN(const Waiting same, LetWait(nullptr));
  for (const std::string name : {"h0", "h1", "h2"}) bytes += same->Take(name)->bytes;
  ExpectAccounted(LetWait, [&](const Waiting&) { return bytes; });
}

}  // namespace
}  // namespace packhouse
