// Values that are read under locks, for callers that must not wait for locks.
#ifndef PACKHOUSE_SERVICE_BASE_RECENT_VALUE_H_
#define PACKHOUSE_SERVICE_BASE_RECENT_VALUE_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace packhouse {

// Reads a value on another thread, and gives the value that was read last if that takes long.
// Thread-safe.
template <typename Value>
class RecentValue {
 public:
  using Read = std::function<Value()>;
  using Submit = std::function<void(std::function<void()>)>;

  // Jobs given to `submit` run `read`, one at a time, until Stop().
  RecentValue(Read read, Submit submit, absl::Duration longest_wait)
      : state_(std::make_shared<State>(std::move(read))),
        submit_(std::move(submit)),
        longest_wait_(longest_wait) {}
  ~RecentValue() { Stop(); }
  RecentValue(const RecentValue&) = delete;
  RecentValue& operator=(const RecentValue&) = delete;

  // The present value, or the value that was read last; Value() if there is none.
  Value Get() {
    State& state = *state_;
    bool begins = false;
    {
      absl::MutexLock lock(&state.mutex);
      begins = !std::exchange(state.is_reading, true);
    }
    if (begins) {
      submit_([shared = state_] { shared->ReadOnce(); });
    }
    absl::MutexLock lock(&state.mutex);
    state.mutex.AwaitWithTimeout(absl::Condition(&state, &State::IsRead), longest_wait_);
    return state.value;
  }

  // Stops reading; waits until no read is running. The value that was read last stays.
  void Stop() {
    absl::MutexLock lock(&state_->read_mutex);
    state_->read = nullptr;
  }

 private:
  struct State {
    explicit State(Read reads) : read(std::move(reads)) {}

    void ReadOnce() {
      std::optional<Value> now;
      {
        absl::MutexLock lock(&read_mutex);
        if (read) now = read();
      }
      absl::MutexLock lock(&mutex);
      if (now) value = *std::move(now);
      is_reading = false;
    }
    bool IsRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !is_reading; }

    absl::Mutex read_mutex;  // Held during a read.
    Read read ABSL_GUARDED_BY(read_mutex);
    absl::Mutex mutex;
    bool is_reading ABSL_GUARDED_BY(mutex) = false;
    Value value ABSL_GUARDED_BY(mutex) = Value();
  };

  const std::shared_ptr<State> state_;
  const Submit submit_;
  const absl::Duration longest_wait_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_RECENT_VALUE_H_
