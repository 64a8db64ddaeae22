#include "service/wings/page/page_jobs.h"

#include <algorithm>

#include "service/base/out_of_memory.h"

namespace packhouse::page {
namespace {

PageAnswer Busy(const char* why) {
  return {503, std::string(R"({"code":"RESOURCE_EXHAUSTED","error":")") + why + R"("})"};
}

}  // namespace

struct PageJobs::Alive {
  absl::Mutex mutex;                                // Taken before that of the jobs.
  PageJobs* jobs ABSL_GUARDED_BY(mutex) = nullptr;  // Null: they are gone.
};

PageJobs::PageJobs(const Bounds& bounds, Clock* clock, MemoryBudget* memory)
    : bounds_(bounds), clock_(clock), memory_(memory), alive_(std::make_shared<Alive>()) {
  threads_ = BeginThreads(bounds.num_threads, [this] { Run(); });
  {
    absl::MutexLock lock(&alive_->mutex);
    alive_->jobs = this;
  }
  LookLater(clock_, bounds_.patience / 5, alive_);
}

void PageJobs::LookLater(Clock* clock, absl::Duration period, const std::shared_ptr<Alive>& alive) {
  clock->CallAt(clock->Now() + period, [clock, period, alive] {
    absl::MutexLock lock(&alive->mutex);
    PageJobs* const jobs = alive->jobs;
    if (jobs == nullptr) return;
    LookLater(clock, period, alive);
    absl::MutexLock of_jobs(&jobs->mutex_);
    jobs->Abandon(clock->Now());
  });
}

PageJobs::~PageJobs() {
  {
    absl::MutexLock lock(&alive_->mutex);
    alive_->jobs = nullptr;
  }
  absl::MutexLock lock(&mutex_);
  is_stopped_ = true;
  waiting_.clear();
  for (const auto& job : running_) job->stop.Stop();
}

std::optional<PageAnswer> PageJobs::Ask(const Asker& asker, const std::string& question,
                                        Work work) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mutex_);
  Abandon(now);
  if (const auto found = jobs_.find(asker); found != jobs_.end()) {
    Job& job = *found->second;
    if (job.question == question) {
      job.last_asked = now;
      if (!job.answer) return std::nullopt;
      PageAnswer answer = *std::move(job.answer);
      jobs_.erase(found);
      return answer;
    }
    job.stop.Stop();
    std::erase(waiting_, found->second);
    jobs_.erase(found);
  }
  const auto of_viewer = std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& each) {
    return each.first.viewer == asker.viewer;
  });
  // A question that was superseded and is being stopped still has a thread, and counts.
  if (waiting_.size() + running_.size() >= bounds_.most || jobs_.size() >= bounds_.most ||
      static_cast<size_t>(of_viewer) >= bounds_.most_of_viewer) {
    return Busy("the page has too many open questions; ask again soon");
  }
  auto job = std::make_shared<Job>();
  job->question = question;
  job->work = std::move(work);
  job->last_asked = now;
  jobs_.emplace(asker, job);
  waiting_.push_back(std::move(job));
  return std::nullopt;
}

void PageJobs::RunSoon(std::function<void()> work) {
  auto job = std::make_shared<Job>();
  job->is_asked = false;
  job->work = [work = std::move(work)](StopSwitch& /*stop*/) {
    work();
    return PageAnswer();
  };
  absl::MutexLock lock(&mutex_);
  waiting_.push_front(std::move(job));
}

void PageJobs::Abandon(absl::Time now) {
  for (auto each = jobs_.begin(); each != jobs_.end();) {
    if (now - each->second->last_asked < bounds_.patience) {
      ++each;
      continue;
    }
    each->second->stop.Stop();
    std::erase(waiting_, each->second);
    each = jobs_.erase(each);
  }
}

size_t PageJobs::num_jobs() const {
  absl::MutexLock lock(&mutex_);
  return jobs_.size();
}

void PageJobs::Run() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PageJobs::HasWork));
      if (is_stopped_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      running_.push_back(job);
    }
    RunOne(*job);
    absl::MutexLock lock(&mutex_);
    std::erase(running_, job);
  }
}

void PageJobs::RunOne(Job& job) {
  PageAnswer answer = Busy("the server has no memory for this now; ask again soon");
  MemoryHold memory;
  // If there is no memory left, the answer says so.
  RunWithinMemory([&] {
    if (memory_ != nullptr && job.is_asked) {
      auto held = memory_->Hold("a question of the page", bounds_.bytes_at_work);
      if (!held.ok()) return;
      memory = *std::move(held);
    }
    answer = job.work(job.stop);
  });
  job.work = nullptr;
  memory.ShrinkTo(answer.body.size());
  absl::MutexLock lock(&mutex_);
  job.memory = std::move(memory);
  job.answer = std::move(answer);
}

}  // namespace packhouse::page
