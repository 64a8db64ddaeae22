// How long what nobody uses is kept, and when it was last used.
#ifndef PACKHOUSE_SERVICE_STORES_LIMITS_RETENTION_H_
#define PACKHOUSE_SERVICE_STORES_LIMITS_RETENTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
#include "service/base/all_listed.h"

namespace packhouse {

// How long something may be unused. Infinite: for ever.
struct Retention {
  absl::Duration otherwise = absl::InfiniteDuration();
  std::map<std::string, absl::Duration> of_namespace = {};

  absl::Duration Of(absl::string_view name) const;
  bool is_for_ever() const;
  // Time between two sweeps: an eighth of the shortest, so that something outlives its time by at
  // most that; at least a second and at most ten minutes.
  absl::Duration Period() const;
};

// A list such as "720h,drafts=24h,kept=0s": the duration for all namespaces that are not named, and
// those of named ones; 0s is for ever. INVALID_ARGUMENT naming the part that is none.
absl::StatusOr<Retention> ParseRetention(absl::string_view text);

// What was deleted since nobody used it.
struct Expired {
  std::string name;
  absl::Duration unused;
  uint64_t num_bytes = 0;
};

// When things were last used, by their names, in memory and in a file.
//
// The times are kept in the file as how long ago each use was when the file was written. Time in
// which no server has the file does not count: neither an old snapshot nor a long pause makes
// things vanish. The first use in each Retention::Period() is on the disk before it goes on. With
// each start, uses count as later by one period, since some may not be in the file. A missing or
// damaged file means that all have just been used.
//
// Thread-safe. A use costs a lock and a look-up, and once in a period a write of the file,
// O(names). What is being removed holds up those only who ask for its name.
class LastUses {
 public:
  // What is in use at the moment, or was used without Use(): it calls its argument with each name.
  using InUse = std::function<void(absl::FunctionRef<void(const std::string& name)>)>;

  // `path`: the file; empty: in memory alone. `in_use` is called under this object's lock.
  LastUses(std::string path, Retention retention, std::function<absl::Time()> now, InUse in_use);

  const Retention& retention() const { return retention_; }

  // It has just been used, if nothing is known of it.
  void Know(const std::string& name);
  void Add(const std::string& name);
  void Forget(absl::string_view name);
  // Only what is known has a time.
  void Use(absl::string_view name);

  // Calls `remove` if the thing was unused for as long as its retention says; whoever uses, adds or
  // forgets it waits meanwhile, as do other removals. Gives how long, if `remove` gave OK; nullopt
  // if it is still wanted, or if there was nothing to remove (NOT_FOUND); its error.
  absl::StatusOr<std::optional<absl::Duration>> RemoveIfUnused(
      const std::string& name, absl::FunctionRef<absl::Status()> remove);

  absl::Status Save();

  // That RemoveIfUnused() has removed.
  uint64_t num_expired() const { return num_expired_.load(std::memory_order_relaxed); }

 private:
  struct LastUse {
    absl::Time used;
    absl::Time in_file = absl::InfinitePast();
  };

  void Load();
  std::string Encode(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountUses(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitRemoval(absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Retention retention_;
  const std::function<absl::Time()> now_;
  const InUse in_use_;
  std::atomic<uint64_t> num_expired_ = 0;
  // Held while the file is written.
  absl::Mutex saving_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  std::map<std::string, LastUse, std::less<>> uses_ ABSL_GUARDED_BY(mutex_);
  // Its files are being removed, without the lock.
  std::optional<std::string> removing_ ABSL_GUARDED_BY(mutex_);
};

// Deletes each of a store's things that was not used for as long as its retention says, and writes
// the file of `uses`. Damaged ones stay. `things`: as ForAllListed(). An error is that of the list,
// or the first of a deletion or of the file; the others are deleted nevertheless. What was deleted
// is in `expired` in any case.
template <typename Store, typename Page, typename Info>
absl::Status DeleteUnused(Store& store, std::vector<Info> Page::*things, LastUses& uses,
                          std::vector<Expired>& expired) {
  absl::Status first_error;
  PH_RETURN_IF_ERROR(ForAllListed(store, things, [&](const Info& info) {
    if (info.state == decltype(info.state)::kDamaged) return;
    const auto unused = uses.RemoveIfUnused(info.name, [&] {
      return store.Delete({info.name, info.id});
    });
    if (!unused.ok() && first_error.ok()) first_error = unused.status();
    if (unused.ok() && *unused) expired.push_back({info.name, **unused, info.num_bytes});
  }));
  const absl::Status saved = uses.Save();
  return first_error.ok() ? saved : first_error;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LIMITS_RETENTION_H_
