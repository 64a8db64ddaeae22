// "Fails at every step", the law of everything that has steps: whichever of them fails, the call is
// done, or it is not done and all is as before, or it says that nobody knows; nothing is held any
// more, nothing is left behind, and the same call works once nothing fails.
//
//   CancelledSteps cancelled;                         // what fails
//   ExpectDoneOrNot([&] { return std::make_unique<SealWorld>(cancelled); }, cancelled);
//
// A world is made anew for each step. The steps are counted by a call in which nothing fails, so
// that none is left out when code changes.
#ifndef PACKHOUSE_TESTS_SUPPORT_FAILING_STEPS_H_
#define PACKHOUSE_TESTS_SUPPORT_FAILING_STEPS_H_

#include <execinfo.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "service/base/caller.h"
#include "service/base/memory_budget.h"
#include "service/base/out_of_memory.h"

namespace packhouse {

// Where something is tried: what it needs, and all that it may change.
class StepsWorld {
 public:
  virtual ~StepsWorld() = default;
  // The call. The same again after a failure.
  virtual absl::Status Attempt() = 0;
  // What anybody can see afterwards, in words: contents, names of files.
  virtual std::string State() = 0;
  // What is held although the call has ended, in words; "" if nothing is.
  virtual std::string Held() { return ""; }
  // Where its files are, for what fails on disks.
  virtual std::string folder() const { return ""; }
};

// What fails: the step `step` of a call, the first is 0. One call at a time.
class FailingThing {
 public:
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  virtual ~FailingThing() = default;
  // From now on steps are counted, and `step` fails; kNone: they are counted.
  virtual void Begin(uint64_t step, const StepsWorld& world) = 0;
  // From now on nothing fails. Whether the step has come.
  virtual bool End() = 0;
  // Between Begin() and End(): that have come.
  virtual uint64_t num_steps() const = 0;
  // Of each step that was counted, where steps are of kinds.
  virtual std::vector<std::string> kinds() const { return {}; }
  // What failed, for messages.
  virtual std::string what() const { return ""; }
  // After End(): what a failure does besides, such as a loss of power.
  virtual void AfterEnd() {}
  virtual bool IsUnknown(const absl::Status& /*ended*/) const { return false; }
  // With which a call may end; empty: with any.
  virtual std::vector<absl::StatusCode> refusals() const { return {}; }
  // An interruption, say, is no failure.
  virtual bool is_survived() const { return false; }
};

// Steps that a world tells: cancellation, requests to a store. Thread-safe.
class CountedSteps : public FailingThing {
 public:
  // `lasts`: all steps after the one that fails do, too.
  explicit CountedSteps(bool lasts = false) : lasts_(lasts) {}

  // A step has come, of a kind where there are several, else that of where it comes from; whether
  // it fails.
  bool Fails(const std::string& kind = "") {
    if (!is_counting_) return false;
    const uint64_t number = num_steps_++;
    if (failing_ == kNone) {
      absl::MutexLock lock(&mutex_);
      kinds_.resize(std::max<size_t>(kinds_.size(), number + 1));
      kinds_[number] = kind.empty() ? Place() : kind;
    }
    const bool fails = number == failing_ || (lasts_ && number > failing_);
    if (fails) has_failed_ = true;
    return fails;
  }

  void Begin(uint64_t step, const StepsWorld& /*world*/) override {
    absl::MutexLock lock(&mutex_);
    failing_ = step;
    num_steps_ = 0;
    kinds_.clear();
    has_failed_ = false;
    is_counting_ = true;
  }
  bool End() override {
    is_counting_ = false;
    return has_failed_;
  }
  uint64_t num_steps() const override { return num_steps_; }
  std::vector<std::string> kinds() const override {
    absl::MutexLock lock(&mutex_);
    return kinds_;
  }

 private:
  // Who asks, through whom.
  static std::string Place() {
    void* frames[9];
    const auto num_frames = static_cast<size_t>(backtrace(frames, 9));
    return {reinterpret_cast<const char*>(frames), num_frames * sizeof(frames[0])};
  }

  const bool lasts_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> kinds_;
  std::atomic<uint64_t> failing_ = 0;
  std::atomic<uint64_t> num_steps_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::atomic<bool> is_counting_ = false;
};

// Nobody waits any more: each question whether somebody does is a step. `lasts` as for a client
// that has gone; otherwise only one question is answered so, and whoever asks must not forget it.
class CancelledSteps final : public CountedSteps, public Caller {
 public:
  explicit CancelledSteps(bool lasts = false) : CountedSteps(lasts) {}

  bool IsGone() const override { return const_cast<CancelledSteps*>(this)->Fails(); }
  std::vector<absl::StatusCode> refusals() const override { return {absl::StatusCode::kCancelled}; }
};

// Memory that is refused: each reservation is a step. Give `budget()` to the world, which must not
// set a Reclaim of its own. For calls of one thread.
class RefusedMemory final : public CountedSteps {
 public:
  explicit RefusedMemory(bool lasts = false) : CountedSteps(lasts) {
    // All is taken, so that whoever reserves must ask.
    filler_ = budget_.Hold("filler", kBound).value();
    budget_.SetReclaim([this](uint64_t bytes) {
      is_granting_ = true;
      if (!Fails()) filler_.ShrinkTo(filler_.bytes() - bytes);
      is_granting_ = false;
    });
  }
  ~RefusedMemory() override { budget_.SetReclaim(nullptr); }

