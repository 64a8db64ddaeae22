// This server's place among those that share the jobs: etcd, the lease, and the thread that keeps
// it.
#ifndef PACKHOUSE_SERVICE_PROGRAM_MEMBERSHIP_H_
#define PACKHOUSE_SERVICE_PROGRAM_MEMBERSHIP_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/limited_log.h"
#include "service/stores/keys/cluster_life.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/replica_lease.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"

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

// ClusterMember::settings. A server with another value of the first kind is refused; of the second
// kind, it is named in the log.
struct MemberSettings {
  std::map<std::string, std::string> must_be_equal;
  std::map<std::string, std::string> should_be_equal;
};

// Thread-safe.
class Membership {
 public:
  // Connects and gets the lease. Errors of ConnectLedger(); UNAVAILABLE if etcd does not
  // answer; FAILED_PRECONDITION if another server that lives has the same address, or other
  // settings of those that must be equal.
  static absl::StatusOr<std::unique_ptr<Membership>> Join(const MembershipOptions& options,
                                                          const MemberSettings& settings,
                                                          LimitedLog* log);
  ~Membership();

  EtcdJobLogs* logs() const { return logs_.get(); }
  // This server's name, another one each time that it starts.
  const std::string& replica() const { return replica_; }
  // The store itself, for what else servers share.
  KeyValueStore* keys() const { return store_.get(); }

  // Keeps the lease from now on, on a thread, and calls `sweep` at each turn on another, which may
  // wait for long. Calls `is_over` once, on the first thread, if the cluster has begun another
  // life, or another server has taken this one's address: this server can do nothing more then. May
  // be called once.
  void Start(std::function<void()> sweep, std::function<void(const absl::Status& why)> is_over);
  // Gives back all jobs and the lease, so that others may take the jobs at once.
  void Leave();

  // Why this server can own nothing now; empty if it can.
  std::string why_not_ready() const;
  bool has_lease() const { return lease_->lease().has_value(); }
  // Servers that share the jobs, as far as is known; this one too.
  size_t num_members() const { return lease_->members().size(); }

 private:
  Membership() = default;
  absl::Status CheckSettings(const MemberSettings& settings);
  // Whether etcd takes what is put into it.
  void Probe();
  // Calls `work` at every period until the end.
  void Repeat(const std::function<void()>& work);

  LimitedLog* log_ = nullptr;
  std::string replica_;
  std::unique_ptr<LivingStore> store_;
  std::unique_ptr<ReplicaLease> lease_;
  std::unique_ptr<EtcdJobLogs> logs_;

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
  std::thread sweeper_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_MEMBERSHIP_H_
