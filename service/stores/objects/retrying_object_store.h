// An object store that tries again what failed for now.
#ifndef PACKHOUSE_SERVICE_STORES_OBJECTS_RETRYING_OBJECT_STORE_H_
#define PACKHOUSE_SERVICE_STORES_OBJECTS_RETRYING_OBJECT_STORE_H_

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/seeded_random.h"
#include "service/stores/objects/object_store.h"

namespace packhouse {

// What ends UNAVAILABLE or DEADLINE_EXCEEDED is tried again, after a time that doubles, half of
// which is random, until the call's deadline or the last attempt; then the last error is the
// answer. Each attempt has a deadline of its own, so that a store that hangs is noticed. A Get goes
// on behind the bytes that its sink already has. CANCELLED if the caller (base/caller.h) is gone;
// this is noticed between two attempts, and by a store that looks out for it. Thread-safe.
class RetryingObjectStore final : public ObjectStore {
 public:
  struct Options {
    int max_attempts = 8;
    absl::Duration first_delay = absl::Milliseconds(50);
    absl::Duration longest_delay = absl::Seconds(5);
    // The time of one attempt: this, and as long as its bytes take at `slowest`, in bytes a second.
    absl::Duration attempt = absl::Seconds(10);
    uint64_t slowest = uint64_t{1} << 20;
    uint64_t seed = 0;
  };
  using Sleep = std::function<void(absl::Duration)>;

  // `store` and `clock` must outlive it. `sleep` waits that long: Pause(), or a test's.
  RetryingObjectStore(ObjectStore* store, const Clock* clock, Sleep sleep, const Options& options)
      : store_(store),
        clock_(clock),
        sleep_(std::move(sleep)),
        options_(options),
        random_(options.seed) {}

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override;
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override;
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override;
  absl::Status Delete(absl::string_view key, absl::Time deadline) override;

  // Attempts that failed and were followed by another.
  uint64_t num_retries() const;

 private:
  // `attempt` gets its deadline. `num_bytes`: about what it moves.
  absl::Status Try(uint64_t num_bytes, absl::Time deadline,
                   absl::FunctionRef<absl::Status(absl::Time)> attempt);
  absl::Duration Delay(int failures);

  ObjectStore* const store_;
  const Clock* const clock_;
  const Sleep sleep_;
  const Options options_;

  mutable absl::Mutex mutex_;
  SeededRandom random_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_retries_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_OBJECTS_RETRYING_OBJECT_STORE_H_
