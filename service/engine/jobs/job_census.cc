#include "service/engine/jobs/job_census.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "service/access/policy.h"
#include "service/base/status_macros.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {
namespace {

constexpr size_t kPage = 1000;
// Uses are said this seldom: each is a write.
constexpr uint64_t kWorthSaying = 60;

ListedJob ListedAs(const Job& job) {
  ListedJob listed;
  listed.name = job.name();
  const std::vector<EpochSummary> epochs = job.Epochs();
  listed.num_epochs = epochs.size();
  for (const EpochSummary& epoch : epochs) {
    if (epoch.used_seconds == 0) continue;
    if (listed.oldest_use == 0) listed.oldest_use = epoch.used_seconds;
    listed.oldest_use = std::min(listed.oldest_use, epoch.used_seconds);
    listed.latest_use = std::max(listed.latest_use, epoch.used_seconds);
  }
  return listed;
}

bool DidNotAnswer(const absl::Status& status) {
  return absl::IsUnavailable(status) || OutcomeIsUnknown(status);
}

}  // namespace

void JobCensus::Know(const ListedJob& job) {
  absl::MutexLock lock(&mutex_);
  const auto known = all_.find(job.name);
  uint64_t& num_there = by_namespace_[std::string(NamespaceOf(job.name))];
  if (known != all_.end()) num_there -= known->second.num_epochs;
  num_there += job.num_epochs;
  if (num_there == 0) by_namespace_.erase(std::string(NamespaceOf(job.name)));
  if (job.num_epochs != 0) {
    all_.insert_or_assign(job.name, job);
  } else if (known != all_.end()) {
    all_.erase(known);
  }
}

absl::Status JobCensus::Say(const Job& job) {
  ListedJob listed = ListedAs(job);
  const auto said = said_.find(listed.name);
  if (said != said_.end() && said->second.num_epochs == listed.num_epochs &&
      listed.latest_use < said->second.latest_use + kWorthSaying) {
    return absl::OkStatus();
  }
  if (listed.num_epochs != 0) {
    PH_RETURN_IF_ERROR(directory_->Put(listed));
  } else {
    // The directory may have it, though this server does not know that.
    emptied_.insert(listed.name);
    said_.erase(listed.name);
    PH_RETURN_IF_ERROR(directory_->Remove(listed.name));
  }
  emptied_.erase(listed.name);
  Know(listed);
  said_[listed.name] = std::move(listed);
  return absl::OkStatus();
}

void JobCensus::AddEmptied(const std::vector<std::string>& jobs) {
  for (const std::string& name : jobs) {
    // If it is opened again meanwhile, it is to be said again.
    said_.erase(name);
    emptied_.insert(name);
    Know({.name = name});
  }
}

absl::Status JobCensus::SayEmptied(const std::string& name, Jobs& jobs) {
  PH_ASSIGN_OR_RETURN(const bool is_removed, directory_->RemoveUnowned(name));
  if (!is_removed) {
    // This server may not have been able to give it back. If it is another's, that one says it.
    PH_ASSIGN_OR_RETURN(const Jobs::Place place, jobs.Open(name));
    if (place.job != nullptr) return Say(*place.job);
    if (place.owner.revision == 0) return absl::OkStatus();  // Nobody's by now: the next turn.
  }
  emptied_.erase(name);
  return absl::OkStatus();
}

absl::Status JobCensus::Read() {
  std::map<std::string, ListedJob, std::less<>> all;
  std::string after;
  do {
    PH_ASSIGN_OR_RETURN(JobPage page, directory_->List(after, kPage));
    after = std::move(page.next);
    for (ListedJob& job : page.jobs) {
      if (!emptied_.contains(job.name)) all.insert_or_assign(job.name, job);
    }
  } while (!after.empty());
  std::map<std::string, uint64_t, std::less<>> by_namespace;
  for (const auto& [name, job] : all) {
    by_namespace[std::string(NamespaceOf(name))] += job.num_epochs;
  }
  absl::MutexLock lock(&mutex_);
  all_ = std::move(all);
  by_namespace_ = std::move(by_namespace);
  return absl::OkStatus();
}

std::vector<std::string> JobCensus::NextUnused(absl::Time now) const {
  std::vector<std::string> unused;
  absl::MutexLock lock(&mutex_);
  const auto add = [&](auto begin, auto end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto it = begin; it != end && unused.size() < kMostOpened; ++it) {
      const auto& [name, job] = *it;
      // Those that are here have a timer.
      if (said_.contains(name)) continue;
      // Where no use is known, the time without any begins as the job is opened.
      const absl::Time used = absl::FromUnixSeconds(static_cast<int64_t>(job.oldest_use));
      if (job.oldest_use == 0 || now - used >= retention_) unused.push_back(name);
    }
  };
  const auto next = all_.upper_bound(last_opened_);
  add(next, all_.end());
  add(all_.begin(), next);
  return unused;
}

absl::Status JobCensus::ForgetUnused(Jobs& jobs, absl::Time now) {
  if (retention_ == absl::InfiniteDuration()) return absl::OkStatus();
  absl::Status first;
  for (const std::string& name : NextUnused(now)) {
    last_opened_ = name;
    // If another server has it, or should, it is that one's.
    const auto place = jobs.Open(name);
    absl::Status done = place.status();
    if (place.ok() && place->job != nullptr) {
      done = place->job->ForgetUnused(now).status();
      if (done.ok()) done = Say(*place->job);
    }
    first.Update(done);
    if (DidNotAnswer(done)) break;
  }
  return first;
}

absl::Status JobCensus::Turn(Jobs& jobs, absl::Time now) {
  const std::vector<std::shared_ptr<Job>> here = jobs.Here();
  std::set<std::string> names;
  for (const std::shared_ptr<Job>& job : here) names.insert(job->name());
  std::erase_if(said_, [&](const auto& said) { return !names.contains(said.first); });
  absl::Status first;
  for (const std::shared_ptr<Job>& job : here) {
    const absl::Status said = Say(*job);
    first.Update(said);
    if (DidNotAnswer(said)) return first;
  }
  for (const std::string& name : std::vector(emptied_.begin(), emptied_.end())) {
    const absl::Status removed = SayEmptied(name, jobs);
    first.Update(removed);
    if (DidNotAnswer(removed)) return first;
  }
  if (num_turns_++ % kReadTurns != 0) return first;
  if (const absl::Status read = Read(); !read.ok()) {
    // The next turn reads.
    num_turns_ = 0;
    first.Update(read);
    return first;
  }
  first.Update(ForgetUnused(jobs, now));
  return first;
}

std::map<std::string, uint64_t> JobCensus::EpochsByNamespace() const {
  absl::MutexLock lock(&mutex_);
  return {by_namespace_.begin(), by_namespace_.end()};
}

uint64_t JobCensus::EpochsElsewhere(absl::string_view where,
                                    const std::vector<std::string>& but_jobs) const {
  absl::MutexLock lock(&mutex_);
  const auto all = by_namespace_.find(where);
  if (all == by_namespace_.end()) return 0;
  uint64_t num_epochs = all->second;
  for (const std::string& job : but_jobs) {
    const auto own = all_.find(job);
    if (own != all_.end()) num_epochs -= own->second.num_epochs;
  }
  return num_epochs;
}

}  // namespace packhouse
