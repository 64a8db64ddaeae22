// What batches cost on devices, by model and device: told by trainers, and fitted when it is asked
// for, or now and then as reports come.
//
// Start here. A model on a device is one value, in the keys of a server that is alone or of a
// cluster. A report is added by a transaction that compares the value it was read from; revisions
// are not asked, since they name other values after etcd was restored. So reports follow each other
// in one order, and all servers fit the same law to the same observations. The value names the last
// report of each server, so a server whose transaction had an unknown outcome finds out, and adds
// nothing twice.
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_STORE_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_STORE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/engine/feedback/feedback_reading.h"
#include "service/engine/feedback/kept_feedback.h"
#include "service/engine/feedback/known_models.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/shared_change.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// Thread-safe. Some 10 KiB for each model of two components; at most 48 shapes each. All but
// ModelOf() and Readings() wait for the store of keys, if that is a cluster's. Besides their own
// errors they return UNAVAILABLE if it cannot be reached, DATA_LOSS for a value that nobody here
// has written, and CANCELLED between two tries when the caller is gone (base/caller.h). UNAVAILABLE
// of Report() and Delete(): it may have been done, or may still be.
class FeedbackStore final : public MeasuredModels {
 public:
  // Find() asks the store again for a model that it asked for longer ago.
  static constexpr absl::Duration kFresh = absl::Seconds(1);
  // Find() does without the store for as long, when it could not be reached.
  static constexpr absl::Duration kAway = absl::Seconds(5);
  // Absent models that a server remembers.
  static constexpr size_t kMaxForgotten = 1024;
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
    // SharedChanges::sleep.
    std::function<void(absl::Duration)> sleep = nullptr;
    // No other server has the keys. Then time in which no server has them does not count as time
    // without a use; with each start, uses count as later by one period of the retention, since
    // some may not have been written.
    bool is_alone = false;
  };

  // `keys` must outlive it. Who is alone reads all models; errors of that.
  static absl::StatusOr<std::unique_ptr<FeedbackStore>> Open(KeyStore* keys, Options options);
  // Reads all models, and how many there should be; calls `damaged` for what cannot be read, with
  // its key, and if they do not agree, with the value that would be `right`. Changes nothing.
  // Errors of the store.
  static absl::Status Check(KeyStore& keys,
                            absl::FunctionRef<void(absl::string_view key, const absl::Status& what,
                                                   const std::optional<std::string>& right)>
                                damaged);
  // With keys of its own, which nobody keeps.
  static std::unique_ptr<FeedbackStore> InMemory(std::function<absl::Time()> now);

  // Whether it is known when models were last used: reported, or asked for by Find().
  bool notes_uses() const { return !options_.retention.is_for_ever(); }
  // That DeleteUnused() has deleted.
  uint64_t num_expired() const { return num_expired_; }
  // Deletes each model that was not used for as long as the retention of its namespace says; where
  // there are other servers, for a period longer, in which they have not told yet what they used.
  // Requires notes_uses(). An error is the first one; the others are deleted nevertheless, unless
  // the store cannot be reached.
  absl::Status DeleteUnused(std::vector<Expired>& expired);
  // Writes when models were last used, as DeleteUnused() does too; for the end of the server.
  absl::Status SaveUses();

  // Durable when it returns. The number of reports of the model then. Capacities are in the order
  // of `components`. Nobody who reads waits while observations are added; other reports of the
  // model do, and then share a transaction.
  //
  // INVALID_ARGUMENT as CheckFeedbackKey; FAILED_PRECONDITION for other components than the
  // model's; RESOURCE_EXHAUSTED for a model too many: then nothing is kept.
  absl::StatusOr<uint64_t> Report(const FeedbackKey& key,
                                  const std::vector<std::string>& components,
                                  absl::Span<const BatchObservation> observations, absl::Time now);
  // Reports of the model that wait or are being added, for tests.
  size_t num_waiting(const FeedbackKey& key) const {
    absl::MutexLock lock(&mutex_);
    const auto queue = reports_.find(key);
    return queue == reports_.end() ? 0 : queue->second.size();
  }
  // NOT_FOUND.
  absl::StatusOr<KeptFeedback> Get(const FeedbackKey& key) const;
  // By model and device.
  absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> All() const;
  // NOT_FOUND. Deletes the model that had the name when this began, not one that has taken it
  // since.
  absl::Status Delete(const FeedbackKey& key);

  // As the store had it kFresh ago or later, unless it cannot be reached: then as this server knows
  // it.
  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override;
  // As Find(), of what Get(), All() and Report() have given last; no use.
  std::shared_ptr<const MeasuredModel> ModelOf(const FeedbackKey& key) const {
    return models_.ModelOf(key);
  }
  // KnownModels::Readings(), of the models that this server was told of or asked for.
  std::vector<FeedbackReading> Readings() const { return models_.Readings(); }

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

    bool is_there() const { return !bytes.empty(); }
  };
  // What is to become of a model. kAdd is of one caller at a time, whose number the value then has.
  enum class Then { kNothing, kAdd, kUse, kErase };
  // Changes the model, which may not be there; called for each try.
  using Decide = absl::FunctionRef<absl::StatusOr<Then>(Stored& model)>;

  // A call of Report().
  struct Waiting {
    const std::vector<std::string>& components;
    absl::Span<const BatchObservation> observations;
    absl::Time now;
    absl::StatusOr<uint64_t> result = absl::UnavailableError("the report was not added; try again");
    bool is_done = false;
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

  FeedbackStore(KeyStore* keys, std::unique_ptr<KeyStore> own_keys, Options options)
      : own_keys_(std::move(own_keys)),
        keys_(keys == nullptr ? own_keys_.get() : keys),
        options_(std::move(options)),
        changes_{options_.replica, options_.sleep} {}

  // For who is alone.
  absl::Status LoadAll();
  absl::Status SaveClock();

  static absl::StatusOr<Stored> Decode(const FeedbackKey& key, const KeyValue& value);
  static std::string Encode(const FeedbackKey& key, const Stored& stored);
  // The model, if it is there; models_ has then what was read.
  absl::StatusOr<Stored> Read(const FeedbackKey& key) const;
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
  absl::StatusOr<Count> ReadCount() const;
  // A step of creation (+1) or deletion (-1).
  static void Recount(const Count& count, int change, Transaction& transaction);
  // The only way in which a model changes. `known`: as it was just read; null: it is read.
  absl::Status Change(const FeedbackKey& key, const Stored* known, Decide decide);
  // In one transaction. What becomes of each, in order.
  std::vector<absl::StatusOr<uint64_t>> Add(const FeedbackKey& key,
                                            absl::Span<Waiting* const> reports);
  // A use that Find() saw.
  absl::Status WriteUse(const FeedbackKey& key, uint64_t seconds);
  // `begun`: Begin() before it was asked for.
  void Learn(const FeedbackKey& key, const Stored& stored, uint64_t begun) const;
  // There was no such model at `revision`; a later one stays.
  void Forget(const FeedbackKey& key, Revision revision, uint64_t begun) const;
  // The same for all that are known and not among `there`.
  void ForgetOthers(const std::set<FeedbackKey>& there, Revision revision, uint64_t begun) const;
  // Where more models are known than there may be, some have been deleted by other servers.
  void ForgetDeleted() const;
  // For uses: without the time in which nobody had the keys.
  uint64_t NowSeconds() const;
  // Of uses.
  absl::Duration Unused(const Stored& stored, uint64_t now) const {
    return absl::Seconds(now - std::min(now, stored.last_use_seconds));
  }

  const std::unique_ptr<KeyStore> own_keys_;
  KeyStore* const keys_;
  const Options options_;
  const SharedChanges changes_;
  // Constant once it is open.
  absl::Duration paused_;
  std::atomic<uint64_t> num_attempts_ = 0;
  std::atomic<uint64_t> num_expired_ = 0;
  mutable KnownModels models_;
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
  // Reports that wait, the first of them with those that it is adding.
  std::map<FeedbackKey, std::deque<Waiting*>> reports_ ABSL_GUARDED_BY(mutex_);
  // What Find() gave since uses were written, and when.
  mutable std::map<FeedbackKey, uint64_t> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_STORE_H_
