// The epoch that a job loads next, made ready while the one before it is delivered.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_NEXT_EPOCH_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_NEXT_EPOCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

// One epoch at a time, each once. What is held of it is destroyed without a lock. Thread-safe.
class NextEpoch {
 public:
  // True if the caller must have the epoch made ready: it was another before, or none. What was
  // held of that one is let go.
  bool Begin(uint64_t epoch);
  // Whether it is the one that was begun last.
  bool IsWanted(uint64_t epoch) const;
  // How whoever makes it is told that somebody waits for it; called at once if somebody does.
  void SetHurry(uint64_t epoch, std::function<void()> hurry);
  // Somebody waits for the epoch from now on. `hurry` is called on this thread.
  void Await(uint64_t epoch);
  // It is ready: `made` is held until another is begun, unless another was.
  void Keep(uint64_t epoch, std::shared_ptr<const void> made);
  // Nothing is wanted any more, and nothing held.
  void Clear();

  // Whether something is held.
  bool has_made() const;

 private:
  struct State {
    std::optional<uint64_t> epoch = std::nullopt;
    bool is_awaited = false;
    std::function<void()> hurry = nullptr;
    std::shared_ptr<const void> made = nullptr;
  };

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_NEXT_EPOCH_H_
