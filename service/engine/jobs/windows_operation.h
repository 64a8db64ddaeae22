// Windows that were planned, in their job's commit queue.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_WINDOWS_OPERATION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_WINDOWS_OPERATION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/job_operation.h"
#include "service/engine/jobs/job_state.h"

namespace packhouse {

// The next windows of an epoch are known: their batches are dealt once the ledger has their
// numbers.
class WindowsOperation final : public JobOperation {
 public:
  // `opening`: for which of the epoch's openings they were planned. `counts`: batches of the first
  // windows, as EpochWindows::Counts().
  WindowsOperation(EpochKey key, uint64_t opening, std::vector<uint32_t> counts)
      : JobOperation(/*somebody_waits=*/true),
        key_(std::move(key)),
        opening_(opening),
        counts_(std::move(counts)) {}

  absl::Status Plan(JobState& job, PendingChanges& pending) override;
  void Apply(JobState& job, Wakes& wakes) override;

 private:
  const EpochKey key_;
  const uint64_t opening_;
  const std::vector<uint32_t> counts_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_WINDOWS_OPERATION_H_
