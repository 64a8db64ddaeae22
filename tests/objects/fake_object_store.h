// Objects in memory, with faults that a seed decides.
#ifndef PACKHOUSE_TESTS_OBJECTS_FAKE_OBJECT_STORE_H_
#define PACKHOUSE_TESTS_OBJECTS_FAKE_OBJECT_STORE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/status_macros.h"
#include "service/stores/objects/object_store.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {

// One store for several replicas. Thread-safe; deterministic if one thread calls it.
class FakeObjectStore final : public ObjectStore {
 public:
  // Each of one in so many calls; 0: never.
  struct Faults {
    uint64_t refused = 0;     // UNAVAILABLE, and nothing happened.
    uint64_t lost_reply = 0;  // UNAVAILABLE, and it happened.
    uint64_t cut = 0;         // A Get ends UNAVAILABLE after some of its bytes.
    uint64_t slow = 0;        // Takes a minute of the clock, or until its deadline.
    uint64_t flipped = 0;     // A Get gives other bytes than are stored, and says nothing.
  };

  // `clock` may be null: then nothing takes time. It must outlive the store.
  explicit FakeObjectStore(SimulatedClock* clock = nullptr) : clock_(clock) {}

  void SetFaults(const Faults& faults, uint64_t seed) {
    absl::MutexLock lock(&mutex_);
    faults_ = faults;
    random_ = Random(seed);
  }

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    PH_RETURN_IF_ERROR(CheckObjectKey(key));
    PH_RETURN_IF_ERROR(Begin("Put", key, deadline));
    absl::MutexLock lock(&mutex_);
    Stored& stored = objects_[std::string(key)];
    stored.bytes = std::string(bytes);
    stored.modified = clock_ == nullptr ? absl::UnixEpoch() : clock_->Now();
    ++num_puts_;
    return End("Put", key);
  }

  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    PH_RETURN_IF_ERROR(CheckObjectKey(key));
    PH_RETURN_IF_ERROR(Begin("Get", key, deadline));
    std::string bytes;
    bool is_cut = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = objects_.find(std::string(key));
      if (found == objects_.end()) return absl::NotFoundError(absl::StrCat("object '", key, "'"));
      const uint64_t end = std::min<uint64_t>(range.end, found->second.bytes.size());
      if (range.begin < end) bytes = found->second.bytes.substr(range.begin, end - range.begin);
      is_cut = OneIn(faults_.cut);
      if (is_cut) bytes.resize(random_.Below(bytes.size() + 1));
      if (!bytes.empty() && OneIn(faults_.flipped)) bytes[random_.Below(bytes.size())] ^= 4;
      ++num_gets_;
    }
    // Outside of the lock, in pieces of some size or other.
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece = std::min<size_t>(bytes.size() - at, 1 + at / 2 + 4096);
      PH_RETURN_IF_ERROR(sink(absl::string_view(bytes).substr(at, piece)));
      at += piece;
    }
    return is_cut ? Fault("Get", key, "was cut") : absl::OkStatus();
  }

  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    PH_RETURN_IF_ERROR(CheckObjectPrefix(prefix));
    PH_RETURN_IF_ERROR(CheckObjectPrefix(after));
    PH_RETURN_IF_ERROR(Begin("List", prefix, deadline));
    absl::MutexLock lock(&mutex_);
    const size_t bound = limit == 0 ? kMaxListed : std::min(limit, kMaxListed);
    ObjectList list;
    auto it = std::max(std::string(prefix), std::string(after)) == after
                  ? objects_.upper_bound(std::string(after))
                  : objects_.lower_bound(std::string(prefix));
    for (; it != objects_.end() && absl::StartsWith(it->first, prefix); ++it) {
      if (list.objects.size() == bound) {
        list.has_more = true;
        break;
      }
      list.objects.push_back({it->first, it->second.bytes.size(), it->second.modified});
    }
    return list;
  }

  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    PH_RETURN_IF_ERROR(CheckObjectKey(key));
    PH_RETURN_IF_ERROR(Begin("Delete", key, deadline));
    absl::MutexLock lock(&mutex_);
    objects_.erase(std::string(key));
    return End("Delete", key);
  }

  size_t num_objects() const {
    absl::MutexLock lock(&mutex_);
    return objects_.size();
  }
  uint64_t num_gets() const {
    absl::MutexLock lock(&mutex_);
    return num_gets_;
  }
  uint64_t num_puts() const {
    absl::MutexLock lock(&mutex_);
    return num_puts_;
  }
  // Changes one byte of the object, or cuts it off if `at` is its end.
  void Damage(absl::string_view key, size_t at) {
    absl::MutexLock lock(&mutex_);
    std::string& bytes = objects_.at(std::string(key)).bytes;
    if (at < bytes.size()) {
      bytes[at] ^= 1;
    } else {
      bytes.pop_back();
    }
  }

 private:
  struct Stored {
    std::string bytes;
    absl::Time modified;
  };

  static absl::Status Fault(absl::string_view call, absl::string_view key, absl::string_view what) {
    return absl::UnavailableError(absl::StrCat("fake: ", call, " '", key, "' ", what));
  }

  bool OneIn(uint64_t calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls != 0 && random_.Below(calls) == 0;
  }

  absl::Status Begin(absl::string_view call, absl::string_view key, absl::Time deadline) {
    bool is_refused = false;
    bool is_slow = false;
    {
      absl::MutexLock lock(&mutex_);
      is_refused = OneIn(faults_.refused);
      is_slow = OneIn(faults_.slow);
    }
    if (clock_ != nullptr) {
      if (is_slow) clock_->Advance(std::min(absl::Minutes(1), deadline - clock_->Now()));
      if (clock_->Now() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat("fake: ", call, " '", key, "'"));
      }
    }
    return is_refused ? Fault(call, key, "was refused") : absl::OkStatus();
  }

  absl::Status End(absl::string_view call, absl::string_view key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return OneIn(faults_.lost_reply) ? Fault(call, key, "lost its reply") : absl::OkStatus();
  }

  SimulatedClock* const clock_;
  mutable absl::Mutex mutex_;
  Faults faults_ ABSL_GUARDED_BY(mutex_);
  Random random_ ABSL_GUARDED_BY(mutex_){0};
  std::map<std::string, Stored> objects_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_gets_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_puts_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_OBJECTS_FAKE_OBJECT_STORE_H_
