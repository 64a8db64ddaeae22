#include "service/engine/jobs/jobs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/held_plan.h"
#include "service/engine/jobs/joining.h"

namespace packhouse {
namespace {

// Jobs of a page of the directory.
constexpr size_t kListed = 1000;

// No worker goes on in a generation that was dealt before a restore: batches that it has are dealt
// again. Returns how many records were appended.
absl::StatusOr<size_t> LeaveFormerGenerations(uint64_t former, JobLedger& ledger, RecordLog& log) {
  PH_RETURN_IF_ERROR(ledger.Apply(GenerationsUsed{former}));
  std::vector<std::string> records;
  for (const EpochKey& key : ledger.Epochs()) {
    const EpochState& state = *ledger.Find(key);
    if (state.generation == 0 || state.generation > former) continue;
    const LedgerEvent event = GenerationStarted{key, ledger.last_generation() + 1, state.attempt,
                                                state.sharing, state.DoneWithoutPadding()};
    PH_RETURN_IF_ERROR(ledger.Apply(event));
    records.push_back(EncodeEvent(event));
  }
  if (!records.empty()) PH_RETURN_IF_ERROR(log.Append(records));
  return records.size();
}

bool HasOnlyOneUser(const std::shared_ptr<Job>& job) { return job.use_count() == 1; }

}  // namespace

Jobs::Jobs(Loader* loader, JobLogs* logs, const JobsOptions& options, MemoryBudget* memory)
    : loader_(loader),
      logs_(logs),
      options_(options),
      memory_(memory),
      quota_(options.max_epochs, options.max_epochs_per_client, options.quotas_of,
             options.epochs_elsewhere),
      gathering_(options.gathering_places),
      environment_(
          {.quota = &quota_,
           .memory = memory,
           .executor =
               [loader](std::function<void()> work) { loader->InBackground(std::move(work)); },
           .lease_duration = options.lease_duration,
           .kept_finished_epochs = options.kept_finished_epochs,
           .gather_joins = options.gather_joins,
           .gathering = &gathering_,
           .max_log_records = options.max_log_records,
           .epoch_retention = options.epoch_retention}) {}

absl::StatusOr<std::unique_ptr<Jobs>> Jobs::Create(Loader* loader, JobLogs* logs,
                                                   const JobsOptions& options,
                                                   MemoryBudget* memory) {
  auto jobs = std::unique_ptr<Jobs>(new Jobs(loader, logs, options, memory));
  if (!logs->is_alone()) return jobs;
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> names, logs->Names());
  for (const std::string& name : names) PH_RETURN_IF_ERROR(jobs->Open(name).status());
  return jobs;
}

Jobs::~Jobs() { loader_->AwaitBackground(); }

std::shared_ptr<Job> Jobs::Here(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second.job == nullptr) return nullptr;
  if (!found->second.job->log().is_lost()) return found->second.job;
  retired_.push_back(std::exchange(found->second.job, nullptr));
  return nullptr;
}

absl::Status Jobs::AwaitTurn(const std::string& name) {
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

absl::Status Jobs::Move(const std::string& name, const std::string& address) {
  std::shared_ptr<Job> job;
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
  const absl::Status moved = job->log().MoveTo(address);
  const bool is_lost = job->log().is_lost();
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = jobs_.find(name);
    entry->second.is_opening = false;
    if (is_lost && entry->second.job != nullptr) {
      retired_.push_back(std::exchange(entry->second.job, nullptr));
    }
    if (entry->second.job == nullptr) jobs_.erase(entry);
  }
  if (is_lost && job->early_end().status().ok()) {
    job->early_end().Begin(absl::UnavailableError(
        absl::StrCat("job ", Quoted(name), " moves to the server at ", address,
                     ": load again; what was not acknowledged comes again")));
  }
  return moved;
}

