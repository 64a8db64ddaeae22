#include "service/partition_jobs/partition_jobs.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/partition_jobs/partition_needs.h"

namespace packhouse {
namespace {

// Calls are served first.
constexpr int kNice = 10;
// Memory that is given back wakes who waits for it. Memory that a cache could let go of, since
// nobody uses it any more, does not: it is asked for again after this time.
constexpr absl::Duration kCacheRetry = absl::Seconds(1);

}  // namespace

PartitionJobs::PartitionJobs(SourceGraphStore* graphs, AssignmentEngine* engine, Clock* clock,
                             MemoryBudget* memory, const Options& options)
    : graphs_(graphs),
      unused_graphs_(options.unused_graphs == nullptr ? graphs : options.unused_graphs),
      engine_(engine),
      clock_(clock),
      memory_(memory),
      options_(options),
      waiting_bound_("partitions that wait", "--max-waiting-partitions",
                     {options.max_waiting, std::max(options.max_waiting / 2, size_t{1})}) {
  for (size_t i = 0; i < std::max(options_.max_running, size_t{1}); ++i) {
    threads_.emplace_back([this, i] { Work(i == 0); });
  }
}

PartitionJobs::~PartitionJobs() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
  }
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
}

bool PartitionJobs::HasWorkOrStops() const { return stops_ || !waiting_.empty(); }

void PartitionJobs::Work(bool is_first) {
  // Of this thread only; the processes that it starts inherit it.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  if (is_first) {
    HasMemoryFor([this] { FindUnfinished(); });
    absl::MutexLock lock(&mutex_);
    has_searched_ = true;
  }
  for (;;) {
    PartitionQueue::Next next;
    std::shared_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PartitionJobs::HasWorkOrStops));
      if (stops_) return;
      next = waiting_.Pop();
      job = active_[next.key];
      job->place.Reset();
      job->running = true;
    }
    const absl::Time began = clock_->Now();
    RunNext(next.key, job);
    absl::MutexLock lock(&mutex_);
    waiting_.Done(next.client, clock_->Now() - began);
  }
}

void PartitionJobs::FindUnfinished() {
  std::string token;
  do {
    const absl::StatusOr<SourceGraphList> page = graphs_->List(0, token);
    if (!page.ok()) return;
    for (const SourceGraphInfo& info : page->graphs) {
      if (stopping_) return;
      if (info.state == SourceGraphState::kSealed) FindUnfinishedOf(info.name);
    }
    token = page->next_page_token;
  } while (!token.empty());
}

void PartitionJobs::FindUnfinishedOf(const std::string& graph) {
  absl::MutexLock changes(&changes_);
  const auto opened = unused_graphs_->Open(graph);
  if (!opened.ok()) return;
  PartitionFolder::RemoveRemains(**opened);
  for (const std::string& name : PartitionFolder::NamesOf(**opened)) {
    const PartitionFolder folder(**opened, name);
    // What is there stays, whatever the bound.
    CountBytes({graph, name}, folder.NumBytes()).IgnoreError();
    if (!folder.is_unfinished()) continue;
    // What goes on is a use.
    auto used = graphs_->Open(graph);
    if (!used.ok()) return;
    const ClientId owner = folder.Owner();
    auto place = waiting_bound_.Enter(owner);
    absl::MutexLock lock(&mutex_);
    // It was promised: it waits beyond the bound, too.
    Enqueue({graph, name}, owner, place.ok() ? *std::move(place) : FairBound::Place(),
            *std::move(used));
  }
}

void PartitionJobs::Enqueue(const Key& key, const ClientId& client, FairBound::Place place,
                            std::shared_ptr<const StoredSourceGraph> graph) {
  const auto [job, is_new] = active_.emplace(key, std::make_shared<Job>());
  if (!is_new) return;
  job->second->place = std::move(place);
  job->second->graph = std::move(graph);
  waiting_.Push(key, client);
}

