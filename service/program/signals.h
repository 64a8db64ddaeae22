// What signals mean to packhoused.
#ifndef PACKHOUSE_SERVICE_PROGRAM_SIGNALS_H_
#define PACKHOUSE_SERVICE_PROGRAM_SIGNALS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "service/base/limited_log.h"

namespace packhouse {

// SIGTERM, SIGINT and SIGQUIT drain; SIGHUP reloads; SIGUSR1 and SIGUSR2 are noticed and do
// nothing; SIGPIPE is ignored: a lost connection is an error of the call that writes to it.
class Signals {
 public:
  // Must be called once, before there are threads, which inherit the mask: signals are waited for,
  // not handled. Signals that come before AwaitDrain() are not lost.
  static void Block();

  // From now on, until Started(), a signal that drains ends the process at once: it
  // serves nobody yet, and what it waits for, such as a store that does not answer, may never come.
  // `end` is called then, on a thread, and must not return. May be called once, after Block().
  static void EndAtOnceWhileStarting(std::function<void(int signal)> end);
  // Signals wait for AwaitDrain() again. To be called before anybody hears that the server serves.
  static void Started();

  // "SIGTERM".
  static std::string NameOf(int signal);

  // `log` must outlive it. `reload`: what SIGHUP does.
  Signals(LimitedLog* log, std::function<void()> reload) : log_(log), reload_(std::move(reload)) {}

  // Waits for a signal that drains, and returns it. Meanwhile calls `tick` every `interval`.
  int AwaitDrain(absl::Duration interval, const std::function<void()>& tick) const;

  // Waits for a signal that ends the process at once, and returns it: a signal that drains, a
  // second or more after this call. Earlier ones are repetitions, since supervisors may send a
  // signal twice.
  int AwaitEnd() const;

 private:
  // What a signal that does not drain does.
  void Handle(int signal) const;

  LimitedLog* const log_;
  const std::function<void()> reload_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SIGNALS_H_
