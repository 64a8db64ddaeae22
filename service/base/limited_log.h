// A log for events that clients can cause as often as they like.
#ifndef PACKHOUSE_SERVICE_BASE_LIMITED_LOG_H_
#define PACKHOUSE_SERVICE_BASE_LIMITED_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/base/event_log.h"

namespace packhouse {

// Passes events on, at a bounded rate for each key and for all together, and counts the others. So
// no event goes unnoticed, and no client can fill the disk with log lines. Thread-safe; O(1) for
// each event, and max_keys short entries of memory.
class LimitedLog {
 public:
  struct Bounds {
    // For each key: this many at once, then one each interval.
    double burst = 5;
    absl::Duration interval = absl::Seconds(10);
    // For all keys together.
    double total_burst = 50;
    absl::Duration total_interval = absl::Milliseconds(250);
    // The most distinct keys; further keys share one.
    size_t max_keys = 1024;
    // The most keys that one LogSuppressed() names.
    size_t max_named = 8;
  };

  // `now` must be thread-safe, and `log` must outlive this.
  using Now = std::function<absl::Time()>;
  LimitedLog(EventLog* log, Now now) : LimitedLog(log, std::move(now), Bounds()) {}
  LimitedLog(EventLog* log, Now now, const Bounds& bounds)
      : log_(log), now_(std::move(now)), bounds_(bounds), total_(bounds.total_burst) {}

  // Events with the same key are alike, so the first ones are enough. If some were suppressed since
  // the key's last event, a field "suppressed" has their number. An event is dropped if there is no
  // memory.
  void Log(absl::string_view key, LogLevel level, absl::string_view event,
           absl::Span<const LogField> fields);

  // Reports how many events were suppressed and not reported yet, by key, the most frequent first;
  // the rest in one number. Call it now and then, and at the end: it also makes room for other
  // keys. O(keys).
  void LogSuppressed();

 private:
  void LogSuppressedIfThereIsMemory();
  void LogIfThereIsMemory(absl::string_view key, LogLevel level, absl::string_view event,
                          absl::Span<const LogField> fields);

  // A token bucket: fills with time, up to its burst.
  struct Bucket {
    explicit Bucket(double burst) : tokens(burst) {}
    void Fill(absl::Time now, double burst, absl::Duration interval);

    double tokens;
    absl::Time filled = absl::InfinitePast();
  };
  struct Key {
    explicit Key(double burst) : bucket(burst) {}

    Bucket bucket;
    uint64_t suppressed = 0;
  };

  Key& FindKey(absl::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops keys whose buckets are full again.
  void ForgetQuiet(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EventLog* const log_;
  const Now now_;
  const Bounds bounds_;
  absl::Mutex mutex_;
  Bucket total_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Key> keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_LIMITED_LOG_H_