absl::StatusOr<Jobs::Place> Jobs::Open(const std::string& name) {
  Retired unknown;
  {
    absl::MutexLock lock(&mutex_);
    // What is here can be used to the end.
    const auto known = jobs_.find(name);
    if (known == jobs_.end() || known->second.is_opening) PH_RETURN_IF_ERROR(AwaitTurn(name));
    if (auto job = Here(name)) {
      // A job that is here is not lost, but this server may not be sure of it now.
      PH_RETURN_IF_ERROR(job->log().ownership());
      return Place{std::move(job), {}};
    }
    PH_RETURN_IF_ERROR(ended_);
    unknown = DropUnknown();
    jobs_[name].is_opening = true;
  }
  unknown.clear();
  std::shared_ptr<Job> opened;
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
    counts_.num_taken_over += !opened->IsForgotten();
    // It came too late to be ended with the others.
    if (!ended_.ok()) opened->early_end().Begin(ended_);
  };
  PH_ASSIGN_OR_RETURN(Place place, OpenLog(name));
  opened = place.job;
  return place;
}

absl::StatusOr<Jobs::Place> Jobs::OpenLog(const std::string& name) {
  PH_ASSIGN_OR_RETURN(JobPlace found, logs_->Open(name));
  if (found.log == nullptr) return Place{nullptr, std::move(found.owner)};
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> records, found.log->ReadAll());
  PH_ASSIGN_OR_RETURN(JobLedger ledger, JobLedger::Replay(records));
  PH_ASSIGN_OR_RETURN(
      const size_t num_appended,
      LeaveFormerGenerations(FormerGenerations(logs_->restored_seconds()), ledger, *found.log));
  // Of a job of this name that was forgotten, workers may still come.
  PH_ASSIGN_OR_RETURN(const uint64_t mark, found.log->mark());
  PH_RETURN_IF_ERROR(ledger.Apply(GenerationsUsed{mark}));
  return Place{std::make_shared<Job>(name, std::move(ledger), std::move(found.log),
                                     records.size() + num_appended, &environment_),
               {}};
}

void Jobs::KeepTotals(const Job& job) {
  job.AddTo(gone_);
  gone_.jobs.clear();
  gone_.progress.clear();
}

Jobs::Retired Jobs::DropUnknown() {
  Retired unknown;
  if (!is_alone() || jobs_.size() < next_drop_) return unknown;
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const std::shared_ptr<Job>& job = it->second.job;
    if (job != nullptr && HasOnlyOneUser(job) && job->IsForgotten() && !job->HasRecords()) {
      KeepTotals(*job);
      unknown.push_back(job);
      it = jobs_.erase(it);
    } else {
      ++it;
    }
  }
  next_drop_ = 2 * jobs_.size() + 64;
  return unknown;
}

bool Jobs::IsIdle(Entry& entry) const {
  // Whoever takes it from here needs the mutex.
  if (!HasOnlyOneUser(entry.job)) {
    entry.num_idle_turns = 0;
    return false;
  }
  ++entry.num_idle_turns;
  if (entry.job->IsForgotten()) return true;
  return !is_alone() && entry.num_idle_turns >= kIdleTurns;
}

std::vector<std::string> Jobs::Sweep() {
  std::vector<std::string> empty;
  Retired lost;
  Retired idle;
  Retired gone;  // Destroyed without the mutex, by this thread.
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      std::shared_ptr<Job>& job = it->second.job;
      if (job != nullptr && !it->second.is_opening) {
        if (job->log().is_lost() || !job->log().ownership().ok()) {
          if (job->IsForgotten()) empty.push_back(it->first);
          retired_.push_back(std::exchange(job, nullptr));
        } else if (IsIdle(it->second)) {
          if (job->IsForgotten()) empty.push_back(it->first);
          idle.push_back(std::exchange(job, nullptr));
          it->second.is_opening = true;
        }
      }
      if (job == nullptr && !it->second.is_opening) {
        it = jobs_.erase(it);
      } else {
        ++it;
      }
    }
    lost = retired_;
  }
  for (const auto& job : lost) {
    if (job->early_end().status().ok()) {
      absl::Status why = job->log().ownership();
      if (why.ok()) why = absl::UnavailableError("this server no longer owns the job: load again");
      job->early_end().Begin(std::move(why));
    }
  }
  lost.clear();
  for (const auto& job : idle) {
    // If it fails, its log says when it is opened again that nothing is left.
    if (job->IsForgotten() && job->HasRecords() && job->log().Erase(job->last_generation()).ok()) {
      continue;
    }
    // The lease's end does it too.
    job->log().Release().IgnoreError();
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& job : idle) {
    KeepTotals(*job);
    jobs_.erase(job->name());
  }
  const auto is_used = [](const std::shared_ptr<Job>& job) { return !HasOnlyOneUser(job); };
  const auto unused = std::stable_partition(retired_.begin(), retired_.end(), is_used);
  gone.assign(std::make_move_iterator(unused), std::make_move_iterator(retired_.end()));
  retired_.erase(unused, retired_.end());
  for (const auto& job : gone) KeepTotals(*job);
  return empty;
}

