#include "service/server/services/served_jobs.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "service/access/planning_pool.h"
#include "service/access/policy.h"
#include "service/base/status_macros.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/services/quota_use.h"
#include "service/server/services/server_bounds.h"

namespace packhouse::rpc {
namespace {

JobsOptions JobsOptionsOf(const ServerOptions& options) {
  JobsOptions jobs = options.jobs;
  jobs.quotas_of = QuotasOfPolicy(options.authorizer);
  // Most threads are left for acknowledgements and appends.
  jobs.gathering_places = std::max<size_t>(1, options.append_threads / 4);
  return jobs;
}

void RunInBackground(Loader& loader, ServerPools& pools) {
  loader.RunInBackground(
      [&pools](std::function<void()> work) { pools.RunOnAppends(std::move(work)); });
  // A window that has begun is planned to its end, which takes a second or so.
  loader.PlanInBackground(
      [&pools](const ClientId& client, Loader::WindowOrder order, Loader::Planning work) {
        auto job = [work = std::move(work)] { work([] { return false; }); };
        if (order == Loader::WindowOrder::kFirst) {
          pools.windows.SubmitFirst(client, std::move(job));
        } else {
          pools.windows.Submit(client, std::move(job));
        }
      });
  loader.PrepareAheadBy([&pools](const ClientId& client, const std::string& job,
                                 Loader::AheadWork work) {
    const auto turn =
        std::make_shared<PlanningTurn>(&pools.planning, client, PlanningTurn::Urgency::kBackground);
    pools.planning.Submit(turn,
                          [turn, where = std::string(NamespaceOf(job)), work = std::move(work)] {
                            turn->YieldTurnIn(where);
                            work(Cancellation([turn] { return turn->YieldTurn(); },
                                              [turn] { return turn->LeaveTurn(); }));
                          });
    return [turn] { turn->Hurry(); };
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedJobs>> ServedJobs::Open(const ServerOptions& options,
                                                             Clock* clock, DatasetStore* datasets,
                                                             MemoryBudget* working) {
  JobLogs* const logs = options.job_logs;
  auto served = std::unique_ptr<ServedJobs>(new ServedJobs(clock));
  if (datasets == nullptr || logs == nullptr) return served;
  const StreamBounds streams = StreamBoundsOf(options, nullptr);
  served->catalog_ = std::make_unique<EpochCatalog>(
      datasets,
      EpochBounds{.max_graphs_per_batch = streams.max_graphs_per_batch,
                  .max_batch_bytes = streams.max_batch_bytes,
                  .framing = &WireFraming()},
      working);
  served->catalog_->SetSamplingObserver(options.sampling_observer);
  served->loader_ = std::make_unique<Loader>(served->catalog_.get(), working, options.log.failures);
  JobsOptions jobs = JobsOptionsOf(options);
  if (JobDirectory* const directory = logs->directory(); directory != nullptr) {
    served->census_ = std::make_unique<JobCensus>(directory, jobs.epoch_retention);
    jobs.epochs_elsewhere = [census = served->census_.get()](
                                absl::string_view where, const std::vector<std::string>& but_jobs) {
      return census->EpochsElsewhere(where, but_jobs);
    };
  }
  PH_ASSIGN_OR_RETURN(served->jobs_, Jobs::Create(served->loader_.get(), logs, jobs, working));
  return served;
}

void ServedJobs::StartOn(ServerPools& pools) {
  if (loader_ != nullptr) RunInBackground(*loader_, pools);
}

absl::Status ServedJobs::Sweep() {
  if (jobs_ == nullptr || jobs_->is_alone()) return absl::OkStatus();
  // Streams of lost jobs end first: the census waits long for a store that does not answer.
  const std::vector<std::string> empty = jobs_->Sweep();
  if (census_ == nullptr) return absl::OkStatus();
  census_->AddEmptied(empty);
  return census_->Turn(*jobs_, clock_->Now());
}

std::map<std::string, uint64_t> ServedJobs::EpochsByNamespace() const {
  if (census_ != nullptr) return census_->EpochsByNamespace();
  return jobs_ == nullptr ? std::map<std::string, uint64_t>() : jobs_->EpochsByNamespace();
}

}  // namespace packhouse::rpc
