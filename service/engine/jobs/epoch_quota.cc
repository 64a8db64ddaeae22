#include "service/engine/jobs/epoch_quota.h"

#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

uint64_t EpochQuota::NumThere(const std::string& where, const std::string& job) const {
  const auto there = by_namespace_.find(where);
  const uint64_t num_here = there == by_namespace_.end() ? 0 : there->second;
  if (!elsewhere_) return num_here;
  std::vector<std::string> here = {job};
  for (const auto& [name, count] : by_job_) {
    if (name != job && NamespaceOf(name) == where) here.push_back(name);
  }
  return num_here + elsewhere_(where, here);
}

absl::Status EpochQuota::Take(const EpochOwner& owner) {
  const std::string where(NamespaceOf(owner.job));
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const uint64_t most_there = quotas_of_ ? quotas_of_(where).epochs.value_or(kNone) : kNone;
  absl::MutexLock lock(&mutex_);
  if (num_epochs_ >= max_epochs_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("epochs: ", num_epochs_, " are remembered, at most ", max_epochs_,
                     " (--max-epochs); finish them, or delete jobs that will not"));
  }
  const auto own = by_client_.find(owner.client);
  if (own != by_client_.end() && own->second >= max_epochs_per_client_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("epochs: ", own->second, " of client '", absl::CHexEscape(owner.client),
                     "' are remembered, at most ", max_epochs_per_client_,
                     " (--max-epochs-per-client); finish them, or delete jobs that will not"));
  }
  if (most_there != kNone) {
    const uint64_t num_there = NumThere(where, owner.job);
    if (num_there >= most_there) return BeyondQuota(where, "epochs", num_there + 1, most_there);
  }
  Add(owner);
  return absl::OkStatus();
}

void EpochQuota::TakeAnyway(const EpochOwner& owner) {
  absl::MutexLock lock(&mutex_);
  Add(owner);
}

void EpochQuota::Add(const EpochOwner& owner) {
  ++num_epochs_;
  ++by_job_[owner.job];
  ++by_namespace_[std::string(NamespaceOf(owner.job))];
  if (!owner.client.empty()) ++by_client_[owner.client];
}

void EpochQuota::GiveBack(const EpochOwner& owner) {
  absl::MutexLock lock(&mutex_);
  --num_epochs_;
  const auto of_job = by_job_.find(owner.job);
  if (--of_job->second == 0) by_job_.erase(of_job);
  const auto there = by_namespace_.find(std::string(NamespaceOf(owner.job)));
  if (--there->second == 0) by_namespace_.erase(there);
  if (owner.client.empty()) return;
  const auto own = by_client_.find(owner.client);
  if (--own->second == 0) by_client_.erase(own);
}

size_t EpochQuota::num_epochs() const {
  absl::MutexLock lock(&mutex_);
  return num_epochs_;
}

std::map<std::string, uint64_t> EpochQuota::CountByNamespace() const {
  absl::MutexLock lock(&mutex_);
  return by_namespace_;
}

}  // namespace packhouse
