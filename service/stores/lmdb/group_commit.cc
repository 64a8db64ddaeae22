#include "service/stores/lmdb/group_commit.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Whether it is an error of the store rather than of the caller.
bool IsOfStore(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsDataLoss(status) || absl::IsInternal(status);
}

}  // namespace

void GroupCommit::SetTotals(const StoreTotals& totals) {
  absl::MutexLock lock(&mutex_);
  totals_ = totals;
}

StoreTotals GroupCommit::totals() const {
  absl::MutexLock lock(&mutex_);
  return totals_;
}

absl::Status GroupCommit::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

size_t GroupCommit::num_waiting() const {
  absl::MutexLock lock(&mutex_);
  return queue_.size();
}

absl::Status GroupCommit::Run(Change change, uint64_t num_bytes) {
  Waiter self{change, num_bytes, absl::OkStatus()};
  absl::MutexLock lock(&mutex_);
  queue_.push_back(&self);
  while (true) {
    const auto may_go_on = [this, &self]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return self.is_done ||
             (!is_committing_ && !(is_behind_ && num_commits_before_ >= kCommitsBetween));
    };
    mutex_.Await(absl::Condition(&may_go_on));
    if (self.is_done) return self.status;
    Commit(nullptr);
    if (is_behind_) ++num_commits_before_;
  }
}

absl::Status GroupCommit::RunBehind(Change change) {
  Waiter self{change, 0, absl::OkStatus()};
  absl::MutexLock lock(&mutex_);
  is_behind_ = true;
  num_commits_before_ = 0;
  const auto may_go_on = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !is_committing_ && (queue_.empty() || num_commits_before_ >= kCommitsBetween);
  };
  mutex_.Await(absl::Condition(&may_go_on));
  is_behind_ = false;
  Commit(&self);
  return self.status;
}

void GroupCommit::Commit(Waiter* last) {
  // If there is no memory for more, these are committed alone.
  absl::InlinedVector<Waiter*, 2> group;
  size_t most = std::min(queue_.size(), kMaxChanges);
  if (!RunWithinMemory([&] { group.reserve(most + 1); })) most = std::min<size_t>(most, 1);
  uint64_t group_bytes = 0;
  while (!queue_.empty() && group.size() < most &&
         (group.empty() || group_bytes + queue_.front()->num_bytes <= kMaxBytes)) {
    group.push_back(queue_.front());
    group_bytes += queue_.front()->num_bytes;
    queue_.pop_front();
  }
  if (last != nullptr) group.push_back(last);
  StoreTotals totals = totals_;
  Disk disk = {failure_, std::nullopt};
  is_committing_ = true;
  mutex_.Unlock();
  CommitTogether(absl::MakeSpan(group), totals, disk);
  mutex_.Lock();
  is_committing_ = false;
  totals_ = totals;
  failure_ = disk.failure;
  for (Waiter* const waiter : group) waiter->is_done = true;
}

void GroupCommit::CommitTogether(absl::Span<Waiter* const> group, StoreTotals& totals,
                                 Disk& disk) const {
  if (!disk.failure.ok()) {
    for (Waiter* const waiter : group) waiter->status = disk.failure;
    return;
  }
  if (observer_ != nullptr) RunWithinMemory([&] { observer_->OnCommitBegin(); });
  const uint64_t bytes_before = totals.num_bytes;
  CommitSummary summary;
  // If a change fails after it has begun to write, or the commit fails, the whole transaction
  // fails. Then each change is tried alone, so that only the one that causes the failure fails.
  const auto together = [&]() -> absl::Status {
    StoreTotals changed = totals;
    PH_ASSIGN_OR_RETURN(LmdbTransaction transaction, Begin(disk));
    for (Waiter* const waiter : group) {
      const size_t writes_before = transaction.num_writes();
      const StoreTotals totals_before = changed;
      waiter->status = waiter->change(transaction, changed);
      if (waiter->status.ok()) continue;
      if (transaction.num_writes() != writes_before) return waiter->status;
      changed = totals_before;
    }
    PH_RETURN_IF_ERROR(Commit(transaction, disk));
    totals = changed;
    return absl::OkStatus();
  };
  // A change without memory for its writes makes the others fail, too.
  absl::Status status = OutOfMemory();
  RunWithinMemory([&] { status = together(); });
  if (!status.ok()) {
    for (Waiter* const waiter : group) {
      if (!disk.failure.ok()) {
        waiter->status = DiskOutcomeIsUnknown(status) ? status : disk.failure;
      } else {
        waiter->status = status;
        if (group.size() == 1) continue;
        waiter->status = OutOfMemory();
        RunWithinMemory([&] { waiter->status = CommitAlone(*waiter, totals, disk); });
      }
    }
  }
  if (observer_ == nullptr) return;
  summary.is_durable = status.ok();
  summary.outcome = disk.outcome;
  for (const Waiter* const waiter : group) {
    summary.largest_change = std::max(summary.largest_change, waiter->num_bytes);
    if (!waiter->status.ok()) {
      if (summary.first_failure.ok() && IsOfStore(waiter->status)) {
        summary.first_failure = waiter->status;
      }
      continue;
    }
    ++summary.num_changes;
    summary.num_bytes += waiter->num_bytes;
  }
  RunWithinMemory([&] { observer_->OnCommitEnd(summary); });
  if (totals.num_bytes != bytes_before) {
    RunWithinMemory([&] { observer_->OnStoreBytes(totals.num_bytes); });
  }
}

absl::Status GroupCommit::CommitAlone(Waiter& waiter, StoreTotals& totals, Disk& disk) const {
  StoreTotals changed = totals;
  PH_ASSIGN_OR_RETURN(LmdbTransaction transaction, Begin(disk));
  PH_RETURN_IF_ERROR(waiter.change(transaction, changed));
  PH_RETURN_IF_ERROR(Commit(transaction, disk));
  totals = changed;
  return absl::OkStatus();
}

absl::StatusOr<LmdbTransaction> GroupCommit::Begin(Disk& disk) const {
  auto transaction = LmdbTransaction::Begin(*environment_, LmdbTransaction::Kind::kWrite);
  if (!transaction.ok()) disk.outcome = transaction.status();
  return transaction;
}

absl::Status GroupCommit::Commit(LmdbTransaction& transaction, Disk& disk) const {
  const bool has_written = transaction.num_writes() != 0;
  absl::Status status = transaction.Commit();
  if (has_written || !status.ok()) disk.outcome = status;
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  // The last write of a commit may be on the disk, although the disk says that it failed.
  const bool is_unknown = absl::IsUnavailable(status) || absl::IsDataLoss(status);
  if (after_disk_failure_ == AfterDiskFailure::kTryAgain) {
    return is_unknown ? UnknownOutcome(status) : status;
  }
  // This status holds even if there is no memory for a longer message.
  disk.failure = status;
  const absl::Status of_environment = environment_->failure();
  disk.failure = !of_environment.ok()
                     ? of_environment
                     : absl::Status(status.code(),
                                    absl::StrCat(status.message(),
                                                 "; nothing more is done until it is opened anew"));
  return is_unknown ? UnknownOutcome(disk.failure) : disk.failure;
}

}  // namespace packhouse
