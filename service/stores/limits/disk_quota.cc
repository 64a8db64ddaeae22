#include "service/stores/limits/disk_quota.h"

#include <algorithm>
#include <optional>

#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<uint64_t> DiskQuota::CountAll(absl::string_view where) const {
  uint64_t all = 0;
  for (const Count& count : counts_) {
    PH_ASSIGN_OR_RETURN(const uint64_t bytes, count(where));
    all += bytes;
  }
  return all;
}

bool DiskQuota::TryTake(Bytes& of, uint64_t bytes, uint64_t most) {
  if (!of.all || *of.all > most || bytes > most - *of.all) return false;
  *of.all += bytes;
  of.under_way += bytes;
  return true;
}

absl::StatusOr<DiskQuota::Hold> DiskQuota::Take(absl::string_view where, uint64_t bytes) {
  const std::optional<uint64_t> most = quotas_of_(where).disk_bytes;
  if (!most) return Hold();
  Hold hold(std::string(where), bytes);
  Bytes* of = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    of = &bytes_[hold.where_];
    if (TryTake(*of, bytes, *most)) return std::move(hold).For(this);
  }
  while (true) {
    uint64_t num_ended = 0;
    uint64_t under_way = 0;
    {
      absl::MutexLock lock(&mutex_);
      num_ended = of->num_ended;
      under_way = of->under_way;
    }
    PH_ASSIGN_OR_RETURN(const uint64_t now, CountAll(where));
    absl::MutexLock lock(&mutex_);
    // What was stored while it was counted is in it once or twice.
    of->all = now + std::max(under_way, of->under_way);
    if (TryTake(*of, bytes, *most)) return std::move(hold).For(this);
    if (now > *most || bytes > *most - now) {
      return BeyondQuota(where, "disk_bytes", now + bytes, *most);
    }
    const auto has_ended = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return of->num_ended != num_ended;
    };
    mutex_.Await(absl::Condition(&has_ended));
  }
}

void DiskQuota::End(const std::string& where, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  Bytes& of = bytes_[where];
  of.under_way -= bytes;
  ++of.num_ended;
}

}  // namespace packhouse
