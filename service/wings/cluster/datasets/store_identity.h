// Which key-value store and which object store belong together.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_STORE_IDENTITY_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_STORE_IDENTITY_H_

#include <atomic>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/stores/objects/object_store.h"
#include "service/wings/cluster/datasets/object_engines.h"

namespace packhouse {

// Both have the same random number, under a key and in an object. To a server that was given
// another key-value store, perhaps an empty one, all objects of the object store would be orphans
// and all data sets of the key-value store lost.

// Binds two stores of which neither has a number; of several servers that do so at once, all bind
// to the same, and of several key-value stores at most one is bound to an object store. Checks them
// otherwise. To be called before a server uses them. FAILED_PRECONDITION saying which of the two is
// another one; UNAVAILABLE if one of them does not answer, or naming the object if a server with
// another key-value store has begun to bind the object store, and has not ended.
absl::Status BindStores(const ObjectEngines& engines);

// An object store that is used only once it is known to be the one that the key-value store is
// bound to: for a server that starts while the object store is away. Each call looks first, until
// one has found out; calls before are UNAVAILABLE, and FAILED_PRECONDITION if it is another one.
// Thread-safe.
class BoundObjectStore final : public ObjectStore {
 public:
  // `store` must outlive it. `number` is the key-value store's; empty: the two were found to be
  // bound.
  explicit BoundObjectStore(ObjectStore* store) : store_(store) {}
  // To be called before the first call.
  void Await(std::string number, absl::Status why);

  // Looks, if it has not found out yet. OK once it is known.
  absl::Status Confirm(absl::Time deadline);
  // What the last look has found; OK once it is known. Does not wait.
  absl::Status status() const;

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override;
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override;
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override;
  absl::Status Delete(absl::string_view key, absl::Time deadline) override;

 private:
  ObjectStore* const store_;
  std::atomic<bool> is_known_ = true;
  mutable absl::Mutex mutex_;
  std::string number_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// BindStores(), for `engines` whose object store is `objects`. If that does not answer, and the
// key-value store was bound before, OK: `objects` then waits for it.
absl::Status BindStoresNowOrLater(const ObjectEngines& engines, BoundObjectStore& objects);

// FAILED_PRECONDITION unless the two are bound to each other. UNAVAILABLE.
absl::Status CheckStoresAreBound(const ObjectEngines& engines);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_STORE_IDENTITY_H_
