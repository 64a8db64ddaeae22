// The forgetting of epochs, in their job's commit queue.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_FORGET_OPERATION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_FORGET_OPERATION_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/job_operation.h"
#include "service/engine/jobs/job_state.h"

namespace packhouse {

// Forgets epochs of the job: all, or those that nobody has used for long.
class ForgetOperation final : public JobOperation {
 public:
  // Forgets all; NOT_FOUND if there are none.
  ForgetOperation() : JobOperation(/*somebody_waits=*/true) {}
  // Forgets those that nobody has used for as long as the environment says. An epoch without a
  // known last use counts as used now.
  explicit ForgetOperation(absl::Time now) : JobOperation(/*somebody_waits=*/true), now_(now) {}

  absl::Status Plan(JobState& job, PendingChanges& pending) override;
  void Apply(JobState& job, Wakes& wakes) override;
  void Lose(JobState& job) override;

  size_t num_forgotten() const { return forgotten_.size(); }

 private:
  absl::Status PlanAll(PendingChanges& pending);
  absl::Status PlanUnused(JobState& job, PendingChanges& pending, absl::Time now);
  template <typename Event>
  absl::Status Forget(PendingChanges& pending, const Event& event);

  const std::optional<absl::Time> now_;
  // The epochs and their clients.
  std::vector<std::pair<EpochKey, ClientId>> forgotten_;
  size_t num_closed_ = 0;  // Of these.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_FORGET_OPERATION_H_
