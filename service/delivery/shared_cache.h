// Values that are made once and shared by all who ask for them.
#ifndef PACKHOUSE_SERVICE_DELIVERY_SHARED_CACHE_H_
#define PACKHOUSE_SERVICE_DELIVERY_SHARED_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

// Finds every value that someone holds, and keeps the last `capacity` that were made alive besides.
// Who asks for a value that another is making waits for it. Thread-safe.
template <typename Value>
class SharedCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit SharedCache(size_t capacity) : capacity_(capacity) {}

  // Errors are those of `make`, and are not kept.
  absl::StatusOr<Pointer> Get(const std::string& key,
                              absl::FunctionRef<absl::StatusOr<Pointer>()> make) {
    std::shared_ptr<Slot> slot;
    {
      absl::MutexLock lock(&mutex_);
      std::shared_ptr<Slot>& found = slots_[key];
      if (found == nullptr) found = std::make_shared<Slot>();
      slot = found;
    }
    absl::MutexLock making(&slot->mutex);
    if (Pointer value = slot->value.lock()) return value;
    absl::StatusOr<Pointer> made = make();
    if (!made.ok()) return made;
    slot->value = *made;
    absl::MutexLock lock(&mutex_);
    // Dropped while it was made: for who waits for it, and nobody else.
    if (const auto found = slots_.find(key); found == slots_.end() || found->second != slot) {
      return made;
    }
    recent_.emplace_back(key, *made);
    if (recent_.size() > capacity_) recent_.pop_front();
    RemoveDeadSlots();
    return made;
  }

  // Forgets all values whose keys begin so, those that are in the making too: who holds one or
  // waits for one has it, and the next to ask makes it anew.
  void Drop(absl::string_view prefix) {
    std::deque<std::pair<std::string, Pointer>> dropped;  // Destroyed without the lock.
    absl::MutexLock lock(&mutex_);
    auto slot = slots_.lower_bound(std::string(prefix));
    while (slot != slots_.end() && absl::StartsWith(slot->first, prefix)) slot = slots_.erase(slot);
    const auto kept = std::stable_partition(recent_.begin(), recent_.end(), [&](const auto& entry) {
      return !absl::StartsWith(entry.first, prefix);
    });
    std::move(kept, recent_.end(), std::back_inserter(dropped));
    recent_.erase(kept, recent_.end());
  }

 private:
  struct Slot {
    absl::Mutex mutex;  // Held while the value is made; taken before the cache's own.
    std::weak_ptr<const Value> value ABSL_GUARDED_BY(mutex);
  };

  // Slots that nobody is at, whose values are gone; now and then, so that this costs O(1) a value.
  void RemoveDeadSlots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (slots_.size() < next_clean_up_) return;
    for (auto slot = slots_.begin(); slot != slots_.end();) {
      const bool dead = slot->second.use_count() == 1 && IsDead(*slot->second);
      slot = dead ? slots_.erase(slot) : std::next(slot);
    }
    next_clean_up_ = 2 * (slots_.size() + capacity_);
  }
  // Of a slot that only the cache has: nobody can take its lock.
  static bool IsDead(const Slot& slot) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return slot.value.expired();
  }

  const size_t capacity_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, Pointer>> recent_ ABSL_GUARDED_BY(mutex_);
  size_t next_clean_up_ ABSL_GUARDED_BY(mutex_) = 16;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_SHARED_CACHE_H_