  MemoryBudget* budget() { return &budget_; }
  // By others than itself.
  uint64_t held() const { return budget_.held() - filler_.bytes(); }

  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kResourceExhausted};
  }

 private:
  static constexpr uint64_t kBound = uint64_t{1} << 40;

  MemoryBudget budget_{kBound};
  MemoryHold filler_;
  bool is_granting_ = false;
  // What is given back is taken again.
  MemoryBudget::Waiter waiter_{&budget_, [this] {
                                 const uint64_t held = budget_.held();
                                 if (!is_granting_ && held < kBound)
                                   filler_.Grow("filler", kBound - held).IgnoreError();
                               }};
};

struct StepsOptions {
  // Of more steps, as many are tried, spread evenly; with PACKHOUSE_ALL_CASES=1 all.
  uint64_t most_steps = 150;
  // Besides these, the first step of each kind.
  bool each_kind = true;
  // What the same call may answer if it is done already.
  absl::StatusCode again = absl::StatusCode::kOk;
  // Also if no failure is ever told, since the call tries again by itself.
  bool may_all_be_survived = false;
};

struct StepsTold {
  uint64_t num_steps = 0;
  uint64_t num_tried = 0;
  uint64_t num_done = 0;
  uint64_t num_not_done = 0;
  uint64_t num_unknown = 0;
};

namespace failing_steps_internal {

// An allocation that a call cannot do without ends it where it came in.
inline absl::Status AttemptAsCall(StepsWorld& world) {
  try {
    return world.Attempt();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::length_error&) {
    return OutOfMemory();
  }
}

}  // namespace failing_steps_internal

// The law; see above. Adds failures that name the step. At least one step must come, and at least
// one call must end with an error, unless failures are survived.
inline StepsTold ExpectDoneOrNot(absl::FunctionRef<std::unique_ptr<StepsWorld>()> make,
                                 FailingThing& failing, const StepsOptions& options = {}) {
  using failing_steps_internal::AttemptAsCall;
  StepsTold told;
  std::string before;
  std::string after;
  std::vector<std::string> kinds;
  {
    const std::unique_ptr<StepsWorld> world = make();
    before = world->State();
    failing.Begin(FailingThing::kNone, *world);
    const absl::Status ended = AttemptAsCall(*world);
    told.num_steps = failing.num_steps();
    if (options.each_kind) kinds = failing.kinds();
    failing.End();
    EXPECT_TRUE(ended.ok()) << "nothing failed, and it ended with " << ended;
    after = world->State();
    EXPECT_EQ(world->Held(), "");
  }
  EXPECT_GT(told.num_steps, 0U) << "there is a step that can fail";
  if (testing::Test::HasFailure()) return told;
  const char* const all = std::getenv("PACKHOUSE_ALL_CASES");
  const uint64_t tries =
      all != nullptr && *all == '1' ? told.num_steps : std::min(told.num_steps, options.most_steps);
  std::set<uint64_t> steps;
  for (uint64_t i = 0; i < tries; ++i) steps.insert(i * told.num_steps / tries);
  std::set<std::string> seen;
  for (uint64_t step = 0; options.each_kind && step < kinds.size(); ++step) {
    if (seen.insert(kinds[step]).second) steps.insert(step);
  }
  for (const uint64_t step : steps) {
    const std::unique_ptr<StepsWorld> world = make();
    failing.Begin(step, *world);
    const absl::Status ended = AttemptAsCall(*world);
    const bool has_failed = failing.End();
    SCOPED_TRACE(testing::Message() << "step " << step << " of " << told.num_steps << " "
                                    << failing.what() << "; it ended with " << ended);
    // Work of several threads may take another way.
    if (has_failed) ++told.num_tried;
    EXPECT_TRUE(has_failed || ended.ok());
    EXPECT_TRUE(ended.ok() || !failing.is_survived());
    failing.AfterEnd();
    const std::string found = world->State();
    const std::vector<absl::StatusCode> refusals = failing.refusals();
    EXPECT_TRUE(ended.ok() || refusals.empty() ||
                std::find(refusals.begin(), refusals.end(), ended.code()) != refusals.end());
    if (ended.ok()) {
      ++told.num_done;
      EXPECT_EQ(found, after);
    } else if (failing.IsUnknown(ended)) {
      ++told.num_unknown;
      EXPECT_TRUE(found == before || found == after) << found;
    } else {
      ++told.num_not_done;
      EXPECT_EQ(found, before);
    }
    EXPECT_EQ(world->Held(), "");
    const absl::Status again = AttemptAsCall(*world);
    EXPECT_TRUE(again.ok() || (found == after && again.code() == options.again))
        << "the same call again: " << again;
    EXPECT_EQ(world->State(), after) << "after the same call again";
    EXPECT_EQ(world->Held(), "") << "after the same call again";
    if (testing::Test::HasFailure()) return told;
  }
  EXPECT_TRUE(failing.is_survived() || options.may_all_be_survived ||
              told.num_not_done + told.num_unknown > 0)
      << "no failure of " << told.num_steps << " steps was told";
  return told;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FAILING_STEPS_H_
