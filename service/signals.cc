#include "service/signals.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

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

}  // namespace

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
  const absl::Time began = absl::Now();
  const sigset_t set = Set();
  while (true) {
    const int signal = ::sigwaitinfo(&set, nullptr);
    if (signal <= 0) continue;
    if (!Drains(signal)) {
      Handle(signal);
    } else if (absl::Now() - began >= kDuplicates) {
      return signal;
    } else {
      log_->Log("repeated signal", LogLevel::kInfo, "signal repeated",
                {{"signal", NameOf(signal)}, LogField::Message("the drain goes on")});
    }
  }
}

}  // namespace packhouse
