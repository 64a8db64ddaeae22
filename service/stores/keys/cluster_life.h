// Whether the store of a cluster is still the one that this server has joined.
#ifndef PACKHOUSE_SERVICE_STORES_KEYS_CLUSTER_LIFE_H_
#define PACKHOUSE_SERVICE_STORES_KEYS_CLUSTER_LIFE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {

// A store that is restored from a backup has forgotten what was done since, and gives the same
// revisions to other values. Whoever restores it begins another life of the cluster:
// docs/cluster.md says how. The life is the value of this key; without the key it is the first one.
inline constexpr absl::string_view kClusterLifeKey = "life";

// The store of a server, in one life of the cluster. Every transaction compares the life too, so
// that a server changes nothing in another one, whatever it remembers; from then on all
// transactions are UNAVAILABLE. Thread-safe; calls wait for the store as its own do.
class LivingStore final : public KeyValueStore {
 public:
  // Reads the life. FAILED_PRECONDITION naming the key if its value is none; errors of the store,
  // which must not be null.
  static absl::StatusOr<std::unique_ptr<LivingStore>> Join(std::unique_ptr<KeyValueStore> store);

  // The second in which the life began, since 1970; 0: it is the first one. Larger for a later
  // life.
  uint64_t began() const { return began_; }
  // OK, or for ever UNAVAILABLE once a transaction has found another life. Does not wait.
  absl::Status life() const;
  // OK, or why the last transaction that would have put something was refused: RESOURCE_EXHAUSTED,
  // as of a store that is full. Does not wait.
  absl::Status room() const;

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    return store_->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override;
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    return store_->GrantLease(length);
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override {
    return store_->KeepAlive(lease);
  }
  absl::Status RevokeLease(LeaseId lease) override { return store_->RevokeLease(lease); }

 private:
  LivingStore(std::unique_ptr<KeyValueStore> store, std::string life, uint64_t began)
      : store_(std::move(store)), life_(std::move(life)), began_(began) {}

  const std::unique_ptr<KeyValueStore> store_;
  const std::string life_;  // Empty: the first one.
  const uint64_t began_;

  mutable absl::Mutex mutex_;
  absl::Status is_over_ ABSL_GUARDED_BY(mutex_);
  absl::Status room_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_KEYS_CLUSTER_LIFE_H_
