#include "service/delivery/epoch_quota.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

absl::Status EpochQuota::Take(const ClientId& client) {
  absl::MutexLock lock(&mutex_);
  if (num_epochs_ >= max_epochs_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("epochs: ", num_epochs_, " are remembered, at most ", max_epochs_,
                     " (--max-epochs); finish them, or delete jobs that will not"));
  }
  const auto own = by_client_.find(client);
  if (own != by_client_.end() && own->second >= max_epochs_per_client_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("epochs: ", own->second, " of client '", absl::CHexEscape(client),
                     "' are remembered, at most ", max_epochs_per_client_,
                     " (--max-epochs-per-client); finish them, or delete jobs that will not"));
  }
  ++num_epochs_;
  if (!client.empty()) ++by_client_[client];
  return absl::OkStatus();
}

void EpochQuota::TakeAnyway(const ClientId& client) {
  absl::MutexLock lock(&mutex_);
  ++num_epochs_;
  if (!client.empty()) ++by_client_[client];
}

void EpochQuota::GiveBack(const ClientId& client) {
  absl::MutexLock lock(&mutex_);
  --num_epochs_;
  if (client.empty()) return;
  const auto own = by_client_.find(client);
  if (--own->second == 0) by_client_.erase(own);
}

size_t EpochQuota::num_epochs() const {
  absl::MutexLock lock(&mutex_);
  return num_epochs_;
}

}  // namespace packhouse
