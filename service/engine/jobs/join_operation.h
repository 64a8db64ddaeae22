// The joining of a worker, in its job's commit queue.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOIN_OPERATION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOIN_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/job_operation.h"
#include "service/engine/jobs/job_session.h"
#include "service/engine/jobs/job_state.h"
#include "service/engine/jobs/joining.h"

namespace packhouse {

// A worker joins an epoch: the events of PlanJoin() (joining.h), and a place in the epoch's table.
class JoinOperation final : public JobOperation {
 public:
  JoinOperation(EpochIdentity identity, JoinRequest request, std::shared_ptr<JobSession> session)
      : JobOperation(/*somebody_waits=*/false),
        identity_(std::move(identity)),
        request_(std::move(request)),
        session_(std::move(session)) {}

  absl::Status Plan(JobState& job, PendingChanges& pending) override;
  void Apply(JobState& job, Wakes& wakes) override;
  void Undo(JobState& job) override;
  void Lose(JobState& job) override;
  // Tells the session.
  void Answer() override;
  const std::function<void()>* Answered() override {
    return wakes_session_ ? &session_->wake : nullptr;
  }

 private:
  // Takes the quota; later epochs that are forgotten and finished ones beyond those that are kept
  // make room.
  absl::Status TakeQuota(JobState& job, const PendingChanges& pending);
  // Later epochs that have not been given back yet.
  void GiveBackRolledBack(JobState& job);

  const EpochIdentity identity_;
  const JoinRequest request_;
  const std::shared_ptr<JobSession> session_;

  JoinPlan plan_;
  // Finished epochs that are forgotten to make room. None of them is rolled back.
  std::vector<EpochKey> forgotten_;
  // The clients of epochs that made room when this was planned.
  std::vector<ClientId> given_back_;
  bool has_quota_ = false;
  // Later epochs that are forgotten, and their clients.
  std::vector<std::pair<EpochKey, ClientId>> rolled_back_;
  // How many of these have been given back to the quota: if this opens the epoch, all when it was
  // planned.
  size_t num_given_back_ = 0;
  uint64_t table_bytes_ = 0;
  // Of the epoch when this was planned: batches that are known, and whether these are all.
  std::vector<uint64_t> num_known_;
  bool is_complete_ = false;
  uint64_t opening_ = 0;  // As the ledger is after this operation.
  LoadStart start_;
  bool wakes_session_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOIN_OPERATION_H_
