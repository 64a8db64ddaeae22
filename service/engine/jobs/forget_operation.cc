#include "service/engine/jobs/forget_operation.h"

#include "service/base/status_macros.h"
#include "service/engine/jobs/epoch_quota.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {

template <typename Event>
absl::Status ForgetOperation::Forget(PendingChanges& pending, const Event& event) {
  const ClientId client = pending.ledger.Find(event.epoch)->client;
  PH_RETURN_IF_ERROR(pending.Add(event));
  forgotten_.emplace_back(event.epoch, client);
  return absl::OkStatus();
}

absl::Status ForgetOperation::Plan(JobState& job, PendingChanges& pending) {
  return now_ ? PlanUnused(job, pending, *now_) : PlanAll(pending);
}

absl::Status ForgetOperation::PlanAll(PendingChanges& pending) {
  const std::vector<EpochKey> epochs = pending.ledger.Epochs();
  std::vector<EpochKey> expired = pending.ledger.Expired();
  if (epochs.empty() && expired.empty()) return absl::NotFoundError("has no epochs");
  for (const EpochKey& key : epochs) PH_RETURN_IF_ERROR(Forget(pending, EpochForgotten{key}));
  for (EpochKey& key : expired) {
    PH_RETURN_IF_ERROR(pending.Add(EpochForgotten{std::move(key)}));
  }
  return absl::OkStatus();
}

absl::Status ForgetOperation::PlanUnused(JobState& job, PendingChanges& pending, absl::Time now) {
  const absl::Duration retention = job.environment().epoch_retention;
  if (retention == absl::InfiniteDuration()) return absl::OkStatus();
  const uint64_t seconds = SecondsOf(now);
  const auto kept = static_cast<uint64_t>(absl::ToInt64Seconds(retention));
  for (const EpochKey& key : pending.ledger.Epochs()) {
    const EpochState& state = *pending.ledger.Find(key);
    if (pending.joined.contains(key) || job.IsLoaded(key.epoch)) continue;
    if (state.used_seconds == 0) {
      PH_RETURN_IF_ERROR(pending.Add(EpochUsed{key, seconds}));
      continue;
    }
    if (seconds < job.UsedSeconds(state) + kept) continue;
    PH_RETURN_IF_ERROR(Forget(pending, EpochExpired{key, state.generation, seconds}));
  }
  // There are never more of them than there were epochs at that time: every epoch that has been
  // forgotten since was remembered then.
  if (seconds > kept) {
    pending.ledger.DropExpired(seconds - kept);
    pending.changed = true;
  }
  return absl::OkStatus();
}

void ForgetOperation::Apply(JobState& job, Wakes& wakes) {
  for (; num_closed_ < forgotten_.size(); ++num_closed_) {
    job.Close(forgotten_[num_closed_].first, wakes);
    job.environment().quota->GiveBack({forgotten_[num_closed_].second, job.name()});
  }
}

void ForgetOperation::Lose(JobState& job) {
  for (; num_closed_ < forgotten_.size(); ++num_closed_) {
    job.environment().quota->GiveBack({forgotten_[num_closed_].second, job.name()});
  }
}

}  // namespace packhouse
