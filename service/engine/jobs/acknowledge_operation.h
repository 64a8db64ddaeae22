// The acknowledgement of batches, in their job's commit queue.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_ACKNOWLEDGE_OPERATION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_ACKNOWLEDGE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/job_operation.h"
#include "service/engine/jobs/job_state.h"
#include "service/engine/jobs/lease_table.h"

namespace packhouse {

struct AcknowledgeResult {
  uint64_t num_new = 0;
  // Has the batches that are done now, by all workers.
  std::string cursor;
};

// Makes batches done.
class AcknowledgeOperation final : public JobOperation {
 public:
  // The most runs of done batches of an epoch. There is a run for each batch that others have
  // overtaken.
  static constexpr size_t kMaxRuns = 65536;

  // `batches` must outlive it.
  AcknowledgeOperation(EpochKey key, SessionId session, uint64_t generation,
                       absl::Span<const uint64_t> batches, absl::Time now)
      : JobOperation(/*somebody_waits=*/true),
        key_(std::move(key)),
        session_(session),
        generation_(generation),
        batches_(batches),
        now_(now) {}

  absl::Status Plan(JobState& job, PendingChanges& pending) override;
  void Apply(JobState& job, Wakes& wakes) override;

  // The result, once it has been answered with OK.
  AcknowledgeResult& result() { return result_; }

 private:
  const EpochKey key_;
  const SessionId session_;
  const uint64_t generation_;
  const absl::Span<const uint64_t> batches_;
  const absl::Time now_;

  AcknowledgeResult result_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_ACKNOWLEDGE_OPERATION_H_
