#include "service/base/execution.h"

#include <exception>
#include <thread>

#include "absl/time/clock.h"
#include "service/base/out_of_memory.h"

namespace packhouse {
namespace {

constexpr int kWakeTries = 1000;

thread_local Execution* replacement = nullptr;

class SystemThread final : public Execution::Begun {
 public:
  explicit SystemThread(std::function<void()> work) : thread_(std::move(work)) {}
  ~SystemThread() override {
    if (thread_.joinable()) thread_.detach();
  }
  void Join() override { thread_.join(); }

 private:
  std::thread thread_;
};

class ThreadExecution final : public Execution {
 public:
  std::unique_ptr<Begun> Begin(std::function<void()> work) override {
    return std::make_unique<SystemThread>(std::move(work));
  }
  void Pause(absl::Duration length) override {
    if (length > absl::ZeroDuration()) {
      absl::SleepFor(length);
    } else {
      std::this_thread::yield();
    }
  }
  // Waits of the machine's threads are those of steady_waits.cc.
  bool Block(std::atomic<int32_t>& /*wakes*/, bool /*is_timed*/) override { return false; }
};

}  // namespace

Execution& Execution::Current() {
  static Execution& machine = *new ThreadExecution;
  return replacement == nullptr ? machine : *replacement;
}

Execution* Execution::Replacement() { return replacement; }

void Execution::Enter(Execution* execution) { replacement = execution; }

std::vector<Thread> BeginThreads(size_t count, const std::function<void()>& work) noexcept {
  std::vector<Thread> threads;
  try {
    threads.reserve(count);
    while (threads.size() < count) threads.emplace_back(work);
  } catch (...) {
    // Here, where the exception is known, and those that were begun are not waited for.
    std::terminate();
  }
  return threads;
}

void Pause(absl::Duration length) { Execution::Current().Pause(length); }

Repeating::Repeating(std::function<absl::Duration()> pause, std::function<void()> work)
    : thread_([this, pause = std::move(pause), work = std::move(work)] {
        while (!stop_.WaitForNotificationWithTimeout(pause())) RunWithinMemory(work);
      }) {}

void Wake(const std::function<void()>& wake) {
  for (int tries = 1; !RunWithinMemory(wake) && tries < kWakeTries; ++tries) {
    Pause(absl::ZeroDuration());
  }
}

}  // namespace packhouse
