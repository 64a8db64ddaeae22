// One thread at a time, in an order and by a time that a seed decides: for tests of code that has
// many threads, and stores and servers that are beside each other in one process.
//
// Between two steps, which are waits, pauses, ends, and now and then the taking of a mutex, the
// next thread is drawn among those that can go on. When none can, time goes on to the first wait
// that ends by itself; now and then it does so earlier, as on a slow machine. The threads are the
// system's, which hand a baton on, so that code has its own stacks and thread-local things; all
// that abseil's mutexes do to them is seen (service/base/steady_waits.h), also by who holds another
// one.
//
// A test program has it by packhouse_seeded_test(). Not for ThreadSanitizer, where abseil waits by
// itself: nothing is at a time in it.
#ifndef PACKHOUSE_TESTS_SUPPORT_SEEDED_EXECUTION_H_
#define PACKHOUSE_TESTS_SUPPORT_SEEDED_EXECUTION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "tests/support/random.h"

namespace packhouse {

// Its threads alone use it, but for the constructor and Run(). It ends the process, saying what
// each thread waits for, if none can ever go on, or if one waits for another in a way that is not
// Execution's.
class SeededExecution final : public Execution {
 public:
  explicit SeededExecution(uint64_t seed);
  ~SeededExecution() override;

  // Runs `work` and all that it begins; returns when all of it has ended. Once.
  void Run(std::function<void()> work);

  // By which its timed waits end. Callbacks run on threads of their own.
  Clock& clock() { return clock_; }
  // A part of the trace.
  void Note(absl::string_view what);
  // What ran when, and what was noted: two runs are the same if these are. The last is a digest of
  // all steps.
  struct Trace {
    std::vector<std::string> notes;
    uint64_t steps = 0;
    uint64_t digest = 0;
    friend bool operator==(const Trace&, const Trace&) = default;
  };
  const Trace& trace() const { return trace_; }

  std::unique_ptr<Begun> Begin(std::function<void()> work) override;
  void Pause(absl::Duration length) override;
  bool Block(std::atomic<int32_t>& wakes, bool is_timed) override;

  // The calling thread's; null if it has none.
  static SeededExecution* OfThread();
  // Perhaps lets others go first.
  void MayYield();
  // The next waits that are timed take so long: abseil's own time is the machine's. Returns the end
  // that was set before.
  absl::Time SetEndOfWaits(absl::Duration length);
  void ResetEndOfWaits(absl::Time end);

 private:
  class BegunMember;
  class OwnClock final : public Clock {
   public:
    explicit OwnClock(SeededExecution* execution) : execution_(execution) {}
    absl::Time Now() const override;
    void CallAt(absl::Time time, std::function<void()> callback) override;

   private:
    SeededExecution* const execution_;
  };

  struct Member {
    size_t number = 0;
    // What it waits for: one of these, the first of which comes; none of them: only its turn.
    std::atomic<int32_t>* wakes = nullptr;
    const Member* ends = nullptr;
    absl::Time until = absl::InfinitePast();
    bool has_ended = false;
    absl::Time end_of_waits = absl::InfiniteFuture();
    std::condition_variable turn;
    std::thread thread;
  };
  using Lock = std::unique_lock<std::mutex>;

  static bool CanGoOn(const Member& member, absl::Time now);
  // Hands the baton on, and waits until it comes back; not if the member has ended.
  void PassOn(Lock& lock, Member& self);
  Member* Draw();
  [[noreturn]] void Fail(absl::string_view why) const;

  static thread_local Member* self_;

  std::mutex mutex_;
  Random random_;
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);
  absl::Time now_ = start_;
  std::vector<std::unique_ptr<Member>> members_;
  Member* running_ = nullptr;  // Null: before the first and after the last step.
  std::condition_variable all_ended_;
  Trace trace_;
  OwnClock clock_{this};
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_SEEDED_EXECUTION_H_
