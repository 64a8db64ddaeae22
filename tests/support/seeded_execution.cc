#include "tests/support/seeded_execution.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/base/steady_waits.h"

namespace packhouse {
namespace {

// One step in so many lets time go on though others could.
constexpr uint64_t kSlowMachine = 64;
// One mutex in so many lets others go first.
constexpr uint64_t kYields = 6;
// A step that takes this long waits for a thread that does not have the baton.
constexpr std::chrono::seconds kLongestStep{60};

}  // namespace

thread_local SeededExecution::Member* SeededExecution::self_ = nullptr;

class SeededExecution::BegunMember final : public Execution::Begun {
 public:
  BegunMember(SeededExecution* execution, Member* member)
      : execution_(execution), member_(member) {}
  void Join() override {
    Lock lock(execution_->mutex_);
    self_->ends = member_;
    self_->until = absl::InfiniteFuture();
    execution_->PassOn(lock, *self_);
  }

 private:
  SeededExecution* const execution_;
  Member* const member_;
};

SeededExecution::SeededExecution(uint64_t seed) : random_(seed) {
  WaitSteadily();
  // As in the service.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

SeededExecution::~SeededExecution() {
  for (const auto& member : members_) member->thread.join();
}

std::unique_ptr<Execution::Begun> SeededExecution::Begin(std::function<void()> work) {
  const Lock lock(mutex_);
  Member* const member = members_.emplace_back(std::make_unique<Member>()).get();
  member->number = members_.size();
  member->thread = std::thread([this, member, work = std::move(work)]() mutable {
    {
      Lock own(mutex_);
      member->turn.wait(own, [&] { return running_ == member; });
    }
    Enter(this);
    self_ = member;
    work();
    work = nullptr;
    Enter(nullptr);
    self_ = nullptr;
    Lock own(mutex_);
    member->has_ended = true;
    PassOn(own, *member);
  });
  return std::make_unique<BegunMember>(this, member);
}

void SeededExecution::Run(std::function<void()> work) {
  Begin(std::move(work));
  Lock lock(mutex_);
  running_ = members_.front().get();
  running_->turn.notify_one();
  for (;;) {
    const uint64_t steps = trace_.steps;
    if (all_ended_.wait_for(lock, kLongestStep, [this] { return running_ == nullptr; })) return;
    if (trace_.steps == steps) Fail("a thread with the baton waits for another in its own way");
  }
}

bool SeededExecution::CanGoOn(const Member& member, absl::Time now) {
  return member.until <= now || (member.wakes != nullptr && *member.wakes > 0) ||
         (member.ends != nullptr && member.ends->has_ended);
}

SeededExecution::Member* SeededExecution::Draw() {
  bool is_slow = random_.Below(kSlowMachine) == 0;
  for (;;) {
    std::vector<Member*> ready;
    absl::Time next = absl::InfiniteFuture();
    bool all_ended = true;
    for (const auto& member : members_) {
      if (member->has_ended) continue;
      all_ended = false;
      if (CanGoOn(*member, now_)) {
        ready.push_back(member.get());
      } else {
        next = std::min(next, member->until);
      }
    }
    if (all_ended) return nullptr;
    if ((ready.empty() || std::exchange(is_slow, false)) && next != absl::InfiniteFuture()) {
      now_ = next;
    } else if (ready.empty()) {
      Fail("no thread can ever go on");
    } else {
      return ready[random_.Below(ready.size())];
    }
  }
}

void SeededExecution::PassOn(Lock& lock, Member& self) {
  running_ = Draw();
  if (running_ == nullptr) {
    all_ended_.notify_one();
    return;
  }
  ++trace_.steps;
  for (const uint64_t part :
       {uint64_t{running_->number}, static_cast<uint64_t>(absl::ToUnixNanos(now_))}) {
    trace_.digest = Random(trace_.digest ^ part).Next();
  }
  if (running_ != &self) {
    running_->turn.notify_one();
    if (self.has_ended) return;
    self.turn.wait(lock, [&] { return running_ == &self; });
  }
  self.wakes = nullptr;
  self.ends = nullptr;
  self.until = absl::InfinitePast();
}

void SeededExecution::Fail(absl::string_view why) const {
  std::string told = absl::StrCat("SeededExecution: ", why, ", after ", trace_.steps, " steps\n");
  for (const auto& member : members_) {
    if (member->has_ended) continue;
    absl::StrAppend(&told, "  thread ", member->number,
                    member->ends != nullptr                   ? " waits for the end of another"
                    : member->wakes == nullptr                ? " can go on"
                    : member->until == absl::InfiniteFuture() ? " waits for a mutex"
                                                              : " waits for a mutex or a time",
                    "\n");
  }
  for (const std::string& note : trace_.notes) absl::StrAppend(&told, "  ", note, "\n");
  std::fputs(told.c_str(), stderr);
  std::abort();
}

void SeededExecution::Note(absl::string_view what) {
  const Lock lock(mutex_);
  trace_.notes.push_back(absl::StrCat(what, " at ", absl::FormatDuration(now_ - start_)));
}

void SeededExecution::Pause(absl::Duration length) {
  Lock lock(mutex_);
  self_->until = now_ + std::max(length, absl::ZeroDuration());
  PassOn(lock, *self_);
}

bool SeededExecution::Block(std::atomic<int32_t>& wakes, bool is_timed) {
  Lock lock(mutex_);
  const absl::Time end = is_timed ? self_->end_of_waits : absl::InfiniteFuture();
  if (is_timed && end == absl::InfiniteFuture()) Fail("a timed wait that is not wrapped");
  for (;;) {
    if (wakes > 0) {
      --wakes;
      return true;
    }
    if (end <= now_) return false;
    self_->wakes = &wakes;
    self_->until = end;
    PassOn(lock, *self_);
  }
}

SeededExecution* SeededExecution::OfThread() {
  return self_ == nullptr ? nullptr : static_cast<SeededExecution*>(Replacement());
}

void SeededExecution::MayYield() {
  Lock lock(mutex_);
  if (random_.Below(kYields) == 0) PassOn(lock, *self_);
}

absl::Time SeededExecution::SetEndOfWaits(absl::Duration length) {
  const Lock lock(mutex_);
  return std::exchange(self_->end_of_waits,
                       std::min(now_ + length, absl::UnixEpoch() + absl::Hours(24 * 365 * 200)));
}

void SeededExecution::ResetEndOfWaits(absl::Time end) {
  const Lock lock(mutex_);
  self_->end_of_waits = end;
}

absl::Time SeededExecution::OwnClock::Now() const {
  const Lock lock(execution_->mutex_);
  return execution_->now_;
}

void SeededExecution::OwnClock::CallAt(absl::Time time, std::function<void()> callback) {
  execution_->Begin([execution = execution_, time, callback = std::move(callback)] {
    execution->Pause(time - execution->clock().Now());
    callback();
  });
}

}  // namespace packhouse

// The names that the linker derives from the mangled ones (-Wl,--wrap), and abseil's own.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

using packhouse::SeededExecution;

void __real__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex);
bool __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout);
bool __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
    const absl::Notification* notification, absl::Duration timeout);