void PartitionJobs::RunNext(const Key& key, const std::shared_ptr<Job>& job) {
  std::optional<MemoryBudget::Waiter> waiter;
  uint64_t room = 0;
  absl::Status ended;
  for (;;) {
    ended = OutOfMemory();
    HasMemoryFor([&] { ended = RunJob(key, *job); });
    if (!absl::IsAborted(ended)) break;
    // There is no room now. Those behind it wait, too: otherwise large ones would never run.
    if (!waiter) {
      // It counts from before the next try.
      waiter.emplace(memory_, [this] {
        absl::MutexLock lock(&mutex_);
        ++room_;
      });
      continue;
    }
    absl::MutexLock lock(&mutex_);
    const auto over = [this, &job] { return stops_ || job->cancelled.load(); };
    const auto wakes = [&] { return over() || room_ != room; };
    job->running = over();
    mutex_.AwaitWithTimeout(absl::Condition(&wakes), kCacheRetry);
    room = room_;
    if (over()) break;
    job->running = true;
  }
  waiter.reset();
  const bool was_told = job->cancelled || stopping_;
  if (const auto graph = graphs_->Open(key.first); graph.ok()) {
    const PartitionFolder folder(**graph, key.second);
    if (!ended.ok() && !was_told) {
      {
        absl::MutexLock lock(&mutex_);
        failed_[key] = ended;
      }
      folder.WriteEnd(ended).IgnoreError();
    }
    CountBytes(key, folder.NumBytes()).IgnoreError();
  }
  job->graph.reset();
  absl::MutexLock lock(&mutex_);
  active_.erase(key);
}

absl::Status PartitionJobs::RunJob(const Key& key, Job& job) {
  PH_ASSIGN_OR_RETURN(const auto graph, graphs_->Open(key.first));
  const PartitionFolder folder(*graph, key.second);
  PH_ASSIGN_OR_RETURN(PartitionPlan plan, folder.Request());
  PH_ASSIGN_OR_RETURN(const PartitionNeeds needs,
                      NeedsOf(*graph, plan, memory_ == nullptr ? 0 : memory_->bound()));
  MemoryHold hold;
  if (memory_ != nullptr) {
    absl::StatusOr<MemoryHold> held =
        memory_->Hold(absl::StrCat("partition ", Quoted(key.second)), needs.bytes);
    // RunNext() knows ABORTED as this only.
    if (!held.ok()) return absl::AbortedError(held.status().message());
    hold = *std::move(held);
  }
  plan.options.memory_bytes = needs.assignment_bytes;
  // Several processes of METIS would take more than what is held.
  plan.options.parallel = 1;
  RunWatch watch;
  watch.cancelled = [this, &job] { return job.cancelled || stopping_; };
  watch.progress = [this, &job](RunPhase phase, double share) {
    absl::MutexLock lock(&mutex_);
    if (job.began_share < 0) {
      job.began = clock_->Now();
      job.began_share = share;
    }
    job.phase = phase;
    job.share = share;
  };
  watch.wrote = [this, &key](uint64_t bytes) { return CountBytes(key, bytes); };
  const absl::Status made = RunPartition(*graph, plan, folder.files(), engine_, watch).status();
  return absl::IsAborted(made) ? absl::InternalError(made.message()) : made;
}

absl::Status PartitionJobs::CountBytes(const Key& key, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto counted = bytes_.try_emplace(key, 0).first;
  all_bytes_ += bytes - counted->second;
  counted->second = bytes;
  // A request that is refused later leaves nothing.
  if (bytes == 0) bytes_.erase(counted);
  if (all_bytes_ <= options_.max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "partitions have ", all_bytes_, " bytes on the disk, ", bytes, " of them are of ",
      Quoted(key.second), ", at most ", options_.max_bytes, " (--max-partition-bytes)"));
}

void PartitionJobs::EndWork(absl::FunctionRef<bool(const Key&)> holds) {
  absl::MutexLock lock(&mutex_);
  for (auto it = active_.begin(); it != active_.end();) {
    if (!holds(it->first)) {
      ++it;
      continue;
    }
    it->second->cancelled = true;
    // The thread of one that runs takes it out.
    it = waiting_.Remove(it->first) ? active_.erase(it) : std::next(it);
  }
  const auto gone = [this, holds] {
    for (const auto& [key, job] : active_) {
      if (holds(key)) return false;
    }
    return true;
  };
  mutex_.Await(absl::Condition(&gone));
}

void PartitionJobs::AwaitIdle() const {
  const auto idle = [this] { return has_searched_ && active_.empty(); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace packhouse
