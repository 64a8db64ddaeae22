#include "service/server/services/served_jobs.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/lease_timer.h"
#include "service/engine/jobs/retention_timer.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/services/quota_use.h"
#include "service/server/services/server_bounds.h"

namespace packhouse::rpc {
namespace {

// The timers of a job's own loader.
class JobTimers final : public JobCompany {
 public:
  JobTimers(Clock* clock, JobPool* leases, JobPool* retention, Loader& loader)
      : leases_(std::make_shared<LeaseTimer>(clock, leases, &loader)),
        retention_(
            std::make_shared<RetentionTimer>(clock, retention, &loader, loader.epoch_retention())) {
    retention_->Start();
  }
  ~JobTimers() override {
    leases_->Stop();
    retention_->Stop();
  }
  JobTimers(const JobTimers&) = delete;
  JobTimers& operator=(const JobTimers&) = delete;

  void OnLeased(absl::Time until) override { leases_->Arm(until); }

 private:
  const std::shared_ptr<LeaseTimer> leases_;
  const std::shared_ptr<RetentionTimer> retention_;
};

LoaderOptions LoaderOptionsOf(const ServerOptions& options) {
  LoaderOptions loader = options.loader;
  loader.quotas_of = QuotasOfPolicy(options.authorizer);
  // Most threads are left for acknowledgements and appends.
  loader.gathering =
      std::make_shared<GatheringPlaces>(std::max<size_t>(1, options.append_threads / 4));
  return loader;
}

// Session ids of this run of the server are above those of earlier ones.
SessionId FirstSession(const Clock& clock) {
  return static_cast<SessionId>(absl::ToUnixNanos(clock.Now()));
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
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedJobs>> ServedJobs::Open(const ServerOptions& options,
                                                             Clock* clock, DatasetStore* datasets,
                                                             RecordLog* ledger,
                                                             MemoryBudget* working) {
  auto jobs = std::unique_ptr<ServedJobs>(new ServedJobs(clock, working));
  static NoLog no_log;
  if (options.job_logs != nullptr) ledger = &no_log;
  if (datasets == nullptr || ledger == nullptr) return jobs;
  const StreamBounds streams = StreamBoundsOf(options, nullptr);
  jobs->catalog_ = std::make_unique<EpochCatalog>(
      datasets,
      EpochBounds{.max_graphs_per_batch = streams.max_graphs_per_batch,
                  .max_batch_bytes = streams.max_batch_bytes,
                  .framing = &WireFraming()},
      working);
  jobs->catalog_->SetSamplingObserver(options.sampling_observer);
  PH_ASSIGN_OR_RETURN(jobs->loader_,
                      Loader::Open(jobs->catalog_.get(), ledger, LoaderOptionsOf(options),
                                   FirstSession(*clock), working));
  return jobs;
}

void ServedJobs::StartOn(ServerPools& pools, const ServerOptions& options) {
  if (options.job_logs != nullptr) {
    LoaderOptions loader = LoaderOptionsOf(options);
    if (JobDirectory* const directory = options.job_logs->directory(); directory != nullptr) {
      census_ = std::make_unique<JobCensus>(directory, loader.epoch_retention);
      loader.epochs_here = std::make_shared<EpochsHere>(
          [census = census_.get()](absl::string_view where,
                                   const std::vector<std::string>& but_jobs) {
            return census->EpochsElsewhere(where, but_jobs);
          });
    }
    owned_ = std::make_unique<OwnedJobs>(
        catalog_.get(), options.job_logs, loader, working_,
        [&pools, clock = clock_](Loader& job) -> std::unique_ptr<JobCompany> {
          RunInBackground(job, pools);
          return std::make_unique<JobTimers>(clock, &pools.streams, &pools.appends, job);
        });
  }
  if (loader_ != nullptr) RunInBackground(*loader_, pools);
}

absl::Status ServedJobs::Sweep() {
  if (owned_ == nullptr) return absl::OkStatus();
  // Streams of lost jobs end first: the census waits long for a store that does not answer.
  const std::vector<std::string> empty = owned_->Sweep();
  if (census_ == nullptr) return absl::OkStatus();
  census_->AddEmptied(empty);
  return census_->Turn(*owned_, clock_->Now());
}

std::map<std::string, uint64_t> ServedJobs::EpochsByNamespace() const {
  if (census_ != nullptr) return census_->EpochsByNamespace();
  std::map<std::string, uint64_t> epochs;
  for (const auto& loader : Loaders()) {
    for (const auto& [name, count] : loader->EpochsByNamespace()) epochs[name] += count;
  }
  return epochs;
}

std::vector<std::shared_ptr<const Loader>> ServedJobs::Loaders() const {
  std::vector<std::shared_ptr<const Loader>> loaders;
  if (owned_ != nullptr) {
    for (const auto& job : owned_->Jobs()) loaders.emplace_back(job, &job->loader());
  } else if (loader_ != nullptr) {
    loaders.emplace_back(std::shared_ptr<void>(), loader_.get());
  }
  return loaders;
}

DeliverySnapshot ServedJobs::Snapshot() const {
  DeliverySnapshot sum;
  for (const auto& loader : Loaders()) {
    DeliverySnapshot one = loader->Snapshot();
    sum.totals = sum.totals + one.totals;
    sum.num_generations += one.num_generations;
    sum.num_epochs += one.num_epochs;
    for (const auto& [job, counts] : one.jobs) sum.jobs[job] += counts;
    std::move(one.progress.begin(), one.progress.end(), std::back_inserter(sum.progress));
  }
  return sum;
}

std::vector<SessionSummary> ServedJobs::Sessions() const {
  std::vector<SessionSummary> all;
  for (const auto& loader : Loaders()) {
    std::vector<SessionSummary> some = loader->Sessions();
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<EpochWatch> ServedJobs::Watch(const std::string& job) const {
  for (const auto& loader : Loaders()) {
    std::vector<EpochWatch> watched = loader->WatchJob(job);
    if (!watched.empty()) return watched;
  }
  return {};
}

}  // namespace packhouse::rpc
