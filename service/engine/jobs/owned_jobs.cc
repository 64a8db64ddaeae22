#include "service/engine/jobs/owned_jobs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/joining.h"

namespace packhouse {

absl::Status NoLog::Append(absl::Span<const std::string> /*records*/) {
  return absl::UnavailableError("no server owns this job here");
}

namespace {

// Jobs of a page of the directory.
constexpr size_t kListed = 1000;

// What was read of a log that another server may own.
class ReadLog final : public RecordLog {
 public:
  explicit ReadLog(std::vector<std::string> records) : records_(std::move(records)) {}

  absl::Status Append(absl::Span<const std::string> /*records*/) override {
    return absl::UnavailableError("this is another server's job");
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return std::move(records_); }
  absl::Status Replace(absl::Span<const std::string> records) override { return Append(records); }

 private:
  std::vector<std::string> records_;
};

LoaderOptions WithSharedPlaces(LoaderOptions options) {
  if (options.gathering == nullptr) {
    options.gathering = std::make_shared<GatheringPlaces>(LedgerWriter::kOwnPlaces);
  }
  return options;
}

}  // namespace

OwnedJobs::OwnedJobs(EpochCatalog* catalog, JobLogs* logs, const LoaderOptions& options,
                     MemoryBudget* memory, Accompany accompany)
    : catalog_(catalog),
      logs_(logs),
      options_(WithSharedPlaces(options)),
      memory_(memory),
      accompany_(std::move(accompany)) {}

OwnedJobs::~OwnedJobs() = default;

std::shared_ptr<OwnedJob> OwnedJobs::Here(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second.job == nullptr) return nullptr;
  if (!found->second.job->log_->is_lost()) return found->second.job;
  Retire(std::exchange(found->second.job, nullptr));
  return nullptr;
}

void OwnedJobs::Retire(std::shared_ptr<OwnedJob> job) { retired_.push_back(std::move(job)); }

absl::Status OwnedJobs::AwaitTurn(const std::string& name) {
  const auto is_free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = jobs_.find(name);
    return !ended_.ok() || found == jobs_.end() || !found->second.is_opening;
  };
  const bool is_mine = mutex_.AwaitWithTimeout(absl::Condition(&is_free), kLongestWait);
  PH_RETURN_IF_ERROR(ended_);
  if (is_mine) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("job ", Quoted(name), " is being opened or moved: ask again in a moment"));
}

absl::Status OwnedJobs::Move(const std::string& name, const std::string& address) {
  std::shared_ptr<OwnedJob> job;
  {
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(AwaitTurn(name));
    job = Here(name);
    if (job == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("job ", Quoted(name), " has just left this server: ask again"));
    }
    // Nobody opens it here again meanwhile.
    jobs_[name].is_opening = true;
  }
  const absl::Status moved = job->log_->MoveTo(address);
  const bool is_lost = job->log_->is_lost();
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = jobs_.find(name);
    entry->second.is_opening = false;
    if (is_lost && entry->second.job != nullptr) {
      Retire(std::exchange(entry->second.job, nullptr));
    }
    if (entry->second.job == nullptr) jobs_.erase(entry);
  }
  if (is_lost && job->early_end_.status().ok()) {
    job->early_end_.Begin(absl::UnavailableError(
        absl::StrCat("job ", Quoted(name), " moves to the server at ", address,
                     ": load again; what was not acknowledged comes again")));
  }
  return moved;
}

absl::StatusOr<OwnedJobs::Place> OwnedJobs::Open(const std::string& name) {
  {
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(AwaitTurn(name));
    if (auto job = Here(name)) {
      // A job that is here is not lost, but this server may not be sure of it now.
      PH_RETURN_IF_ERROR(job->ownership());
      return Place{std::move(job), {}};
    }
    jobs_[name].is_opening = true;
  }
  std::shared_ptr<OwnedJob> opened;
  const absl::Cleanup is_open = [&] {
    absl::MutexLock lock(&mutex_);
    const auto entry = jobs_.find(name);
    entry->second.is_opening = false;
    entry->second.job = opened;
    if (opened == nullptr) {
      jobs_.erase(entry);
      return;
    }
    ++counts_.num_opened;
    counts_.num_taken_over += opened->loader().num_jobs() != 0;
    // It came too late to be ended with the others.
    if (!ended_.ok()) opened->early_end_.Begin(ended_);
  };
  PH_ASSIGN_OR_RETURN(Place place, OpenLog(name));
  opened = place.job;
  return place;
}

absl::StatusOr<OwnedJobs::Place> OwnedJobs::OpenLog(const std::string& name) {
  PH_ASSIGN_OR_RETURN(JobPlace found, logs_->Open(name));
  if (found.log == nullptr) return Place{nullptr, std::move(found.owner)};
  auto job = std::make_shared<OwnedJob>();
  job->name_ = name;
  job->log_ = std::move(found.log);
  PH_ASSIGN_OR_RETURN(
      job->loader_,
      Loader::Open(catalog_, job->log_.get(), options_, job->log_->owner_revision() << kSessionBits,
                   memory_, FormerGenerations(logs_->restored_seconds())));
  job->company_ = accompany_(*job->loader_);
  return Place{std::move(job), {}};
}

bool OwnedJobs::IsIdle(Entry& entry) {
  // Whoever takes it from here needs the mutex.
  if (entry.job.use_count() != 1) {
    entry.num_idle_turns = 0;
    return false;
  }
  ++entry.num_idle_turns;
  return entry.num_idle_turns >= (entry.job->loader().num_jobs() == 0 ? 1 : kIdleTurns);
}