void Jobs::EndAll(const absl::Status& status) {
  for (const auto& job : [&] {
         absl::MutexLock lock(&mutex_);
         if (ended_.ok()) ended_ = status;
         Retired jobs = retired_;
         for (const auto& [name, entry] : jobs_) {
           if (entry.job != nullptr) jobs.push_back(entry.job);
         }
         return jobs;
       }()) {
    if (job->early_end().status().ok()) job->early_end().Begin(status);
  }
}

absl::StatusOr<JobList> Jobs::List(size_t page_size, const std::string& after,
                                   absl::FunctionRef<bool(const std::string&)> may_see) const {
  page_size = std::min(page_size == 0 ? size_t{100} : page_size, kMaxPageSize);
  return is_alone() ? ListHere(page_size, after, may_see)
                    : ListDirectory(page_size, after, may_see);
}

JobList Jobs::ListHere(size_t page_size, const std::string& after,
                       absl::FunctionRef<bool(const std::string&)> may_see) const {
  std::vector<std::shared_ptr<Job>> jobs;
  JobList list;
  {
    absl::MutexLock lock(&mutex_);
    size_t num_passed = 0;
    auto entry = jobs_.upper_bound(after);
    for (; entry != jobs_.end() && num_passed < page_size; ++entry, ++num_passed) {
      list.next_page_token = entry->first;
      if (entry->second.job != nullptr) jobs.push_back(entry->second.job);
    }
    if (entry == jobs_.end()) list.next_page_token.clear();
  }
  for (const std::shared_ptr<Job>& job : jobs) {
    if (!may_see(job->name())) continue;
    auto summary = job->Summary(kMaxListedEpochs);
    if (summary.ok()) list.jobs.push_back(*std::move(summary));
  }
  return list;
}

absl::StatusOr<JobList> Jobs::ListDirectory(
    size_t page_size, const std::string& after,
    absl::FunctionRef<bool(const std::string&)> may_see) const {
  if (directory() == nullptr) {
    return absl::UnimplementedError("there is no list of all jobs: ask for one by its name");
  }
  PH_ASSIGN_OR_RETURN(JobPage page, directory()->List(after, page_size));
  JobList list;
  list.next_page_token = std::move(page.next);
  std::vector<std::string> names;
  for (const ListedJob& job : page.jobs) {
    if (!may_see(job.name)) continue;
    JobSummary& summary = list.jobs.emplace_back();
    summary.name = job.name;
    summary.num_epochs = job.num_epochs;
    summary.used_seconds = job.latest_use;
    names.push_back(job.name);
  }
  PH_ASSIGN_OR_RETURN(std::vector<std::string> owners, directory()->Owners(names));
  for (size_t i = 0; i < owners.size(); ++i) list.jobs[i].owner = std::move(owners[i]);
  return list;
}

