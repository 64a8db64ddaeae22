#include "service/engine/jobs/windows_operation.h"

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {

absl::Status WindowsOperation::Plan(JobState& job, PendingChanges& pending) {
  const EpochState* const state = pending.ledger.Find(key_);
  if (state == nullptr) return NoSuchEpoch(pending.ledger, key_);
  if (pending.ledger.OpeningOf(key_) != opening_) {
    return absl::NotFoundError(
        absl::StrCat("epoch ", key_.epoch, " of job ", Quoted(key_.job),
                     ": was forgotten and begun anew while its windows were planned"));
  }
  const size_t known = state->windows.size();
  if (counts_.size() <= known) return absl::OkStatus();
  PH_RETURN_IF_ERROR(job.Reserve(state->Bytes() + 4 * sizeof(uint32_t) * counts_.size()));
  return pending.Add(
      WindowsCounted{key_,
                     known / state->identity.rank_groups.size(),
                     {counts_.begin() + static_cast<ptrdiff_t>(known), counts_.end()}});
}

void WindowsOperation::Apply(JobState& job, Wakes& wakes) {
  // Nobody may load it any more, or it may be forgotten, and begun anew in the same commit.
  if (job.ledger().OpeningOf(key_) != opening_) return;
  const auto open = job.open_epochs().find(key_.epoch);
  const EpochState* const state = job.ledger().Find(key_);
  if (open == job.open_epochs().end() || state == nullptr) return;
  open->second->table->Grow(state->NumKnown(), state->is_complete());
  job.TellWoken(*open->second, wakes);
}

}  // namespace packhouse
