// Batches that are acknowledged, in their job's commit queue.
#ifndef PACKHOUSE_SERVICE_DELIVERY_ACKNOWLEDGE_OPERATION_H_
#define PACKHOUSE_SERVICE_DELIVERY_ACKNOWLEDGE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/delivery/job_operation.h"
#include "service/delivery/job_state.h"
#include "service/delivery/lease_table.h"
#include "service/epochs/epoch_identity.h"

namespace packhouse {

struct AcknowledgeResult {
  uint64_t num_new = 0;
  // What is done now, by all workers.
  std::string cursor;
};

// Batches are done.
class AcknowledgeOperation final : public JobOperation {
 public:
  // Runs of batches that are done, of an epoch: one for each batch that others have overtaken.
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

  // Once it has been answered with OK.
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

#endif  // PACKHOUSE_SERVICE_DELIVERY_ACKNOWLEDGE_OPERATION_H_
