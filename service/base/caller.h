// The call that a thread works for, as far as code must know of it that waits for other machines.
//
// Who works on a call says so on its thread (CallerScope). Code far below that waits for a store
// then ends when nobody wants the result any more, and lets others work meanwhile (BeginWait()),
// without a word of it in the interfaces between.
#ifndef PACKHOUSE_SERVICE_BASE_CALLER_H_
#define PACKHOUSE_SERVICE_BASE_CALLER_H_

#include <utility>

#include "absl/status/status.h"

namespace packhouse {

class Caller {
 public:
  virtual ~Caller() = default;
  // Whether nobody waits for the result any more. Cheap, never blocks. Thread-safe.
  virtual bool IsGone() const = 0;
  // The thread is about to wait, perhaps for long: what others can use meanwhile, such as a turn at
  // planning, is theirs. Never blocks. Only the call's own thread calls it.
  virtual void OnWait() {}
};

namespace caller_internal {
// Null: the thread works for nobody in particular, or for several.
inline constinit thread_local Caller* current = nullptr;
}  // namespace caller_internal

inline Caller* CurrentCaller() { return caller_internal::current; }

// Until its end this thread works for `caller`, which must outlive it, or, with null, for nobody in
// particular.
class CallerScope {
 public:
  explicit CallerScope(Caller* caller) : before_(std::exchange(caller_internal::current, caller)) {}
  ~CallerScope() { caller_internal::current = before_; }
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  Caller* const before_;
};

// Of a thread that helps another: it has no turn to give up.
class HelpedCaller final : public Caller {
 public:
  // Null as in CallerScope. `caller` must outlive it.
  explicit HelpedCaller(const Caller* caller) : caller_(caller) {}
  bool IsGone() const override { return caller_ != nullptr && caller_->IsGone(); }

 private:
  const Caller* const caller_;
};

// CANCELLED if the thread's call is gone. Nobody in particular never is.
inline absl::Status CheckCaller() {
  const Caller* const caller = CurrentCaller();
  if (caller == nullptr || !caller->IsGone()) return absl::OkStatus();
  return absl::CancelledError("the client cancelled or is gone");
}

// The same before each wait for another machine; tells the call of the wait.
inline absl::Status BeginWait() {
  if (Caller* const caller = CurrentCaller(); caller != nullptr) caller->OnWait();
  return CheckCaller();
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_CALLER_H_
