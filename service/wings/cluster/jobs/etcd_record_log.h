// One job's record log in the store of a cluster, written by the replica that owns the job.
//
// Why no replaced owner writes. The owner's key is created where there is none, under the replica's
// lease. Its create_revision names this ownership for ever. Every write to the log (SharedLog)
// compares it. When the lease has ended, the key is gone; when another replica owns the job, the
// key has another create_revision. Either way the compare fails, however late a transaction
// arrives, and no clock has a part in it.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_RECORD_LOG_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_RECORD_LOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/logs/record_log.h"
#include "service/stores/logs/shared_log.h"
#include "service/wings/cluster/jobs/job_keys.h"

namespace packhouse {

// Thread-safe. Blocks for the store's answers. One call is under way at a time, and others wait:
// what waits together is put together by the job.
//
// Errors of all calls: UNAVAILABLE if another replica owns the job, naming it, or if the ownership
// has ended; or if an outcome is still unknown after SharedLog::kTries: these three for good, and
// then failure() says so. Otherwise UNAVAILABLE if the store cannot be reached and
// RESOURCE_EXHAUSTED if the store or the log is full, naming the value and the bound: nothing of
// the call is stored, and a later one may succeed. DATA_LOSS naming the entry that is missing or
// damaged.
class EtcdRecordLog final : public RecordLog {
 public:
  static constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

  struct Options {
    std::string job;
    // Where clients reach this replica, for those that ask another one. No spaces.
    std::string address;
    // No two attempts of any replicas, to acquire anything, have the same. No spaces.
    std::string attempt;
    // With its end the ownership ends.
    LeaseId lease = 0;
    // Bound of the log's records. A store takes a few GiB in all.
    uint64_t max_bytes = uint64_t{256} << 20;
  };

  // Who owns a job.
  struct Owner {
    std::string address;
    // The create_revision of its key: larger for a later owner.
    Revision revision = 0;
    LeaseId lease = 0;
  };
  // Exactly one is set.
  struct Acquired {
    std::unique_ptr<EtcdRecordLog> log;
    std::optional<Owner> owner;
  };

  // Becomes the owner if there is none, and makes an empty log if there is none; otherwise says who
  // is. The caller has no other log of the job: a key that an earlier attempt has left under the
  // same lease is taken away. `store` must outlive the log. Errors as above; NOT_FOUND if the lease
  // has ended; FAILED_PRECONDITION if the log has another format.
  static absl::StatusOr<Acquired> Acquire(KeyValueStore* store, const Options& options);
  // Who owns the job now; nullopt: nobody.
  static absl::StatusOr<std::optional<Owner>> OwnerOf(KeyValueStore& store, absl::string_view job);
  // What the log of a job has now, whoever owns it; nothing if there is none. Changes nothing.
  // UNAVAILABLE also if the store's history is compacted again and again while it is read.
  static absl::StatusOr<std::vector<std::string>> Read(KeyValueStore& store,
                                                       const std::string& job);

  // INVALID_ARGUMENT for a record above kMaxRecordBytes. A round trip for each MiB, and one for
  // those that fit in a MiB together.
  absl::Status Append(absl::Span<const std::string> records) override;
  absl::StatusOr<std::vector<std::string>> ReadAll() override;
  // The old entries go in one step with the new head, however many they are.
  absl::Status Replace(absl::Span<const std::string> records) override;

  // RecordLog::Erase(), and gives the ownership back. If it fails, the log is refused everything,
  // and is whole or gone.
  absl::Status Erase(uint64_t mark) override;
  // As of the acquisition.
  absl::StatusOr<uint64_t> mark() const override { return mark_; }

  // Gives the ownership back; the log then refuses everything. The lease's end does it too, if this
  // fails. `also` is done in the same step; if the ownership had ended before, nothing is done.
  absl::Status Release(std::vector<Operation> also = {});

  // Why all calls are refused for good; OK if they are not.
  absl::Status failure() const;
  Revision owner_revision() const { return owner_revision_; }

 private:
  EtcdRecordLog(KeyValueStore* store, const Options& options, Revision owner_revision,
                SharedLogHead head, uint64_t mark);

  // Writes behind what there is, or in the place of it.
  absl::Status Write(absl::Span<const std::string> records, bool replaces);
  // Somebody else has written.
  absl::Status FailForOthers();
  // The log is of no use any more.
  absl::Status Fail(absl::Status why);

  KeyValueStore* const store_;
  const std::string job_;
  const JobKeys keys_;
  const Revision owner_revision_;
  const SharedLog log_;
  const uint64_t mark_;

  // Held while the store is waited for; taken before mutex_.
  absl::Mutex working_;
  SharedLogHead head_ ABSL_GUARDED_BY(working_);
  uint64_t serial_ ABSL_GUARDED_BY(working_) = 0;
  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_RECORD_LOG_H_
