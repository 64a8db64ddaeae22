#include "service/engine/jobs/acknowledge_operation.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {
namespace {

absl::Status CheckRuns(const EpochState& state, const BatchSet& added) {
  constexpr size_t kMaxRuns = AcknowledgeOperation::kMaxRuns;
  if (state.done.num_runs() + added.num_runs() <= kMaxRuns) return absl::OkStatus();
  BatchSet all = state.done;
  all.InsertAll(added);
  if (all.num_runs() <= std::max(kMaxRuns, state.done.num_runs())) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "batches: what is done of the epoch would have ", all.num_runs(),
      " runs with gaps between them, at most ", kMaxRuns, "; acknowledge those that came first"));
}

}  // namespace

absl::Status AcknowledgeOperation::Plan(JobState& job, PendingChanges& pending) {
  PH_RETURN_IF_ERROR(CheckGeneration(pending.ledger, key_, generation_));
  // No client knows a generation that is about to start.
  PH_RETURN_IF_ERROR(CheckGeneration(job.ledger(), key_, generation_));
  PH_ASSIGN_OR_RETURN(const OpenEpoch* const epoch, job.Open(key_));
  PH_RETURN_IF_ERROR(epoch->table->CheckDealt(batches_));
  const EpochState* state = pending.ledger.Find(key_);
  // Each batch may be a run of its own, in the ledger and in the table.
  PH_RETURN_IF_ERROR(job.Reserve(state->Bytes() + batches_.size() * 2 * kBytesPerRun));
  BatchesAcknowledged event = {key_, generation_, {}};
  for (const uint64_t batch : batches_) {
    if (!state->done.Contains(batch)) event.batches.Insert(batch);
  }
  result_.num_new = event.batches.size();
  PH_RETURN_IF_ERROR(CheckRuns(*state, event.batches));
  const std::optional<EpochUsed> use = UseToWrite(*state, now_);
  if (!event.batches.empty()) PH_RETURN_IF_ERROR(pending.Add(event));
  if (use) PH_RETURN_IF_ERROR(pending.Add(*use));
  state = pending.ledger.Find(key_);
  result_.cursor = CursorOf(*state, state->DoneWithoutPadding());
  return absl::OkStatus();
}

void AcknowledgeOperation::Apply(JobState& job, Wakes& wakes) {
  OpenEpoch& epoch = job.At(key_.epoch);
  epoch.used_seconds = std::max(epoch.used_seconds, SecondsOf(now_));
  epoch.table->Acknowledge(session_, batches_, now_);
  job.CountTable(key_);
  job.TellWoken(epoch, wakes);
}

}  // namespace packhouse
