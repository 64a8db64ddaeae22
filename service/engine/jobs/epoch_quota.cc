#include "service/engine/jobs/epoch_quota.h"

#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

std::optional<uint64_t> EpochsHere::TakeBelow(uint64_t most, const std::string& job) {
  const absl::string_view where = NamespaceOf(job);
  absl::MutexLock lock(&mutex_);
  if (most != std::numeric_limits<uint64_t>::max()) {
    uint64_t num_there = 0;
    std::vector<std::string> here = {job};
    for (const auto& [name, count] : by_job_) {
      if (NamespaceOf(name) != where) continue;
      num_there += count;
      if (name != job) here.push_back(name);
    }
    if (elsewhere_) num_there += elsewhere_(where, here);
    if (num_there >= most) return num_there;
  }
  ++by_job_[job];
  return std::nullopt;
}

void EpochsHere::Add(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  ++by_job_[job];
}

void EpochsHere::GiveBack(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  const auto of_job = by_job_.find(job);
  if (--of_job->second == 0) by_job_.erase(of_job);
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
  if (here_ != nullptr) {
    if (const auto num_there = here_->TakeBelow(most_there, owner.job)) {
      return BeyondQuota(where, "epochs", *num_there + 1, most_there);
    }
  } else {
    const auto there = by_namespace_.find(where);
    const uint64_t num_there = there == by_namespace_.end() ? 0 : there->second;
    if (num_there >= most_there) {
      return BeyondQuota(where, "epochs", num_there + 1, most_there);
    }
  }
  Add(owner);
  return absl::OkStatus();
}

EpochQuota::~EpochQuota() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [job, count] : by_job_) {
    for (uint64_t i = 0; i < count; ++i) here_->GiveBack(job);
  }
}

void EpochQuota::TakeAnyway(const EpochOwner& owner) {
  absl::MutexLock lock(&mutex_);
  if (here_ != nullptr) here_->Add(owner.job);
  Add(owner);
}

void EpochQuota::Add(const EpochOwner& owner) {
  ++num_epochs_;
  if (here_ != nullptr) ++by_job_[owner.job];
  ++by_namespace_[std::string(NamespaceOf(owner.job))];
  if (!owner.client.empty()) ++by_client_[owner.client];
}

void EpochQuota::GiveBack(const EpochOwner& owner) {
  absl::MutexLock lock(&mutex_);
  --num_epochs_;
  if (here_ != nullptr) {
    here_->GiveBack(owner.job);
    const auto of_job = by_job_.find(owner.job);
    if (--of_job->second == 0) by_job_.erase(of_job);
  }
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
