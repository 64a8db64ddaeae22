// One stream of LoaderService.Load.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_LOAD_SOURCE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_LOAD_SOURCE_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "packhouse/v1/loader.pb.h"
#include "service/access/text_signer.h"
#include "service/base/clock.h"
#include "service/base/early_end.h"
#include "service/engine/jobs/evaluation.h"
#include "service/engine/jobs/job.h"
#include "service/engine/jobs/loader.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/response_source.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse {

using LoadReply = BatchReply<v1::LoadResponse>;

// A worker's stream: `opened`, batches, `end_of_epoch`. It ends early if the job says so, and sends
// nothing while the job's ownership is in doubt (UNAVAILABLE). The pointees must outlive the
// source.
class LoadSource final : public ResponseSource<LoadReply> {
 public:
  // `leased` is called after each batch, with the time at which its lease expires. `signer` signs
  // cursors; it may be null. `job` is the session's.
  LoadSource(const Clock* clock, std::shared_ptr<Job> job, std::unique_ptr<LoadSession> session,
             std::unique_ptr<PackObserver> observer, std::function<void(absl::Time)> leased,
             std::function<void()> wake, const TextSigner* signer = nullptr)
      : job_(std::move(job)),
        clock_(clock),
        session_(std::move(session)),
        observer_(std::move(observer)),
        leased_(std::move(leased)),
        early_end_(&job_->early_end(), std::move(wake)),
        signer_(signer) {}
  ~LoadSource() override { observer_->OnPending(0, 0); }

  LoadSource(const LoadSource&) = delete;
  LoadSource& operator=(const LoadSource&) = delete;

  absl::StatusOr<std::optional<LoadReply>> Next() override;
  bool IsWaiting() const override { return state_ == State::kJoining || state_ == State::kWaiting; }

 private:
  enum class State { kJoining, kDelivering, kWaiting, kEnded };

  const std::shared_ptr<Job> job_;  // Outlives the session.
  const Clock* const clock_;
  const std::unique_ptr<LoadSession> session_;
  const std::unique_ptr<PackObserver> observer_;
  const std::function<void(absl::Time)> leased_;
  const EarlyEnd::Stream early_end_;
  const TextSigner* const signer_;
  State state_ = State::kJoining;
};

// The stream of a job that another server has: it says where, and ends.
class RedirectSource final : public ResponseSource<LoadReply> {
 public:
  explicit RedirectSource(JobOwner owner) : owner_(std::move(owner)) {}

  absl::StatusOr<std::optional<LoadReply>> Next() override;

 private:
  const JobOwner owner_;
  bool has_said_ = false;
};

// The stream of an evaluation. It waits for the client to read, and for segments.
class EvaluationSource final : public ResponseSource<LoadReply> {
 public:
  // `wake` makes the call ask again, also when it ends early.
  EvaluationSource(std::unique_ptr<Evaluation> evaluation, std::unique_ptr<PackObserver> observer,
                   EarlyEnd* early_end, std::function<void()> wake,
                   const TextSigner* signer = nullptr)
      : evaluation_(std::move(evaluation)),
        observer_(std::move(observer)),
        early_end_(early_end, std::move(wake)),
        signer_(signer) {}
  ~EvaluationSource() override { observer_->OnPending(0, 0); }

  EvaluationSource(const EvaluationSource&) = delete;
  EvaluationSource& operator=(const EvaluationSource&) = delete;

  absl::StatusOr<std::optional<LoadReply>> Next() override;
  bool IsWaiting() const override { return state_ == State::kWaiting; }

 private:
  enum class State { kNew, kDelivering, kWaiting, kEnded };

  const std::unique_ptr<Evaluation> evaluation_;
  const std::unique_ptr<PackObserver> observer_;
  const EarlyEnd::Stream early_end_;
  const TextSigner* const signer_;
  State state_ = State::kNew;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_LOAD_SOURCE_H_
