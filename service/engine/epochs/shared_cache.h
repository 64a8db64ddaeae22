// Values that are made once and shared by all callers.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHARED_CACHE_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHARED_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace packhouse {

// Finds every value that somebody uses. Also keeps the last used values, up to a number of bytes;
// used values stay, however large. A caller that asks for a value that another caller is making
// waits for it. Thread-safe. It calls no given function, and destroys no value, under its lock.
template <typename Value>
class SharedCache {
 public:
  // A value is used until the last copy of its pointer is gone. The pointer may outlive the cache.
  using Pointer = std::shared_ptr<const Value>;

  // `kept_bytes`: the bound for values that nobody uses. `bytes_of`: the bytes of a value, with
  // everything that is kept only for it.
  SharedCache(uint64_t kept_bytes, std::function<uint64_t(const Value&)> bytes_of)
      : bytes_of_(std::move(bytes_of)), core_(std::make_shared<Core>(kept_bytes)) {}

  // Errors are those of `make`. They go to all callers that wait for the value, and are not kept.
  // After CANCELLED, which means that the maker has given up, another waiting caller makes the
  // value. A waiting caller's `is_cancelled` is asked every few milliseconds; if it is true, the
  // caller leaves with CANCELLED. `is_cancelled` may take long: no other caller waits for its
  // answer.
  absl::StatusOr<Pointer> Get(const std::string& key, absl::FunctionRef<bool()> is_cancelled,
                              absl::FunctionRef<absl::StatusOr<Pointer>()> make) {
    Visit visit(core_, key);
    // Asked once before the wait: a caller that must not wait need not.
    for (absl::Duration wait;; wait = kAskEvery) {
      switch (visit.FindOrBegin(wait)) {
        case Finding::kValue:
          return visit.Handle();
        case Finding::kError:
          return visit.error();
        case Finding::kBeingMade:
          if (is_cancelled()) return absl::CancelledError("given up by the caller");
          continue;
        case Finding::kToMake: {
          absl::StatusOr<Pointer> made = make();
          if (!made.ok()) {
            visit.EndWithout(absl::IsCancelled(made.status()) ? absl::OkStatus() : made.status());
            return made;
          }
          visit.EndWith(*made, bytes_of_(**made));
          return visit.Handle();
        }
      }
    }
  }

  // The value if there is one; null if there is none or it is being made.
  Pointer Find(const std::string& key) {
    Visit visit(core_, key);
    return visit.Find() ? visit.Handle() : nullptr;
  }

  // Forgets all values whose keys have the prefix, also those that are being made. Callers that use
  // them or wait for them keep them.
  void Drop(absl::string_view prefix) {
    while (core_->DropFirst(prefix)) {
    }
  }

  // The keys of all values, also of those that are being made, in ascending order.
  std::vector<std::string> Keys() const { return core_->Keys(); }

  // Forgets the values that nobody has used since the last call of this.
  void ForgetIdle() { core_->ForgetIdle(); }

  // Forgets the value that has been unused for the longest time; false if there is none.
  bool ForgetOldest() { return core_->ForgetOldestAbove(0); }

  // Bytes of the values that nobody uses.
  uint64_t unused_bytes() const { return core_->unused_bytes(); }

 private:
  // Time between two questions whether the value is still wanted.
  static constexpr absl::Duration kAskEvery = absl::Milliseconds(5);

  enum class Finding { kValue, kError, kBeingMade, kToMake };

  // The slot of a key, as long as it is used or has a value. Guarded by the core's mutex.
  struct Slot {
    // Its key no longer finds it: the value is destroyed when nobody uses it.
    bool is_dropped = false;
    bool is_being_made = false;
    // How often making has ended; and the status of the last time, if no other caller should try.
    uint64_t num_attempts = 0;
    absl::Status error;
    Pointer value;
    uint64_t bytes = 0;
    size_t num_visits = 0;
    size_t num_handles = 0;
    bool is_idle = false;  // Unused since ForgetIdle() was called.
    typename std::map<std::string, std::shared_ptr<Slot>>::iterator place;
    // One entry, here or in the core's list of unused slots. Moving it does not allocate.
    std::list<Slot*> entry = {this};
    typename std::list<Slot*>::iterator in_unused = entry.begin();
  };

  // The part that outlives the cache while values are used.
  class Core {
   public:
    explicit Core(uint64_t kept_bytes) : kept_bytes_(kept_bytes) {}

    std::shared_ptr<Slot> Enter(const std::string& key, uint64_t& num_attempts) {
      absl::MutexLock lock(&mutex_);
      const auto place = slots_.try_emplace(key).first;
      if (place->second == nullptr) {
        place->second = std::make_shared<Slot>();
        place->second->place = place;
      }
      Slot& slot = *place->second;
      ++slot.num_visits;
      num_attempts = slot.num_attempts;
      return place->second;
    }
    void Leave(Slot& slot) {
      absl::MutexLock lock(&mutex_);
      --slot.num_visits;
      EraseIfIdle(slot);
    }

    // Waits at most `wait` if the value is being made. With kValue a handle is counted.
    Finding FindOrBegin(Slot& slot, absl::Duration wait, uint64_t& num_attempts,
                        absl::Status& error) {
      absl::MutexLock lock(&mutex_);
      if (slot.value == nullptr && slot.is_being_made) {
        const auto has_ended = [&slot] { return !slot.is_being_made; };
        mutex_.AwaitWithTimeout(absl::Condition(&has_ended), wait);
      }
      if (slot.value != nullptr) {
        CountHandle(slot);
        return Finding::kValue;
      }
      if (slot.num_attempts != num_attempts) {
        num_attempts = slot.num_attempts;
        error = slot.error;
        if (!error.ok()) return Finding::kError;
      }
      if (slot.is_being_made) return Finding::kBeingMade;
      slot.is_being_made = true;
      return Finding::kToMake;
    }

