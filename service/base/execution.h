// How the service does several things at a time: threads, pauses and waits.
//
// Each thread has an execution, and what it begins has the same: so execution is handed on from
// thread to thread, and no constructor names it. The machine's has threads of the system. A test's
// may run the same code one thread at a time, in an order and by a time of its own
// (tests/support/seeded_execution.h). Waits are those of absl::Mutex and absl::Notification: all of
// them come to Block() (steady_waits.h). Timers are the clock's (clock.h).
//
// Nothing else in service/ names a thread of the system, a condition variable or a sleep, but for
// the edges that tests/structure/execution_test.py lists.
#ifndef PACKHOUSE_SERVICE_BASE_EXECUTION_H_
#define PACKHOUSE_SERVICE_BASE_EXECUTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace packhouse {

// Thread-safe.
class Execution {
 public:
  virtual ~Execution() = default;

  // The calling thread's.
  static Execution& Current();
  // The same; null for the machine's.
  static Execution* Replacement();

  // A thread that was begun. One that is destroyed without Join() goes on by itself.
  class Begun {
   public:
    virtual ~Begun() = default;
    // Waits for its end. May be called once.
    virtual void Join() = 0;
  };
  // Runs `work` on another thread. std::system_error if the machine has no more of them.
  virtual std::unique_ptr<Begun> Begin(std::function<void()> work) = 0;

  virtual void Pause(absl::Duration length) = 0;

  // Takes one of `wakes` as soon as there is one. A wait that is timed is given up at its end:
  // false. Only replacements are asked.
  virtual bool Block(std::atomic<int32_t>& wakes, bool is_timed) = 0;

 protected:
  // From now on the calling thread's. Null: the machine's.
  static void Enter(Execution* execution);
};

// A thread of the caller's execution. Its destructor waits for its end. Thread-compatible.
class Thread {
 public:
  Thread() = default;
  // Errors as Execution::Begin().
  explicit Thread(std::function<void()> work)
      : begun_(Execution::Current().Begin(std::move(work))) {}
  ~Thread() { Join(); }
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) {  // NOLINT(performance-noexcept-*): it waits.
    Join();
    begun_ = std::move(other.begun_);
    return *this;
  }

  // Whether it was begun, and neither Join() nor Detach() was called.
  bool is_begun() const { return begun_ != nullptr; }
  // Waits for its end, if it was begun.
  void Join() {
    if (const auto begun = std::move(begun_)) begun->Join();
  }
  // It goes on until the process ends.
  void Detach() { begun_ = nullptr; }

 private:
  std::unique_ptr<Execution::Begun> begun_;
};

// Threads that all do `work`. A process that cannot have them ends.
std::vector<Thread> BeginThreads(size_t count, const std::function<void()>& work) noexcept;

// Lets the calling thread do nothing for so long; zero: lets others go first.
void Pause(absl::Duration length);

// Does `work` again and again, on a thread of its own, each time after a pause. Work for which
// there is no memory is left to the next time.
class Repeating {
 public:
  // `pause` says before each turn how long to wait.
  Repeating(std::function<absl::Duration()> pause, std::function<void()> work);
  Repeating(absl::Duration period, std::function<void()> work)
      : Repeating([period] { return period; }, std::move(work)) {}
  // Waits for work that is under way.
  ~Repeating() { stop_.Notify(); }
  Repeating(const Repeating&) = delete;
  Repeating& operator=(const Repeating&) = delete;

  // The same until the process ends.
  template <typename Pauses>
  static void ForEver(Pauses pauses, std::function<void()> work) {
    static_cast<void>(new Repeating(std::move(pauses), std::move(work)));
  }

 private:
  absl::Notification stop_;
  Thread thread_;  // Ends before the others do.
};

// Runs `wake`, which says that somebody may go on. A lost one would make them wait for ever, so
// without memory it is tried again for a while: there may be some soon.
void Wake(const std::function<void()>& wake);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_EXECUTION_H_
