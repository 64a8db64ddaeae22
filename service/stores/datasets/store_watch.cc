#include "service/stores/datasets/store_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace packhouse {

void StoreWatch::OnCommitBegin() {
  if (next_ != nullptr) next_->OnCommitBegin();
}

void StoreWatch::OnCommitEnd(const CommitSummary& summary) {
  if (next_ != nullptr) next_->OnCommitEnd(summary);
  bool has_recovered = false;
  if (summary.outcome) {
    absl::MutexLock lock(&mutex_);
    has_recovered = !failure_.ok() && summary.outcome->ok();
    failure_ = *summary.outcome;
    failed_bytes_ = failure_.ok() ? 0 : std::max(failed_bytes_, summary.largest_change);
  }
  const auto log = [&](LogLevel level, const char* event, const absl::Status& status) {
    log_->Log(absl::StrCat(event, " ", store_), level, event,
              {{"store", store_},
               {"code", absl::StatusCodeToString(status.code())},
               LogField::Message(status.message())});
  };
  if (has_recovered) {
    log_->Log(absl::StrCat("recovered ", store_), LogLevel::kInfo, "commits go through again",
              {{"store", store_}});
  } else if (summary.outcome && !summary.outcome->ok()) {
    log(LogLevel::kError, "commit failed", *summary.outcome);
  } else if (!summary.first_failure.ok()) {
    log(LogLevel::kWarning, "change refused", summary.first_failure);
  }
}

void StoreWatch::OnStoreBytes(uint64_t num_bytes) {
  if (next_ != nullptr) next_->OnStoreBytes(num_bytes);
}

absl::Status StoreWatch::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

uint64_t StoreWatch::failed_bytes() const {
  absl::MutexLock lock(&mutex_);
  return failed_bytes_;
}

}  // namespace packhouse
