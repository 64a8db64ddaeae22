// When things of a cluster were last used by any of its servers.
//
// No clock of a server is trusted. The cluster counts the seconds in which it runs, under one key:
// a server that has seen one value for a while, by a clock that never steps, adds that while. The
// transaction compares the value's revision, so the count is never ahead of the time that has
// passed, and stands still while no server runs. A use is the count of its moment, under a key of
// the thing's name, in a transaction that compares the count's revision, too.
//
// A server writes a use before it goes on, unless it has written one of the thing within
// Retention::Period(). So what was written last is at most a period older than the last use, and
// the count may lag by another one: a thing is deleted when the count says that it was unused for
// its retention and two periods more. The transaction that deletes it compares the key of its use.
#ifndef PACKHOUSE_SERVICE_STORES_KEYS_SHARED_USES_H_
#define PACKHOUSE_SERVICE_STORES_KEYS_SHARED_USES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// What a transaction that deletes a thing compares besides, so that it deletes none that was used;
// ABORTED if it was. Asked again for each try.
using StillUnused = absl::FunctionRef<absl::StatusOr<std::vector<Compare>>()>;
// For who deletes whatever it is used.
inline absl::StatusOr<std::vector<Compare>> UsedOrNot() { return std::vector<Compare>(); }

// Thread-safe; BeginSweep() to EndSweep() on one thread at a time. All but Forget() may wait for
// the store, and return its errors; UNAVAILABLE also if it is not known whether a use was written.
class SharedUses {
 public:
  struct Options {
    // Of keys: "ds".
    std::string kind;
    Retention retention;
    // Never steps: SteadyTime().
    std::function<absl::Time()> now;
    // The number of what has the name now, which nothing else has had; NOT_FOUND.
    std::function<absl::StatusOr<uint64_t>(absl::string_view name)> id_of;
    // Deletes it. The error of `unused`, if that is one; NOT_FOUND.
    std::function<absl::Status(const std::string& name, uint64_t id, StillUnused unused)> erase;
    // OK if all servers have the same retention. Otherwise why not: nothing is deleted then, and
    // time does not count. Null: there is one server.
    std::function<absl::Status()> agree = nullptr;
  };

  // `keys` must outlive it. `in_use` as that of LastUses, but without any lock.
  SharedUses(KeyStore* keys, Options options, LastUses::InUse in_use)
      : keys_(keys),
        options_(std::move(options)),
        period_(options_.retention.Period()),
        in_use_(std::move(in_use)) {}

  // Deletes what is noted of a kind, for who notes no uses: it would be too old when they are noted
  // again.
  static absl::Status RemoveAll(KeyStore& keys, absl::string_view kind);

  // It was made, and is used by that.
  void Add(const std::string& name, uint64_t id);
  void Forget(absl::string_view name);
  // OK if there is no such thing.
  absl::Status Use(absl::string_view name);
  // Writes what is in use at the moment.
  absl::Status Save();

  // A sweep: this, RemoveIfUnused() of all that there is, and EndSweep() if all were listed.
  absl::Status BeginSweep();
  // As LastUses::RemoveIfUnused(). What nobody has noted has just been used.
  absl::StatusOr<std::optional<absl::Duration>> RemoveIfUnused(const std::string& name,
                                                               uint64_t id);
  absl::Status EndSweep();

  // That this server has deleted.
  uint64_t num_expired() const { return num_expired_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kTries = 20;

  struct Count {
    uint64_t seconds = 0;
    Revision revision = 0;  // 0: there is none.
    absl::Time since;       // Not before the value was written.
  };
  // A use that this server has written.
  struct Noted {
    uint64_t id = 0;
    absl::Time at;  // Before that.
  };
  // A use as some server has written it.
  struct Stored {
    uint64_t seconds = 0;
    uint64_t id = 0;
    Revision revision = 0;
  };
  using Thing = std::pair<std::string, uint64_t>;

  std::string CountKey() const;
  std::string UseKey(absl::string_view name) const;
  absl::Status Learn(const RangeResult& read);
  Count count() const {
    absl::MutexLock lock(&mutex_);
    return count_;
  }
  // Adds the time since the last one, at most a period.
  absl::Status AddTime();
  absl::Status Note(const std::vector<Thing>& things);
  absl::Status NoteSome(const std::vector<Thing>& things);
  absl::Status ReadStored();

  KeyStore* const keys_;
  const Options options_;
  const absl::Duration period_;
  const LastUses::InUse in_use_;
  std::atomic<uint64_t> num_expired_ = 0;

  // Of the sweep.
  absl::Status agreed_;
  std::map<std::string, Stored, std::less<>> stored_;
  std::set<std::string, std::less<>> listed_;
  std::vector<Thing> unknown_;

  mutable absl::Mutex mutex_;
  Count count_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Noted, std::less<>> noted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_KEYS_SHARED_USES_H_
