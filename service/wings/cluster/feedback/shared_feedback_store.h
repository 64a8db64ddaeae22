// What batches cost on devices, told to any of several servers: in the store of a cluster.
//
// A model on a device is one value. A report is added by a transaction that compares the value it
// was read from; revisions are not asked, since they name other values after etcd was restored. So
// reports follow each other in one order, and all servers fit the same law to the same
// observations. The value names the last report of each server, so a server whose transaction had
// an unknown outcome finds out, and adds nothing twice.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_FEEDBACK_SHARED_FEEDBACK_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_FEEDBACK_SHARED_FEEDBACK_STORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
#include "absl/types/span.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/feedback/known_models.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// Thread-safe. All but ModelOf() and Readings() wait for the store; besides their own errors they
// return UNAVAILABLE if it cannot be reached, DATA_LOSS for a value that nobody here has written,
// and CANCELLED between two tries when the caller is gone (base/caller.h). UNAVAILABLE of Report():
// it may have been added, or may still be.
class SharedFeedbackStore final : public FeedbackStore {
 public:
  // Find() asks the store again for a model that it asked for longer ago.
  static constexpr absl::Duration kFresh = absl::Seconds(1);
  // Find() does without the store for as long, when it could not be reached.
  static constexpr absl::Duration kAway = absl::Seconds(5);
  // Absent models that a server remembers.
  static constexpr size_t kMaxForgotten = 1024;
  // Between two tries at a model that others change, too: the first, and the longest.
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(2);
  static constexpr absl::Duration kLongestPause = absl::Milliseconds(100);
  // Servers whose last report a value names.
  static constexpr int kMaxAttempts = 64;

  struct Options {
    // Another name each time that the process starts.
    std::string replica;
    // All servers must have the same.
    size_t max_models = 256;
    // Infinite: models are kept for ever, and their uses are not noted.
    Retention retention = {};
    // The time of day.
    std::function<absl::Time()> now;
    // Waits that long, where other servers were faster: absl::SleepFor, or a test's. Null: tries
    // again at once.
    std::function<void(absl::Duration)> sleep = nullptr;
  };

  // `keys` must outlive it.
  SharedFeedbackStore(KeyValueStore* keys, Options options)
      : keys_(keys), options_(std::move(options)) {}

  bool notes_uses() const override { return !options_.retention.is_for_ever(); }
  uint64_t num_expired() const override { return num_expired_; }
  // Models outlive their time by up to two periods of the retention: one in which other servers
  // have not told yet what they used, and one to the next sweep.
  absl::Status DeleteUnused(std::vector<Expired>& expired) override;
  absl::Status SaveUses() override;

  absl::StatusOr<uint64_t> Report(const FeedbackKey& key,
                                  const std::vector<std::string>& components,
                                  absl::Span<const BatchObservation> observations,
                                  absl::Time now) override;
  absl::StatusOr<KeptFeedback> Get(const FeedbackKey& key) const override;
  absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> All() const override;
  absl::Status Delete(const FeedbackKey& key) override;

  // As the store had it kFresh ago or later, unless it cannot be reached: then as this server knows
  // it.
  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override;
  std::shared_ptr<const MeasuredModel> ModelOf(const FeedbackKey& key) const override {
    return models_.ModelOf(key);
  }
  // Of the models that this server was told of or asked for.
  std::vector<FeedbackReading> Readings() const override { return models_.Readings(); }

 private:
  // A value, as it was read.
  struct Stored {
    Revision revision = 0;
    // The value itself; empty: there is none. None is ever written twice.
    std::string bytes;
    KeptFeedback kept;
    uint64_t last_use_seconds = 0;
    std::vector<std::pair<std::string, uint64_t>> attempts;
    // Of the transaction that made the model: another one with its name has another.
    Revision created = 0;
  };

  // Every creation and deletion writes how many models there are.
  struct Count {
    std::optional<std::string> bytes;
    size_t num_models = 0;
  };

  // What a server has seen last of a model, or that there was none.
  struct Seen {
    Revision revision = 0;
    // Of num_events_.
    uint64_t at = 0;
  };

  static absl::StatusOr<Stored> Decode(const FeedbackKey& key, const KeyValue& value);
  static std::string Encode(const FeedbackKey& key, const Stored& stored);
  // nullopt: there is no such model. Then, or otherwise, models_ has what was read.
  absl::StatusOr<std::optional<Stored>> Read(const FeedbackKey& key) const;
  // When a read or a write begins, for what is then made of its answer.
  uint64_t Begin() const;
  // Whether what began then has found something older than what was seen meanwhile. What began
  // after that finds nothing older, unless the store was restored; and that counts.
  static bool IsOvertaken(const Seen& seen, uint64_t begun, Revision revision) {
    return begun < seen.at && revision < seen.revision;
  }
  // That a value is still the one that was read.
  static Compare IsCurrent(const FeedbackKey& key, const Stored& stored);
  // Calls `each` for each model, and its value. The revision that they were read at.
  absl::StatusOr<Revision> ReadAll(
      absl::FunctionRef<void(const FeedbackKey& key, const Stored& stored)> each) const;
  // OUT_OF_RANGE if the store dropped the revision before all was read.
  absl::StatusOr<Revision> ReadModels(std::vector<KeyValue>& values) const;
  absl::StatusOr<Count> ReadCount() const;
  // A step of creation (+1) or deletion (-1).
  static void Recount(const Count& count, int change, Transaction& transaction);
  // Notes a use that Find() saw, unless another server was faster.
  absl::Status WriteUse(const FeedbackKey& key, const Stored& stored, uint64_t seconds);
  // `begun`: Begin() before it was asked for.
  void Learn(const FeedbackKey& key, const Stored& stored, uint64_t begun) const;
  // There was no such model at `revision`; a later one stays.
  void Forget(const FeedbackKey& key, Revision revision, uint64_t begun) const;
  // The same for all that are known and not among `there`.
  void ForgetOthers(const std::set<FeedbackKey>& there, Revision revision, uint64_t begun) const;
  // Where more models are known than there may be, some have been deleted by other servers.
  void ForgetDeleted() const;
  uint64_t NowSeconds() const;
  // Before a try at a change, of which so many were lost to others. CANCELLED if nobody waits for
  // it.
  absl::Status BeginTry(int num_lost) const;
  // Reports of one model follow each other: a value names one of each server.
  absl::Mutex& TurnOf(const FeedbackKey& key) const;

  KeyValueStore* const keys_;
  const Options options_;
  std::atomic<uint64_t> num_attempts_ = 0;
  std::atomic<uint64_t> num_expired_ = 0;
  mutable KnownModels models_;
  mutable std::array<absl::Mutex, 16> turns_;
  mutable absl::Mutex mutex_;
  // When the store was asked for a model, or could not be reached.
  mutable std::map<FeedbackKey, absl::Time> asked_ ABSL_GUARDED_BY(mutex_);
  mutable absl::Time away_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  mutable uint64_t num_events_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the models that are known.
  mutable std::map<FeedbackKey, Seen> seen_ ABSL_GUARDED_BY(mutex_);
  // When a model was not there, so that no read that this has overtaken brings it back.
  mutable std::map<FeedbackKey, Seen> forgotten_ ABSL_GUARDED_BY(mutex_);
  // Known after ForgetDeleted().
  mutable size_t num_known_ ABSL_GUARDED_BY(mutex_) = 0;
  // What Find() gave since uses were written, and when.
  mutable std::map<FeedbackKey, uint64_t> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_FEEDBACK_SHARED_FEEDBACK_STORE_H_
