#include "service/wings/cluster/datasets/timed_leases.h"

#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<LeaseId> TimedLeases::ThatLasts(absl::Duration length) {
  int64_t hours = 1;
  while (absl::Hours(hours) < length) hours *= 2;
  const absl::Time now = clock_->Now();
  {
    absl::MutexLock lock(&mutex_);
    const auto found = granted_.find(hours);
    if (found != granted_.end() && now < found->second.use_until) return found->second.lease;
  }
  PH_ASSIGN_OR_RETURN(const StoreLease lease, keys_->GrantLease(2 * absl::Hours(hours)));
  absl::MutexLock lock(&mutex_);
  granted_[hours] = {lease.id, now + lease.length - absl::Hours(hours)};
  return lease.id;
}

void TimedLeases::HasEnded(LeaseId lease) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(granted_, [lease](const auto& each) { return each.second.lease == lease; });
}

}  // namespace packhouse
