// This server's place among those that share the jobs: etcd, the lease, and the thread that keeps
// it.
#ifndef PACKHOUSE_SERVICE_MEMBERSHIP_H_
#define PACKHOUSE_SERVICE_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/admission/limited_log.h"
#include "service/cluster/key_value_store.h"
#include "service/cluster/replica_lease.h"
#include "service/ledger/etcd/etcd_job_logs.h"

namespace packhouse {

struct MembershipOptions {
  // etcd://HOST[:PORT],.../PREFIX (etcd_options.h). Empty: this server is alone.
  std::string ledger;
  // HOST:PORT at which clients reach this server.
  std::string advertise;
  absl::Duration lease = absl::Seconds(10);
  // Files in PEM, read once. Empty: plain text, no certificate of this server's.
  std::string roots_file;
  std::string certificate_file;
  std::string key_file;
  // "NAME:PASSWORD" of a user of etcd's. Empty: none.
  std::string user;
};

// Thread-safe.
class Membership {
 public:
  // Connects and gets the lease. Errors of ConnectLedger(); UNAVAILABLE if etcd does not
  // answer.
  static absl::StatusOr<std::unique_ptr<Membership>> Join(const MembershipOptions& options,
                                                          LimitedLog* log);
  ~Membership();

  EtcdJobLogs* logs() const { return logs_.get(); }
  // This server's name, another one each time that it starts.
  const std::string& replica() const { return replica_; }
  // The store itself, for what else servers share.
  KeyValueStore* keys() const { return store_.get(); }

  // Keeps the lease from now on, on a thread, and calls `sweep` at each turn on another, which may
  // wait for long. May be called once.
  void Start(std::function<void()> sweep);
  // Gives back all jobs and the lease, so that others may take the jobs at once.
  void Leave();

  // Why this server can own nothing now; empty if it can.
  std::string why_not_ready() const;
  // Servers that share the jobs, as far as is known; this one too.
  size_t num_members() const { return lease_->members().size(); }

 private:
  Membership() = default;
  // Calls `work` at every period until the end.
  void Repeat(const std::function<void()>& work);

  LimitedLog* log_ = nullptr;
  std::string replica_;
  std::unique_ptr<KeyValueStore> store_;
  std::unique_ptr<ReplicaLease> lease_;
  std::unique_ptr<EtcdJobLogs> logs_;

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
  std::thread sweeper_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_MEMBERSHIP_H_
