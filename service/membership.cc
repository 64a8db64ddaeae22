#include "service/membership.h"

#include <time.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/out_of_memory.h"
#include "service/shared_datasets/store_uri.h"

namespace packhouse {
namespace {

// Of one job's log in etcd, whose whole database is 2 GiB by default.
constexpr uint64_t kMaxLogBytes = uint64_t{256} << 20;

// Goes on while the machine sleeps, as the lease does.
absl::Time BootTime() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::UnixEpoch() + absl::DurationFromTimespec(now);
}

// Another one each time that a server starts.
std::string NewReplicaName() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::Hex(random(), absl::kZeroPad8));
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Membership>> Membership::Join(const MembershipOptions& options,
                                                             LimitedLog* log) {
  auto store = ConnectLedger({.uri = options.ledger,
                              .roots_file = options.roots_file,
                              .certificate_file = options.certificate_file,
                              .key_file = options.key_file,
                              .user = options.user,
                              .timeout = std::min(absl::Seconds(3), options.lease / 3)});
  if (!store.ok()) {
    return absl::Status(store.status().code(),
                        absl::StrCat("--ledger: ", store.status().message()));
  }
  auto member = std::unique_ptr<Membership>(new Membership);
  member->log_ = log;
  member->store_ = *std::move(store);
  ReplicaLease::Options lease;
  lease.replica = member->replica_ = NewReplicaName();
  lease.address = options.advertise;
  lease.length = options.lease;
  lease.margin = options.lease / 10;
  member->lease_ = std::make_unique<ReplicaLease>(member->store_.get(), lease, BootTime);
  if (const absl::Status joined = member->lease_->Tick(); !joined.ok()) {
    return absl::Status(joined.code(),
                        absl::StrCat("--ledger ", options.ledger, ": ", joined.message()));
  }
  member->logs_ = std::make_unique<EtcdJobLogs>(member->store_.get(), member->lease_.get(),
                                                lease.replica, kMaxLogBytes, BootTime);
  return member;
}

Membership::~Membership() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (keeper_.joinable()) keeper_.join();
  if (sweeper_.joinable()) sweeper_.join();
  // A server that could not start: the others are not to send anybody here.
  if (lease_ != nullptr) Leave();
}

void Membership::Start(std::function<void()> sweep) {
  keeper_ = std::thread([this] {
    Repeat([this] {
      if (const absl::Status kept = lease_->Tick(); !kept.ok()) {
        log_->Log("lease", LogLevel::kWarning, "the lease in the cluster was not kept",
                  {LogField::Message(kept.message())});
      }
    });
  });
  sweeper_ = std::thread([this, sweep = std::move(sweep)] { Repeat(sweep); });
}

void Membership::Repeat(const std::function<void()>& work) {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stop_), lease_->Period())) return;
    }
    HasMemoryFor(work);
  }
}

void Membership::Leave() {
  if (const absl::Status left = lease_->Leave(); !left.ok()) {
    log_->Log("lease", LogLevel::kWarning, "the lease in the cluster was not given back",
              {LogField::Message(left.message())});
  }
}

std::string Membership::why_not_ready() const {
  return lease_->lease() ? "" : "no lease in the cluster: etcd does not answer";
}

}  // namespace packhouse