void __wrap__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex) {
  if (SeededExecution* const seeded = SeededExecution::OfThread()) seeded->MayYield();
  __real__ZN4absl7debian35Mutex4LockEv(mutex);
}

bool __wrap__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  SeededExecution* const seeded = SeededExecution::OfThread();
  absl::Time before;
  if (seeded != nullptr) before = seeded->SetEndOfWaits(timeout);
  const bool held = __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
      mutex, condition, timeout);
  if (seeded != nullptr) seeded->ResetEndOfWaits(before);
  return held;
}

bool __wrap__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
    const absl::Notification* notification, absl::Duration timeout) {
  SeededExecution* const seeded = SeededExecution::OfThread();
  absl::Time before;
  if (seeded != nullptr) before = seeded->SetEndOfWaits(timeout);
  const bool notified =
      __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
          notification, timeout);
  if (seeded != nullptr) seeded->ResetEndOfWaits(before);
  return notified;
}

// By which abseil waits for a mutex that is about to be free.
void ABSL_INTERNAL_C_SYMBOL(AbslInternalMutexYield)() {
  if (SeededExecution* const seeded = SeededExecution::OfThread()) {
    seeded->Pause(absl::ZeroDuration());
  } else {
    sched_yield();
  }
}

void ABSL_INTERNAL_C_SYMBOL(AbslInternalSleepFor)(absl::Duration duration) {
  if (SeededExecution* const seeded = SeededExecution::OfThread()) {
    seeded->Pause(duration);
    return;
  }
  timespec left = absl::ToTimespec(duration);
  while (nanosleep(&left, &left) != 0) {
  }
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
