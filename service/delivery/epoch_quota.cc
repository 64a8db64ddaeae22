#include "service/delivery/epoch_quota.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

absl::Status EpochQuota::Take(const EpochOwner& owner) {
  const std::string where(NamespaceOf(owner.job));
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const uint64_t most_there = quotas_of_ ? quotas_of_(where).epochs.value_or(kNone) : kNone;
  const uint64_t num_elsewhere =
      most_there != kNone && elsewhere_ ? elsewhere_(where, owner.job) : 0;
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
  const auto there = by_namespace_.find(where);
  const uint64_t num_there = num_elsewhere + (there == by_namespace_.end() ? 0 : there->second);
  if (num_there >= most_there) {
    return BeyondQuota(where, "epochs", num_there + 1, most_there);
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
  ++by_namespace_[std::string(NamespaceOf(owner.job))];
  if (!owner.client.empty()) ++by_client_[owner.client];
}

void EpochQuota::GiveBack(const EpochOwner& owner) {
  absl::MutexLock lock(&mutex_);
  --num_epochs_;
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
