// The jobs of a server that is alone, with a loader: each call says which job it is about.
#ifndef PACKHOUSE_TESTS_DELIVERY_ALL_JOBS_H_
#define PACKHOUSE_TESTS_DELIVERY_ALL_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/loader.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse {

class AllJobs {
 public:
  // The pointees must outlive it.
  static absl::StatusOr<std::unique_ptr<AllJobs>> Open(EpochCatalog* catalog, JobLogs* logs,
                                                       const JobsOptions& options,
                                                       MemoryBudget* memory = nullptr) {
    auto all = std::unique_ptr<AllJobs>(new AllJobs(catalog, memory));
    PH_ASSIGN_OR_RETURN(all->jobs_, Jobs::Create(&all->loader_, logs, options, memory));
    return all;
  }

  Loader& loader() { return loader_; }
  Jobs& jobs() { return *jobs_; }
  std::shared_ptr<Job> job(const std::string& name) { return jobs_->Open(name).value().job; }

  void RunInBackground(Executor executor) { loader_.RunInBackground(std::move(executor)); }
  void PlanInBackground(Loader::PlanExecutor executor) {
    loader_.PlanInBackground(std::move(executor));
  }
  absl::StatusOr<Loader::Description> Describe(EpochRequest request,
                                               const Cancellation& cancellation = {},
                                               const Loader::Sharer& sharer = {}) {
    const auto of_request = job(request.key.job);
    return loader_.Describe(of_request.get(), std::move(request), cancellation, sharer);
  }
  absl::StatusOr<std::unique_ptr<LoadSession>> StartLoad(EpochRequest request, JoinRequest join,
                                                         size_t max_in_flight,
                                                         std::function<void()> wake,
                                                         const Cancellation& cancellation = {}) {
    auto of_request = job(request.key.job);
    return loader_.StartLoad(std::move(of_request), std::move(request), std::move(join),
                             max_in_flight, std::move(wake), cancellation);
  }
  absl::StatusOr<std::unique_ptr<LoadSession>> Load(EpochRequest request, JoinRequest join,
                                                    size_t max_in_flight,
                                                    std::function<void()> wake,
                                                    const Cancellation& cancellation = {}) {
    auto of_request = job(request.key.job);
    return loader_.Load(std::move(of_request), std::move(request), std::move(join), max_in_flight,
                        std::move(wake), cancellation);
  }
  absl::StatusOr<std::unique_ptr<Evaluation>> Evaluate(const EpochRequest& request,
                                                       EvaluationRequest evaluation,
                                                       const ClientId& client = {},
                                                       std::function<void()> wake = nullptr,
                                                       const Cancellation& cancellation = {}) {
    return loader_.Evaluate(request, std::move(evaluation), client, std::move(wake), cancellation);
  }
  absl::StatusOr<Job::Opened> OpenedNear(const EpochKey& key) {
    return job(key.job)->OpenedNear(key.epoch);
  }
  absl::StatusOr<Jobs::Planned> FindPlan(absl::string_view receipt,
                                         absl::FunctionRef<bool(const EpochIdentity&)> may_show) {
    return jobs_->FindPlan(
        receipt, [](const std::string&) { return true; }, may_show, [] { return false; });
  }
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Rebuild(EpochRequest request,
                                                               const Job::Opened& opened,
                                                               const Cancellation& cancellation) {
    return loader_.Rebuild(std::move(request), opened, cancellation);
  }
  absl::StatusOr<AcknowledgeResult> Acknowledge(const EpochKey& key, SessionId session,
                                                uint64_t generation,
                                                absl::Span<const uint64_t> batches,
                                                absl::Time now) {
    return job(key.job)->Acknowledge(key.epoch, session, generation, batches, now);
  }
  absl::StatusOr<std::string> CursorAtStep(const EpochKey& key, uint64_t generation,
                                           uint64_t steps) {
    return job(key.job)->CursorAtStep(key.epoch, generation, steps);
  }
  JobList ListJobs(size_t page_size, const std::string& after) {
    return jobs_->List(page_size, after, [](const std::string&) { return true; }).value();
  }
  absl::StatusOr<JobSummary> GetJob(const std::string& name) { return job(name)->Summary(10'000); }
  std::vector<EpochWatch> WatchJob(const std::string& name) { return job(name)->Watch(); }
  // What metrics and the page know of the one epoch that is loaded.
  EpochProgress Seen() {
    const std::vector<EpochProgress> progress = Snapshot().progress;
    EXPECT_EQ(progress.size(), 1U);
    EpochProgress of_page = WatchJob(progress.at(0).key.job).at(0).progress;
    EXPECT_EQ(progress[0].company, of_page.company);
    EXPECT_EQ(progress[0].step_efficiency, of_page.step_efficiency);
    return of_page;
  }
  absl::Status DeleteJob(const std::string& name) { return job(name)->Forget(); }
  absl::StatusOr<size_t> ForgetUnused(absl::Time now) { return jobs_->ForgetUnused(now); }
  void Expire(absl::Time now) { jobs_->Expire(now); }
  absl::Time NextExpiry() const { return jobs_->NextExpiry(); }
  // After what nobody needs has gone.
  size_t num_jobs() {
    jobs_->Sweep();
    return jobs_->num_here();
  }
  std::map<std::string, uint64_t> EpochsByNamespace() const { return jobs_->EpochsByNamespace(); }
  std::vector<SessionSummary> Sessions() const { return jobs_->Sessions(); }
  DeliverySnapshot Snapshot() const { return jobs_->Snapshot(); }

 private:
  AllJobs(EpochCatalog* catalog, MemoryBudget* memory) : loader_(catalog, memory) {}

  Loader loader_;
  std::unique_ptr<Jobs> jobs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DELIVERY_ALL_JOBS_H_
