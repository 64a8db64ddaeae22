// Appends to data sets in an object store: those that wait share an object and a transaction.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_APPENDER_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_APPENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/timed_leases.h"

namespace packhouse {

// Has no threads: the first caller commits its append, later callers of the same data set queue,
// and then one of these commits for all of them. Different data sets do not wait for each other.
//
// A commit: read the data set's state; PUT the object; one transaction that compares the state's
// mod_revision and writes the manifest's entry, the state and the producers' sequences. If others
// came first, the state is read again. An object is put again if the data set was swept meanwhile
// (ObjectSweeper), which may have deleted it. Whether a transaction with an unknown outcome
// happened is read off the manifest, where only it can have put this object. Thread-safe.
class ObjectAppender {
 public:
  // Of one commit. A transaction has at most 128 steps, some of which are not producers.
  static constexpr size_t kMaxAppends = 100;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  struct Options {
    // Of all data sets together; 0: no bound, and no count of them.
    uint64_t max_bytes = 0;
    // Chunks of the manifest's tail that become a page.
    uint64_t chunks_of_page = 1000;
    // Runs it on another thread, before the appender is destroyed: who appends then does not wait
    // until the tail has become a page. Empty: the append that found the tail long does it itself,
    // after the others of its commit were told.
    std::function<void(std::function<void()>)> later = {};
  };

  ObjectAppender(const ObjectEngines& engines, const Options& options)
      : engines_(engines), options_(options), leases_(engines.keys, engines.clock) {}

  // Blocks until the append is durable or refused. Errors as DatasetStore::Append(); UNAVAILABLE
  // may mean that it is not known whether it happened.
  absl::StatusOr<AppendResult> Append(const PreparedAppend& append);

  // Appends to a data set that wait for the next commit.
  size_t num_waiting(absl::string_view name) const;

 private:
  struct Waiter {
    const PreparedAppend* append;
    absl::StatusOr<AppendResult> result = AppendResult();
    bool is_done = false;     // Guarded by the appender's mutex.
    bool is_settled = false;  // It has its result; for the thread that commits.
    // A transaction that may have happened had it, as the sequence of its producer alone.
    bool may_be_known = false;
  };
  struct Queue {
    std::deque<Waiter*> waiters;
    bool is_committing = false;
    size_t num_users = 0;
  };
  // What the transaction would write, if the state is as it was read.
  struct Decision;
  // Of producers, by their keys; as they will be.
  using Histories = std::map<std::string, std::optional<ProducerHistory>>;
  // An object that was put, and the appends that it has.
  struct PutChunk;

  // Whether the tail of the manifest has become long.
  bool Commit(absl::string_view name, absl::Span<Waiter* const> group);
  absl::StatusOr<bool> CommitOnce(absl::string_view name, absl::Span<Waiter* const> group,
                                  std::unique_ptr<PutChunk>& put,
                                  std::unique_ptr<Decision>& pending);
  // What `failure` of the decision's transaction says: ABORTED if it is to be tried again.
  // `pending` gets the decision if it is not known whether it happened.
  absl::Status AfterFailure(const absl::Status& failure, const Transaction& transaction,
                            Decision decision, std::unique_ptr<Decision>& pending);
  absl::StatusOr<Decision> Decide(const DatasetHead& head, absl::Span<Waiter* const> group) const;
  // The same of one append; its error is the append's.
  absl::Status DecideOne(Waiter& waiter, Histories& histories, Decision& decision) const;
  absl::Status Put(const DatasetHead& head, const Decision& decision,
                   std::unique_ptr<PutChunk>& put) const;
  // Moves the tail of the manifest into a page, if it is long; however busy other replicas are with
  // the data set, since the page is put once, and only the transaction is tried again.
  absl::Status RollTail(absl::string_view name) const;
  absl::StatusOr<ObjectPage> PutPage(DatasetHead& head) const;
  // RollTail() by options_.later, unless one is under way. An error is left to a later append.
  void RollSoon(absl::string_view name);

  const ObjectEngines engines_;
  const Options options_;
  // For producers whose names were made up for one call.
  TimedLeases leases_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Queue, std::less<>> queues_ ABSL_GUARDED_BY(mutex_);
  // Data sets whose tails become pages now.
  std::set<std::string, std::less<>> rolling_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_APPENDER_H_