absl::StatusOr<Jobs::Planned> Jobs::FindPlan(
    absl::string_view receipt, absl::FunctionRef<bool(const std::string& job)> may_see,
    absl::FunctionRef<bool(const EpochIdentity&)> may_show,
    absl::FunctionRef<bool()> is_cancelled) const {
  const auto read = [this](std::optional<Job::Opened> opened) -> absl::StatusOr<Planned> {
    PH_ASSIGN_OR_RETURN(auto plan, ReadHeldPlan(*opened->plan, memory_));
    return Planned{*std::move(opened), std::move(plan)};
  };
  const absl::Status not_found = absl::NotFoundError(
      absl::StrCat("receipt ", Quoted(receipt),
                   ": no epoch that is remembered has it; name the histogram or the data set that "
                   "it is for"));
  std::set<std::string> here;
  for (const std::shared_ptr<Job>& job : Here()) {
    here.insert(job->name());
    if (auto opened = job->OpenedWithPlan(receipt, may_show)) return read(std::move(opened));
  }
  if (directory() == nullptr) return not_found;
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
    PH_ASSIGN_OR_RETURN(JobPage page, directory()->List(after, kListed));
    after = std::move(page.next);
    for (const ListedJob& job : page.jobs) {
      if (job.num_epochs == 0 || here.contains(job.name) || !may_see(job.name)) continue;
      if (is_cancelled()) return absl::CancelledError("the caller has left");
      PH_RETURN_IF_ERROR(BeginWait());
      const auto records = logs_->Read(job.name);
      if (absl::IsUnavailable(records.status()) || absl::IsCancelled(records.status())) {
        return records.status();
      }
      // Of another release, or damaged: others may have the receipt.
      if (!records.ok()) continue;
      MemoryHold of_log;
      if (memory_ != nullptr) {
        uint64_t num_bytes = 0;
        for (const std::string& record : *records) num_bytes += sizeof(record) + record.size();
        // As it is read, and as a ledger.
        PH_ASSIGN_OR_RETURN(of_log,
                            memory_->Hold("the ledger of another server's job", 2 * num_bytes));
      }
      const auto ledger = JobLedger::Replay(*records);
      if (absl::IsResourceExhausted(ledger.status())) return ledger.status();
      if (!ledger.ok()) continue;
      auto opened = OpenedWithPlanIn(*ledger, receipt, may_show);
      if (!opened) continue;
      auto planned = read(std::move(opened));
      if (!absl::IsDataLoss(planned.status())) return planned;
    }
  } while (!after.empty());
  return not_found;
}

absl::StatusOr<size_t> Jobs::ForgetUnused(absl::Time now) {
  size_t forgotten = 0;
  absl::Status first;
  for (const std::shared_ptr<Job>& job : Here()) {
    job->Rest();
    const auto of_job = job->ForgetUnused(now);
    first.Update(of_job.status());
    forgotten += of_job.value_or(0);
  }
  if (is_alone()) Sweep();
  PH_RETURN_IF_ERROR(first);
  return forgotten;
}

void Jobs::Expire(absl::Time now) {
  for (const std::shared_ptr<Job>& job : Here()) job->Expire(now);
}

absl::Time Jobs::NextExpiry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const std::shared_ptr<Job>& job : Here()) next = std::min(next, job->NextExpiry());
  return next;
}

std::vector<std::shared_ptr<Job>> Jobs::Here() const {
  std::vector<std::shared_ptr<Job>> jobs;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : jobs_) {
    if (entry.job != nullptr) jobs.push_back(entry.job);
  }
  return jobs;
}

size_t Jobs::num_here() const {
  absl::MutexLock lock(&mutex_);
  return jobs_.size();
}

std::shared_ptr<Job> Jobs::Find(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : found->second.job;
}

Jobs::Counts Jobs::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

std::vector<SessionSummary> Jobs::Sessions() const {
  std::vector<SessionSummary> sessions;
  for (const std::shared_ptr<Job>& job : Here()) {
    std::vector<SessionSummary> of_job = job->Sessions();
    sessions.insert(sessions.end(), std::make_move_iterator(of_job.begin()),
                    std::make_move_iterator(of_job.end()));
  }
  return sessions;
}

DeliverySnapshot Jobs::Snapshot() const {
  DeliverySnapshot snapshot;
  Retired jobs;
  {
    absl::MutexLock lock(&mutex_);
    snapshot = gone_;
    jobs = retired_;
    for (const auto& [name, entry] : jobs_) {
      if (entry.job != nullptr) jobs.push_back(entry.job);
    }
  }
  snapshot.num_epochs = quota_.num_epochs();
  for (const std::shared_ptr<Job>& job : jobs) job->AddTo(snapshot);
  return snapshot;
}

}  // namespace packhouse
