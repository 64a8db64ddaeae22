// This process as a member of a cluster: its lease, and who else is there.
#ifndef PACKHOUSE_SERVICE_STORES_KEYS_REPLICA_LEASE_H_
#define PACKHOUSE_SERVICE_STORES_KEYS_REPLICA_LEASE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {

// All keys of members begin with it.
inline constexpr absl::string_view kMembers = "member/";

// A replica, as its key member/<replica> has it.
struct ClusterMember {
  std::string replica;
  // HOST:PORT, at which clients reach it.
  std::string address;
  // What members should have in common, by name: "signing-key".
  std::map<std::string, std::string> settings = {};
  // Under which it is a member, and since when: a process that was killed may still be one, and has
  // joined before the one that serves at its address now.
  LeaseId lease = 0;
  Revision joined = 0;

  friend bool operator==(const ClusterMember&, const ClusterMember&) = default;
};

// The member that should own a job: rendezvous hashing (Thaler, Ravishankar 1998). When members
// come or go, only jobs that they own or are to own change their place. Depends on the job's name
// and the addresses alone, so a replica that starts again has its jobs again. Null if there are
// none. O(members).
const ClusterMember* RendezvousOwner(absl::string_view job,
                                     const std::vector<ClusterMember>& members);

// Keeps one lease, and this replica's address under it. All that the replica owns is under the same
// lease, so that it ends together.
//
// No clock is trusted for safety: that is the part of transactions (KeyValueStore). The time until
// which the lease surely lasts is for liveness and for good manners: a replica that was paused
// sends nothing once another may own its jobs.
//
// Thread-safe. Tick(), ReadMembers() and Leave() wait for the store; the others do not.
class ReplicaLease {
 public:
  struct Options {
    // Another name each time that the process starts. No '/'.
    std::string replica;
    std::string address;
    absl::Duration length = absl::Seconds(10);
    // How much earlier than the store this replica regards its lease as ended. At most half of
    // the length.
    absl::Duration margin = absl::Seconds(1);
    // ClusterMember::settings. Of one line each.
    std::map<std::string, std::string> settings = {};
  };

  // `store` must outlive it. `now` is a clock that goes on while the machine sleeps, for example
  // CLOCK_BOOTTIME.
  ReplicaLease(KeyValueStore* store, const Options& options, std::function<absl::Time()> now);

  // Gets a lease, or keeps it alive, and reads the members. To be called at every Period(), by one
  // thread. The error of the first call that failed; the next Tick() tries again.
  absl::Status Tick();
  // To be called after the first Tick(), and before the others go on. Takes the address for this
  // replica: of several that want it, one has it at a time, as the store decides by a compare.
  // FAILED_PRECONDITION naming the address if another replica that lives has it: each would take
  // the other for an earlier process, and its jobs. Asks such a replica for a sign of life, which
  // its Tick() gives; one that was killed gives none, and is waited for no longer than
  // kLongestSilence periods. `listens` says whether anything accepts connections at an address: if
  // nothing does, nobody is waited for. A replica whose address was taken so, as it had not begun
  // to listen, is_replaced(): of two that start at one moment, one goes on.
  static constexpr int kLongestSilence = 4;
  absl::Status CheckIsAlone(const std::function<bool(const std::string& address)>& listens,
                            const std::function<void(absl::Duration)>& sleep);
  // A second; for short leases a quarter of their length.
  absl::Duration Period() const;

  // Ends the lease, and with it all that the replica owns, at once. There is no other lease after
  // it.
  absl::Status Leave();

  // The lease, as long as it surely lasts.
  std::optional<LeaseId> lease() const;
  // Whether another replica has taken the address that CheckIsAlone() had taken. Then it stays so,
  // and Tick() is FAILED_PRECONDITION.
  bool is_replaced() const;
  // Whether `lease` is this replica's and surely lasts. False may become true again: the store may
  // have been away for a while, and the lease may have lasted.
  bool Lasts(LeaseId lease) const;
  // Whether `lease` is this replica's as far as is known. False stays false.
  bool IsCurrent(LeaseId lease) const;
  // Those of the last Tick() or ReadMembers() that could read them, this replica too.
  std::vector<ClusterMember> members() const;
  // Reads them now, and returns them. Waits for the store. Thread-safe.
  absl::StatusOr<std::vector<ClusterMember>> ReadMembers();
  const std::string& address() const { return options_.address; }

 private:
  absl::Status KeepOrGet();
  // Reads the members, and answers who asks whether this replica lives.
  absl::Status LookAround();
  absl::Status Get();
  std::string ClaimKey() const;
  bool IsOfAnother(const std::optional<KeyValue>& claim) const;
  absl::Status IsTaken() const;
  // FAILED_PRECONDITION if the replica `other` gives a sign of life.
  absl::Status CheckIsSilent(const std::string& other, LeaseId own,
                             const std::function<void(absl::Duration)>& sleep);

  KeyValueStore* const store_;
  const Options options_;
  const std::function<absl::Time()> now_;

  mutable absl::Mutex mutex_;
  LeaseId lease_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::vector<ClusterMember> members_ ABSL_GUARDED_BY(mutex_);
  bool has_left_ ABSL_GUARDED_BY(mutex_) = false;
  // The address.
  bool has_claimed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_replaced_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_KEYS_REPLICA_LEASE_H_
