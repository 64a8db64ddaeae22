// What is reserved is what is held: one law for all that reserves memory.
//
//   ExpectAccounted([&](MemoryBudget* memory) { return Thing::Make(..., memory); },
//                   [](const Thing& thing) { return thing.bytes(); });
//
// Who reserves what, and the test of each: tests/structure/reserved_memory.md.
#ifndef PACKHOUSE_TESTS_SUPPORT_ACCOUNTING_H_
#define PACKHOUSE_TESTS_SUPPORT_ACCOUNTING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

// A budget that sees each reservation, and refuses those that a test names. It never has room to
// spare: what is asked for is given then, and what is given back is taken. So no reservation passes
// unseen. What reserves must be one thread's, and must not set the budget's Reclaim. Outlives what
// holds of it.
class SeenBudget {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  // Reservation number `refused` finds no room; the first is 0.
  explicit SeenBudget(uint64_t refused = kNone) : refused_(refused) {
    others_ = budget_.Hold("others", kBound).value();
    budget_.SetReclaim([this](uint64_t bytes) { Asked(bytes); });
    waiter_.emplace(&budget_, [this] { TakeBack(); });
  }
  ~SeenBudget() {
    waiter_.reset();
    budget_.SetReclaim(nullptr);
  }
  SeenBudget(const SeenBudget&) = delete;
  SeenBudget& operator=(const SeenBudget&) = delete;

  MemoryBudget* memory() { return &budget_; }
  // Refuses reservation `number`, counted from now on; with `lasts`, all after it, too.
  void RefuseFromNow(uint64_t number, bool lasts = false) {
    num_asked_ = 0;
    refused_ = number;
    lasts_ = lasts;
    has_refused_ = false;
  }

  // By all but the budget's own filling.
  uint64_t held() const { return budget_.held() - others_.bytes(); }
  uint64_t num_asked() const { return num_asked_; }
  bool has_refused() const { return has_refused_; }
  // What was held each time that it was more than ever before, ascending.
  const std::vector<uint64_t>& highs() const { return highs_; }

 private:
  // A number that no sum exceeds.
  static constexpr uint64_t kBound = uint64_t{1} << 60;

  void Asked(uint64_t bytes) {
    const uint64_t number = num_asked_++;
    if (number == refused_ || (lasts_ && number > refused_)) {
      has_refused_ = true;
      return;
    }
    is_giving_ = true;
    others_.ShrinkTo(others_.bytes() - bytes);
    is_giving_ = false;
    const uint64_t held = kBound - others_.bytes();
    if (highs_.empty() || held > highs_.back()) highs_.push_back(held);
  }
  void TakeBack() {
    if (!is_giving_) others_.Grow("others", kBound - budget_.held()).IgnoreError();
  }

  MemoryBudget budget_{kBound};
  MemoryHold others_;
  std::optional<MemoryBudget::Waiter> waiter_;
  uint64_t refused_;
  bool lasts_ = false;
  uint64_t num_asked_ = 0;
  bool has_refused_ = false;
  bool is_giving_ = false;
  std::vector<uint64_t> highs_;
};

struct AccountingOptions {
  // The thing is made also where a part of it finds no room: it does without that part.
  bool may_do_without = false;
  // What bytes_of() estimates may differ from what is held by as much, either way.
  uint64_t estimate_error = 0;
};

inline void ExpectHeld(uint64_t held, uint64_t bytes, const AccountingOptions& options) {
  EXPECT_LE(held, bytes + options.estimate_error);
  EXPECT_LE(bytes, held + options.estimate_error);
}

// `make(memory)` makes a thing, a StatusOr of what holds it, and `bytes_of` says what it takes.
// - After making, as much is held; once the thing is gone, nothing.
// - Whichever reservation finds no room, it is RESOURCE_EXHAUSTED, and nothing is held then.
// - For every budget: below the most that is ever held the same, from there on it is made.
template <typename Make, typename BytesOf>
void ExpectAccounted(const Make& make, const BytesOf& bytes_of,
                     const AccountingOptions& options = {}) {
  uint64_t num_asked = 0;
  std::vector<uint64_t> highs;
  {
    SeenBudget seen;
    {
      const auto made = make(seen.memory());
      ASSERT_THAT(made, IsOk());
      ExpectHeld(seen.held(), bytes_of(*made), options);
    }
    EXPECT_EQ(seen.held(), 0U);
    num_asked = seen.num_asked();
    highs = seen.highs();
  }
  // Or the law would say nothing.
  ASSERT_GT(num_asked, 0U);
  const auto expect_refused = [&](const auto& made, uint64_t held) {
    if (options.may_do_without && made.ok()) {
      ExpectHeld(held, bytes_of(*made), options);
    } else {
      EXPECT_THAT(made, StatusIs(absl::StatusCode::kResourceExhausted,
                                 ::testing::HasSubstr("--memory-budget: ")));
    }
  };
  for (uint64_t refused = 0; refused < num_asked; ++refused) {
    SCOPED_TRACE(testing::Message() << "reservation " << refused << " of " << num_asked);
    SeenBudget seen(refused);
    {
      const auto made = make(seen.memory());
      EXPECT_TRUE(seen.has_refused());
      expect_refused(made, seen.held());
    }
    EXPECT_EQ(seen.held(), 0U);
    if (testing::Test::HasFailure()) return;
  }
  // Between two of these, budgets refuse the same reservation.
  for (const uint64_t high : highs) {
    SCOPED_TRACE(testing::Message() << "a budget of " << high - 1 << " of " << highs.back());
    MemoryBudget budget(high - 1);
    {
      const auto made = make(&budget);
      expect_refused(made, budget.held());
    }
    EXPECT_EQ(budget.held(), 0U);
    if (testing::Test::HasFailure()) return;
  }
  MemoryBudget enough(highs.back());
  {
    const auto made = make(&enough);
    ASSERT_THAT(made, IsOk());
    ExpectHeld(enough.held(), bytes_of(*made), options);
  }
  EXPECT_EQ(enough.held(), 0U);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_ACCOUNTING_H_
