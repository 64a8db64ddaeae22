// The logs of jobs in the store of a cluster, spread over its members.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_JOB_LOGS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_JOB_LOGS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/replica_lease.h"
#include "service/stores/logs/job_logs.h"
#include "service/wings/cluster/jobs/etcd_job_directory.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"

namespace packhouse {

// A job without an owner becomes that of the member that RendezvousOwner() names, when that member
// is asked for it; the others name this member. A job with an owner stays with it, as long as its
// lease lasts. Another process at the owner's address is the owner, killed and started again: it
// has the job as soon as it is asked for it. Thread-safe.
class EtcdJobLogs final : public JobLogs {
 public:
  // The pointees must outlive it and its logs. `replica` as ReplicaLease::Options. `now` times
  // commits; null: they are not timed. `restored_seconds`: LivingStore::began() of the store.
  EtcdJobLogs(KeyValueStore* store, ReplicaLease* lease, std::string replica, uint64_t max_bytes,
              std::function<absl::Time()> now = nullptr, uint64_t restored_seconds = 0)
      : store_(store),
        lease_(lease),
        replica_(std::move(replica)),
        max_bytes_(max_bytes),
        now_(std::move(now)),
        directory_(store),
        restored_seconds_(restored_seconds) {}

  // Of all logs that this has opened. An append that waits for others counts with its waiting.
  struct Commits {
    uint64_t num_done = 0;
    uint64_t num_failed = 0;
    absl::Duration time;
  };
  Commits commits() const;

  absl::StatusOr<JobPlace> Open(const std::string& job) override;
  JobDirectory* directory() override { return &directory_; }
  absl::StatusOr<std::vector<std::string>> Read(const std::string& job) override {
    return EtcdRecordLog::Read(*store_, job);
  }
  const std::string& address() const override { return lease_->address(); }
  std::vector<std::string> members() const override;
  uint64_t restored_seconds() const override { return restored_seconds_; }
  // Where the job is; becomes nobody's owner. NOT_FOUND if nobody owns it. For tests.
  absl::StatusOr<JobOwner> OwnerOf(const std::string& job);

 private:
  class LeasedLog;

  KeyValueStore* const store_;
  ReplicaLease* const lease_;
  const std::string replica_;
  const uint64_t max_bytes_;
  const std::function<absl::Time()> now_;
  EtcdJobDirectory directory_;
  std::atomic<uint64_t> num_attempts_ = 0;
  std::atomic<uint64_t> num_done_ = 0;
  std::atomic<uint64_t> num_failed_ = 0;
  std::atomic<int64_t> nanoseconds_ = 0;
  const uint64_t restored_seconds_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_JOB_LOGS_H_
