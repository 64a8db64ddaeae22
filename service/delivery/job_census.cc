#include "service/delivery/job_census.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "service/admission/policy.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kPage = 1000;
// Uses are said this seldom: each is a write.
constexpr uint64_t kWorthSaying = 60;

ListedJob ListedAs(const std::string& name, const Loader& loader) {
  ListedJob listed;
  listed.name = name;
  const auto job = loader.GetJob(name);
  if (!job.ok()) return listed;
  listed.num_epochs = job->num_epochs;
  for (const EpochSummary& epoch : job->epochs) {
    if (epoch.used_seconds == 0) continue;
    if (listed.oldest_use == 0) listed.oldest_use = epoch.used_seconds;
    listed.oldest_use = std::min(listed.oldest_use, epoch.used_seconds);
    listed.latest_use = std::max(listed.latest_use, epoch.used_seconds);
  }
  return listed;
}

}  // namespace

absl::Status JobCensus::Say(const OwnedJob& job) {
  ListedJob listed = ListedAs(job.name(), job.loader());
  const auto said = said_.find(listed.name);
  if (said != said_.end() && said->second.num_epochs == listed.num_epochs &&
      listed.latest_use < said->second.latest_use + kWorthSaying) {
    return absl::OkStatus();
  }
  // A job that somebody asked for in vain is not known, and need not be removed.
  if (listed.num_epochs != 0) {
    PH_RETURN_IF_ERROR(directory_->Put(listed));
  } else {
    bool is_listed = said != said_.end() && said->second.num_epochs != 0;
    {
      absl::MutexLock lock(&mutex_);
      is_listed |= all_.contains(listed.name);
    }
    if (is_listed) PH_RETURN_IF_ERROR(directory_->Remove(listed.name));
  }
  said_[listed.name] = std::move(listed);
  return absl::OkStatus();
}

absl::Status JobCensus::Read() {
  std::map<std::string, ListedJob, std::less<>> all;
  std::string after;
  for (;;) {
    PH_ASSIGN_OR_RETURN(std::vector<ListedJob> page, directory_->List(after, kPage));
    if (page.empty()) break;
    after = page.back().name;
    for (ListedJob& job : page) all.insert_or_assign(job.name, job);
  }
  std::map<std::string, uint64_t, std::less<>> by_namespace;
  for (const auto& [name, job] : all) {
    by_namespace[std::string(NamespaceOf(name))] += job.num_epochs;
  }
  absl::MutexLock lock(&mutex_);
  all_ = std::move(all);
  by_namespace_ = std::move(by_namespace);
  return absl::OkStatus();
}

absl::Status JobCensus::ForgetUnused(OwnedJobs& jobs, absl::Time now) {
  if (retention_ == absl::InfiniteDuration()) return absl::OkStatus();
  std::vector<std::string> unused;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, job] : all_) {
      if (unused.size() == kMostOpened) break;
      // Those that are here have a timer.
      if (said_.contains(name) || job.oldest_use == 0) continue;
      if (now - absl::FromUnixSeconds(static_cast<int64_t>(job.oldest_use)) >= retention_) {
        unused.push_back(name);
      }
    }
  }
  absl::Status first;
  for (const std::string& name : unused) {
    // If another server has it, or should, it is that one's.
    const auto place = jobs.Open(name);
    first.Update(place.status());
    if (!place.ok() || place->job == nullptr) continue;
    first.Update(place->job->loader().ForgetUnused(now).status());
    first.Update(Say(*place->job));
  }
  return first;
}

absl::Status JobCensus::Turn(OwnedJobs& jobs, absl::Time now) {
  absl::Status first;
  std::set<std::string> here;
  for (const std::shared_ptr<OwnedJob>& job : jobs.Jobs()) {
    here.insert(job->name());
    first.Update(Say(*job));
  }
  std::erase_if(said_, [&](const auto& said) { return !here.contains(said.first); });
  if (num_turns_++ % kReadTurns != 0) return first;
  if (absl::Status read = Read(); !read.ok()) {
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

uint64_t JobCensus::EpochsElsewhere(absl::string_view where, absl::string_view job) const {
  absl::MutexLock lock(&mutex_);
  const auto all = by_namespace_.find(where);
  if (all == by_namespace_.end()) return 0;
  const auto own = all_.find(job);
  return all->second - (own == all_.end() ? 0 : own->second.num_epochs);
}

}  // namespace packhouse