    // With a value a handle is counted.
    // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved, which templates hide.
    void EndMaking(Slot& slot, absl::Status error, Pointer value, uint64_t bytes) {
      absl::MutexLock lock(&mutex_);
      slot.is_being_made = false;
      ++slot.num_attempts;
      slot.error = std::move(error);
      if (value == nullptr) return;
      slot.value = std::move(value);
      slot.bytes = std::max<uint64_t>(bytes, 1);
      CountHandle(slot);
    }

    void ReleaseHandle(Slot& slot) {
      {
        Pointer unwanted;  // Destroyed without the lock, as below.
        absl::MutexLock lock(&mutex_);
        if (--slot.num_handles != 0) return;
        if (slot.is_dropped) {
          unwanted = std::move(slot.value);
        } else {
          unused_.splice(unused_.end(), slot.entry);
          unused_bytes_ += slot.bytes;
        }
      }
      while (ForgetOldestAbove(kept_bytes_)) {
      }
    }

    // Forgets the oldest value if more than `bytes` are unused; returns whether it did.
    bool ForgetOldestAbove(uint64_t bytes) {
      Pointer forgotten;
      absl::MutexLock lock(&mutex_);
      if (unused_bytes_ <= bytes) return false;
      Slot& oldest = *unused_.front();
      forgotten = TakeUnused(oldest);
      EraseIfIdle(oldest);
      return true;
    }

    // Whether there is a value; then a handle is counted.
    bool Find(Slot& slot) {
      absl::MutexLock lock(&mutex_);
      if (slot.value == nullptr) return false;
      CountHandle(slot);
      return true;
    }

    // Drops the first value whose key has the prefix; false if there is none.
    bool DropFirst(absl::string_view prefix) {
      Pointer dropped;
      absl::MutexLock lock(&mutex_);
      const auto first = slots_.lower_bound(std::string(prefix));
      if (first == slots_.end() || !absl::StartsWith(first->first, prefix)) return false;
      const std::shared_ptr<Slot> slot = std::move(first->second);
      slots_.erase(first);
      slot->is_dropped = true;
      if (slot->value != nullptr && slot->num_handles == 0) dropped = TakeUnused(*slot);
      return true;
    }

    std::vector<std::string> Keys() const {
      absl::MutexLock lock(&mutex_);
      std::vector<std::string> keys;
      keys.reserve(slots_.size());
      for (const auto& [key, slot] : slots_) keys.push_back(key);
      return keys;
    }

    void ForgetIdle() {
      std::vector<Pointer> idle;  // Destroyed without the lock.
      absl::MutexLock lock(&mutex_);
      for (auto next = unused_.begin(); next != unused_.end();) {
        Slot& slot = **next++;
        if (!slot.is_idle) {
          slot.is_idle = true;
          continue;
        }
        idle.push_back(TakeUnused(slot));
        EraseIfIdle(slot);
      }
    }

    uint64_t unused_bytes() const {
      absl::MutexLock lock(&mutex_);
      return unused_bytes_;
    }

   private:
    void CountHandle(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      slot.is_idle = false;
      if (slot.num_handles++ != 0 || slot.entry.size() == 1) return;
      slot.entry.splice(slot.entry.end(), unused_, slot.in_unused);
      unused_bytes_ -= slot.bytes;
    }
    Pointer TakeUnused(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      slot.entry.splice(slot.entry.end(), unused_, slot.in_unused);
      unused_bytes_ -= slot.bytes;
      return std::move(slot.value);
    }
    void EraseIfIdle(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (slot.is_dropped || slot.is_being_made || slot.num_visits != 0 || slot.value != nullptr) {
        return;
      }
      slots_.erase(slot.place);
    }

    const uint64_t kept_bytes_;
    mutable absl::Mutex mutex_;
    std::map<std::string, std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
    // The value that has been unused for the longest time comes first.
    std::list<Slot*> unused_ ABSL_GUARDED_BY(mutex_);
    uint64_t unused_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  // One caller's visit. If it leaves without having finished the value that it makes, another
  // caller makes it.
  class Visit {
   public:
    Visit(std::shared_ptr<Core> core, const std::string& key)
        : core_(std::move(core)), slot_(core_->Enter(key, num_attempts_)) {}
    ~Visit() {
      if (is_making_) EndWithout(absl::OkStatus());
      core_->Leave(*slot_);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    Finding FindOrBegin(absl::Duration wait) {
      const Finding finding = core_->FindOrBegin(*slot_, wait, num_attempts_, error_);
      is_making_ = finding == Finding::kToMake;
      return finding;
    }
    bool Find() const { return core_->Find(*slot_); }
    void EndWith(Pointer value, uint64_t bytes) {
      is_making_ = false;
      core_->EndMaking(*slot_, absl::OkStatus(), std::move(value), bytes);
    }
    void EndWithout(absl::Status error) {
      is_making_ = false;
      core_->EndMaking(*slot_, std::move(error), nullptr, 0);
    }
    // The counted handle.
    Pointer Handle() const {
      return Pointer(slot_->value.get(),
                     [core = core_, slot = slot_](const Value*) { core->ReleaseHandle(*slot); });
    }
    const absl::Status& error() const { return error_; }

   private:
    const std::shared_ptr<Core> core_;
    uint64_t num_attempts_ = 0;
    const std::shared_ptr<Slot> slot_;
    absl::Status error_;
    bool is_making_ = false;
  };

  const std::function<uint64_t(const Value&)> bytes_of_;
  const std::shared_ptr<Core> core_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHARED_CACHE_H_
