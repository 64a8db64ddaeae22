// The operations in a job's commit queue (job.h): join_operation.h, acknowledge_operation.h,
// forget_operation.h.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_OPERATION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_OPERATION_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/job_state.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {

// The ledger as the operations planned so far will leave it.
struct PendingChanges {
  JobLedger ledger;
  std::vector<std::string> records;
  bool changed = false;
  // Epochs that workers join, and epochs with a new generation.
  std::set<EpochKey> joined;
  std::set<EpochKey> started;

  // Events that were planned against `ledger` fit it, so an error is a defect.
  absl::Status Add(const LedgerEvent& event) {
    const absl::Status status = ledger.Apply(event);
    if (!status.ok()) {
      return absl::InternalError(absl::StrCat("planned, and does not fit: ", status.message()));
    }
    records.push_back(EncodeEvent(event));
    changed = true;
    return absl::OkStatus();
  }
};

// A change of a job's ledger. The committing thread uses it, with the job's mutex; only `status`
// may be read after the end.
class JobOperation {
 public:
  explicit JobOperation(bool somebody_waits) : is_awaited(somebody_waits) {}
  virtual ~JobOperation() = default;

  // Adds the events of the change to `pending`. With an error, the change does not happen.
  virtual absl::Status Plan(JobState& job, PendingChanges& pending) = 0;
  // Called once the change is in the ledger.
  virtual void Apply(JobState& job, Wakes& wakes) = 0;
  // Called if the change was planned, completely or in part, and does not happen.
  virtual void Undo(JobState& /*job*/) {}
  // Called if the change is in the ledger, but there was no memory for Apply(), which may have
  // begun.
  virtual void Lose(JobState& /*job*/) {}
  // Called last, with the status. Takes no memory.
  virtual void Answer() {}
  // The function that wakes the caller then; null if there is none.
  virtual const std::function<void()>* Answered() { return nullptr; }

  // Whether a thread waits for it in Perform(), and would commit it.
  const bool is_awaited;
  // Whether its status rests on changes that are not durable yet.
  bool is_tentative = false;
  bool is_planned = false;  // Plan() has begun.
  bool done = false;        // Guarded by the job's mutex.
  absl::Status status;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_OPERATION_H_
