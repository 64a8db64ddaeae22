#include "service/program/signals.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/steady_waits.h"

namespace packhouse {
namespace {

constexpr int kDraining[] = {SIGTERM, SIGINT, SIGQUIT};
constexpr int kOthers[] = {SIGHUP, SIGUSR1, SIGUSR2};
constexpr absl::Duration kDuplicates = absl::Seconds(1);

sigset_t Set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kDraining) sigaddset(&set, signal);
  for (const int signal : kOthers) sigaddset(&set, signal);
  return set;
}

bool Drains(int signal) {
  for (const int each : kDraining) {
    if (each == signal) return true;
  }
  return false;
}

// Wakes the thread that waits for signals while the server starts; it is sent to that thread alone.
int Wake() { return SIGRTMIN; }

std::thread& StartingThread() {
  static std::thread& thread = *new std::thread;
  return thread;
}

}  // namespace

void Signals::Started() {
  std::thread& thread = StartingThread();
  if (!thread.joinable()) return;
  ::pthread_kill(thread.native_handle(), Wake());
  thread.join();
}

void Signals::EndAtOnceWhileStarting(std::function<void(int signal)> end) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kDraining) sigaddset(&set, signal);
  sigaddset(&set, Wake());
  // Its threads, too: they inherit the mask.
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  StartingThread() = std::thread([set, end = std::move(end)] {
    for (;;) {
      const int signal = ::sigwaitinfo(&set, nullptr);
      if (signal == Wake()) return;
      if (signal > 0) end(signal);
    }
  });
}

void Signals::Block() {
  ::signal(SIGPIPE, SIG_IGN);
  // A file that may not grow is like a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  const sigset_t set = Set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

std::string Signals::NameOf(int signal) { return absl::StrCat("SIG", ::sigabbrev_np(signal)); }

void Signals::Handle(int signal) const {
  const std::string name = NameOf(signal);
  if (signal == SIGHUP) {
    log_->Log(name, LogLevel::kInfo, "reloading", {{"signal", name}});
    reload_();
  } else {
    log_->Log(name, LogLevel::kInfo, "signal ignored",
              {{"signal", name}, LogField::Message("it has no meaning here")});
  }
}

int Signals::AwaitDrain(absl::Duration interval, const std::function<void()>& tick) const {
  const sigset_t set = Set();
  const timespec wait = absl::ToTimespec(interval);
  while (true) {
    const int signal = ::sigtimedwait(&set, nullptr, &wait);
    if (Drains(signal)) return signal;
    if (signal > 0) Handle(signal);
    tick();
  }
}

int Signals::AwaitEnd() const {
  const absl::Time began = SteadyTime();
  const sigset_t set = Set();
  while (true) {
    const int signal = ::sigwaitinfo(&set, nullptr);
    if (signal <= 0) continue;
    if (!Drains(signal)) {
      Handle(signal);
    } else if (SteadyTime() - began >= kDuplicates) {
      return signal;
    } else {
      log_->Log("repeated signal", LogLevel::kInfo, "signal repeated",
                {{"signal", NameOf(signal)}, LogField::Message("the drain goes on")});
    }
  }
}

}  // namespace packhouse