std::vector<std::string> OwnedJobs::Sweep() {
  std::vector<std::string> empty;
  std::vector<std::shared_ptr<OwnedJob>> lost;
  std::vector<std::shared_ptr<OwnedJob>> idle;
  std::vector<std::shared_ptr<OwnedJob>> gone;  // Destroyed without the mutex, by this thread.
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      std::shared_ptr<OwnedJob>& job = it->second.job;
      if (job != nullptr && (job->log_->is_lost() || !job->ownership().ok())) {
        if (job->loader().num_jobs() == 0) empty.push_back(it->first);
        Retire(std::exchange(job, nullptr));
      } else if (job != nullptr && IsIdle(it->second)) {
        if (job->loader().num_jobs() == 0) empty.push_back(it->first);
        idle.push_back(std::exchange(job, nullptr));
      }
      if (it->second.job == nullptr && !it->second.is_opening) {
        it = jobs_.erase(it);
      } else {
        ++it;
      }
    }
    lost = retired_;
  }
  for (const auto& job : lost) {
    if (job->early_end_.status().ok()) {
      absl::Status why = job->ownership();
      if (why.ok()) why = absl::UnavailableError("this server no longer owns the job: load again");
      job->early_end_.Begin(std::move(why));
    }
  }
  lost.clear();
  // The lease's end does it too.
  for (const auto& job : idle) job->log_->Release().IgnoreError();
  {
    absl::MutexLock lock(&mutex_);
    const auto is_used = [](const std::shared_ptr<OwnedJob>& job) { return job.use_count() != 1; };
    const auto unused = std::stable_partition(retired_.begin(), retired_.end(), is_used);
    gone.assign(std::make_move_iterator(unused), std::make_move_iterator(retired_.end()));
    retired_.erase(unused, retired_.end());
  }
  return empty;
}

void OwnedJobs::EndAll(const absl::Status& status) {
  for (const auto& job : [&] {
         absl::MutexLock lock(&mutex_);
         if (ended_.ok()) ended_ = status;
         std::vector<std::shared_ptr<OwnedJob>> jobs = retired_;
         for (const auto& [name, entry] : jobs_) {
           if (entry.job != nullptr) jobs.push_back(entry.job);
         }
         return jobs;
       }()) {
    if (job->early_end_.status().ok()) job->early_end_.Begin(status);
  }
}

absl::StatusOr<Loader::Planned> OwnedJobs::FindPlan(
    absl::string_view receipt, absl::FunctionRef<bool(const std::string& job)> may_see,
    absl::FunctionRef<bool(const EpochIdentity&)> may_show,
    absl::FunctionRef<bool()> given_up) const {
  absl::StatusOr<Loader::Planned> found = absl::NotFoundError(
      absl::StrCat("receipt ", Quoted(receipt),
                   ": no epoch that is remembered has it; name the histogram or the data set that "
                   "it is for"));
  std::set<std::string> here;
  for (const std::shared_ptr<OwnedJob>& job : Jobs()) {
    here.insert(job->name());
    auto planned = job->loader().FindPlan(receipt, may_show);
    if (!absl::IsNotFound(planned.status())) return planned;
  }
  JobDirectory* const directory = logs_->directory();
  if (directory == nullptr) return found;
  if (is_searching_.exchange(true)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("receipt ", Quoted(receipt),
                     ": this server looks for another one in the ledgers of the other servers' "
                     "jobs, and does so for one call at a time: ask again in a moment"));
  }
  const absl::Cleanup is_done = [this] { is_searching_ = false; };
  std::string after;
  do {
    PH_RETURN_IF_ERROR(BeginWait());
    PH_ASSIGN_OR_RETURN(JobPage page, directory->List(after, kListed));
    after = std::move(page.next);
    for (const ListedJob& job : page.jobs) {
      if (job.num_epochs == 0 || here.contains(job.name) || !may_see(job.name)) continue;
      if (given_up()) return absl::CancelledError("the caller has left");
      PH_RETURN_IF_ERROR(BeginWait());
      auto records = logs_->Read(job.name);
      if (absl::IsUnavailable(records.status()) || absl::IsCancelled(records.status())) {
        return records.status();
      }
      // Of another release, or damaged: others may have the receipt.
      if (!records.ok()) continue;
      MemoryHold of_log;
      if (memory_ != nullptr) {
        uint64_t num_bytes = 0;
        for (const std::string& record : *records) num_bytes += sizeof(record) + record.size();
        PH_ASSIGN_OR_RETURN(of_log, memory_->Hold("the ledger of another server's job", num_bytes));
      }
      ReadLog log(*std::move(records));
      LoaderOptions options = options_;
      options.quotas_of = nullptr;
      options.epochs_here = nullptr;
      auto loader = Loader::Open(catalog_, &log, options, /*first_session=*/0, memory_);
      if (absl::IsResourceExhausted(loader.status())) return loader.status();
      if (!loader.ok()) continue;
      auto planned = (*loader)->FindPlan(receipt, may_show);
      if (!absl::IsNotFound(planned.status()) && !absl::IsDataLoss(planned.status())) {
        return planned;
      }
    }
  } while (!after.empty());
  return found;
}

std::vector<std::shared_ptr<OwnedJob>> OwnedJobs::Jobs() const {
  std::vector<std::shared_ptr<OwnedJob>> jobs;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : jobs_) {
    if (entry.job != nullptr) jobs.push_back(entry.job);
  }
  return jobs;
}

OwnedJobs::Counts OwnedJobs::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace packhouse
