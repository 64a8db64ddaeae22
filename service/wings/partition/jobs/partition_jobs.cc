#include "service/wings/partition/jobs/partition_jobs.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/access/policy.h"
#include "service/base/low_priority.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/jobs/partition_needs.h"
#include "service/wings/partition/jobs/shared_partition_folder.h"

namespace packhouse {
namespace {

// Memory that is given back wakes who waits for it. Memory that a cache could let go of, since
// nobody uses it any more, does not: it is asked for again after this time.
constexpr absl::Duration kCacheRetry = absl::Seconds(1);

absl::Status WasCancelled() { return absl::CancelledError("the partition was cancelled"); }

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
  // Before any thread asks for room.
  if (options_.quota != nullptr) {
    options_.quota->Add([this](absl::string_view where) -> absl::StatusOr<uint64_t> {
      PH_ASSIGN_OR_RETURN(const auto bytes, BytesByNamespace());
      const auto found = bytes.find(std::string(where));
      return found == bytes.end() ? 0 : found->second;
    });
  }
  threads_ = BeginThreads(std::max(options_.max_running, size_t{1}), [this] { Work(); });
}

PartitionJobs::~PartitionJobs() {
  stopping_ = true;
  absl::MutexLock lock(&mutex_);
  stops_ = true;
}

bool PartitionJobs::HasWorkOrStops() const { return stops_ || states_.has_waiting(); }

void PartitionJobs::Work() {
  LowerPriority();
  if (!has_begun_.exchange(true)) {
    RunWithinMemory([this] { FindUnfinished(); });
    absl::MutexLock lock(&mutex_);
    has_searched_ = true;
  }
  for (;;) {
    Turn turn;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &PartitionJobs::HasWorkOrStops),
                              options_.shared == nullptr ? absl::InfiniteDuration() : kLookPeriod);
      if (stops_) return;
      if (states_.has_waiting()) turn = states_.Begin();
    }
    if (turn.work != nullptr) {
      RunNext(turn);
    } else {
      RunWithinMemory([this] { FindClaimed(); });
    }
  }
}

void PartitionJobs::FindUnfinished() {
  if (options_.shared != nullptr) return FindClaimed();
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
  PartitionFolder::RemoveRemains((*opened)->companion_folder());
  for (const std::string& name : PartitionsThere((*opened)->companion_folder())) {
    const auto of_name = std::make_shared<const PartitionFolder>(**opened, name);
    const PartitionFolder& folder = *of_name;
    // What is there stays, whatever the bound.
    CountBytes({graph, name}, folder.NumBytes()).IgnoreError();
    const auto state = folder.State();
    // Where its name may be taken back, nobody works on it until somebody asks for it again.
    if (!folder.Settle().ok() || !state.ok()) continue;
    if (folder.is_done()) {
      // An earlier process ended before it had noted so.
      if (!state->end || !state->end->ok()) folder.WriteEnd(absl::OkStatus()).IgnoreError();
      continue;
    }
    if (state->end) continue;
    // What goes on is a use.
    auto used = graphs_->Open(graph);
    if (!used.ok()) return;
    auto place = waiting_bound_.Enter(state->owner);
    absl::MutexLock lock(&mutex_);
    // It was promised: it waits beyond the bound, too.
    Ask({graph, name}, state->owner, place.ok() ? *std::move(place) : FairBound::Place(),
        *std::move(used), of_name);
  }
}

void PartitionJobs::FindClaimed() {
  absl::MutexLock changes(&changes_);
  SharedCompanions& shared = *options_.shared;
  const auto all = shared.ListAll();
  if (!all.ok()) return;
  SharedPartitionFolder::Needed needed;
  absl::btree_map<Key, uint64_t> counted;
  for (const SharedCompanion& found : *all) {
    const Key key(found.graph.name, found.name);
    const auto is_it = [&key](const Key& other) { return other == key; };
    bool is_at_work = false;
    {
      absl::MutexLock lock(&mutex_);
      is_at_work = states_.HasAny(is_it);
    }
    const auto state = StateOfText(found.state);
    const bool is_ours = found.server == shared.server() && !found.is_whole && state.ok();
    if (!is_at_work && !is_ours) continue;
    needed.emplace(found.graph.id, found.name);
    const auto folder =
        std::make_shared<const SharedPartitionFolder>(&shared, found.graph, 0, found.name);
    counted[key] = folder->NumBytes();
    if (is_at_work || state->end) continue;
    // What goes on is a use; where it cannot be written now, the next look tries again.
    const absl::Status used = Use(key.first);
    if (absl::IsUnavailable(used) || absl::IsResourceExhausted(used)) continue;
    if (!folder->GoOn(found).ok()) continue;
    auto place = waiting_bound_.Enter(state->owner);
    absl::MutexLock lock(&mutex_);
    Ask(key, state->owner, place.ok() ? *std::move(place) : FairBound::Place(), nullptr, folder);
  }
  SharedPartitionFolder::RemoveUnneeded(&shared, needed);
  std::vector<Key> gone;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, bytes] : bytes_) {
      if (!counted.contains(key)) gone.push_back(key);
    }
  }
  // What is there stays, whatever the bound.
  for (const auto& [key, bytes] : counted) CountBytes(key, bytes).IgnoreError();
  for (const Key& key : gone) CountBytes(key, 0).IgnoreError();
}

void PartitionJobs::Ask(const Key& key, const ClientId& client, FairBound::Place place,
                        std::shared_ptr<const StoredSourceGraph> graph,
                        std::shared_ptr<const PartitionFolder> folder) {
  auto work = std::make_shared<PartitionWork>();
  work->client = client;
  work->place = std::move(place);
  work->graph = std::move(graph);
  work->folder = std::move(folder);
  states_.Ask(key, std::move(work));
}

absl::Status PartitionJobs::RunWithMemory(const Turn& turn, bool& gave_way) {
  PartitionWork& work = *turn.work;
  std::optional<MemoryBudget::Waiter> waiter;
  uint64_t room = 0;
  for (;;) {
    absl::Status ended = OutOfMemory();
    RunWithinMemory([&] { ended = RunJob(turn, gave_way); });
    if (!absl::IsAborted(ended) || gave_way) return ended;
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
    const auto over = [this, &work] { return stops_ || work.cancelled.load(); };
    const auto wakes = [&] { return over() || room_ != room; };
    work.has_memory = over();
    mutex_.AwaitWithTimeout(absl::Condition(&wakes), kCacheRetry);
    room = room_;
    if (over()) return ended;
    work.has_memory = true;
  }
}

void PartitionJobs::RunNext(const Turn& turn) {
  const absl::Time began = clock_->Now();
  const auto took = [&] { return clock_->Now() - began; };
  bool gave_way = false;
  const absl::Status ended = RunWithMemory(turn, gave_way);
  const bool was_told = turn.work->cancelled || stopping_;
  if (gave_way && !was_told) {
    absl::MutexLock lock(&mutex_);
    if (states_.GiveWay(turn, took())) return;
  }
  {
    absl::MutexLock lock(&mutex_);
    states_.Ending(turn);
  }
  // Of unknown outcome is the last step alone: the partition can be seen, or goes on after a crash.
  // Where servers share, one that is held up by a store that is away stays claimed: FindClaimed()
  // goes on with it after kLookPeriod.
  const bool is_held_up = options_.shared != nullptr && absl::IsUnavailable(ended);
  const bool failed =
      !ended.ok() && !was_told && !gave_way && !is_held_up && !DiskOutcomeIsUnknown(ended);
  const PartitionFolder& folder = *turn.work->folder;
  // One that is whole is noted as such: if its files are gone later, it is not made anew.
  if (failed || ended.ok()) folder.WriteEnd(ended).IgnoreError();
  CountBytes(turn.key, folder.NumBytes()).IgnoreError();
  turn.work->graph.reset();
  absl::MutexLock lock(&mutex_);
  states_.End(turn, took(), failed ? ended : absl::OkStatus());
}

absl::Status PartitionJobs::RunJob(const Turn& turn, bool& gave_way) {
  const Key& key = turn.key;
  PartitionWork& work = *turn.work;
  const PartitionFolder& folder = *work.folder;
  absl::Time next_tell = clock_->Now();
  const auto is_over = [&] { return IsOver(work, next_tell); };
  if (is_over()) return WasCancelled();
  // A use; work that an earlier process has left gets its graph here.
  PH_ASSIGN_OR_RETURN(const auto graph, graphs_->Open(key.first));
  if (!folder.IsOf(*graph)) {
    work.cancelled = true;
    return WasCancelled();
  }
  work.graph = graph;
  PH_ASSIGN_OR_RETURN(PartitionState state, folder.State());
  PartitionPlan& plan = state.plan;
  PH_ASSIGN_OR_RETURN(const uint64_t crashes, folder.CountStart());
  // From here on the process may end, and does not write so.
  const absl::Cleanup over = [&folder] { folder.RemoveCount().IgnoreError(); };
  if (crashes >= kMaxCrashes) {
    return absl::InternalError(
        absl::StrCat("the server ended ", crashes, " times while it worked at partition ",
                     Quoted(key.second), ", which got no further: verify the source graph ",
                     Quoted(key.first), ", and ask for the partition again to try once more"));
  }
  PH_ASSIGN_OR_RETURN(const PartitionNeeds needs,
                      NeedsOf(*graph, plan, memory_ == nullptr ? 0 : memory_->bound()));
  MemoryHold hold;
  if (memory_ != nullptr) {
    absl::StatusOr<MemoryHold> held =
        memory_->Hold(absl::StrCat("partition ", Quoted(key.second)), needs.bytes);
    // RunWithMemory() knows ABORTED as this, and as giving way.
    if (!held.ok()) return absl::AbortedError(held.status().message());
    hold = *std::move(held);
  }
  plan.options.memory_bytes = needs.assignment_bytes;
  // Several processes of METIS would take more than what is held.
  plan.options.parallel = 1;
  const absl::Time began = clock_->Now();
  RunWatch watch;
  watch.cancelled = is_over;
  watch.progress = [this, &work](RunPhase phase, double share) {
    absl::MutexLock lock(&mutex_);
    if (work.began_share < 0) {
      work.began = clock_->Now();
      work.began_share = share;
    }
    work.phase = phase;
    work.share = share;
  };
  watch.wrote = [this, &key](uint64_t bytes) { return CountBytes(key, bytes); };
  watch.whole = [&](const std::string& whole) {
    return folder.NoteFiles(whole, [&] { return !is_over(); });
  };
  watch.kept = [&folder, is_counted = crashes == 0]() mutable {
    if (std::exchange(is_counted, true)) return;
    folder.RestartCount().IgnoreError();
  };
  watch.gives_way = [&] {
    const absl::Duration took = clock_->Now() - began;
    absl::MutexLock lock(&mutex_);
    gave_way = took >= options_.slice && states_.IsTurnOfOthers(turn, took);
    return gave_way;
  };
  // Files that are whole may have been left to be published.
  absl::Status made;
  if (!folder.has_files()) {
    made = RunPartition(*graph, plan, folder.files(), engine_, watch).status();
  }
  if (made.ok()) {
    made = folder.Publish([&] { return !is_over(); });
    // It is another server's.
    if (absl::IsCancelled(made)) work.cancelled = true;
  }
  return absl::IsAborted(made) && !gave_way ? absl::InternalError(made.message()) : made;
}

bool PartitionJobs::IsOver(PartitionWork& work, absl::Time& next_tell) const {
  if (work.cancelled || stopping_) return true;
  if (options_.shared == nullptr || clock_->Now() < next_tell) return false;
  PartitionProgress progress;
  {
    absl::MutexLock lock(&mutex_);
    progress = ProgressOf(work);
  }
  if (!work.folder->IsStillOurs(progress)) work.cancelled = true;
  // After the call: one that waits for a store that is away does not hold up the work.
  next_tell = clock_->Now() + kTellPeriod;
  return work.cancelled;
}

absl::Status PartitionJobs::CountBytes(const Key& key, uint64_t bytes) {
  absl::Status within;
  DiskQuota::Hold hold;
  if (options_.quota != nullptr) {
    uint64_t before = 0;
    {
      absl::MutexLock lock(&mutex_);
      const auto counted = bytes_.find(key);
      if (counted != bytes_.end()) before = counted->second;
    }
    auto taken = options_.quota->Take(NamespaceOf(key.first), bytes - std::min(bytes, before));
    within = taken.status();
    // Until they are counted here.
    if (taken.ok()) hold = *std::move(taken);
  }
  absl::MutexLock lock(&mutex_);
  const auto counted = bytes_.try_emplace(key, 0).first;
  all_bytes_ += bytes - counted->second;
  counted->second = bytes;
  // A request that is refused later leaves nothing.
  if (bytes == 0) bytes_.erase(counted);
  if (all_bytes_ <= options_.max_bytes) return within;
  return absl::ResourceExhaustedError(absl::StrCat(
      "partitions have ", all_bytes_, " bytes on the disk, ", bytes, " of them are of ",
      Quoted(key.second), ", at most ", options_.max_bytes, " (--max-partition-bytes)"));
}

absl::StatusOr<std::map<std::string, uint64_t>> PartitionJobs::BytesByNamespace() const {
  std::map<std::string, uint64_t> bytes;
  if (options_.shared != nullptr) {
    PH_ASSIGN_OR_RETURN(const auto all, options_.shared->ListAll());
    for (const SharedCompanion& found : all) {
      bytes[std::string(NamespaceOf(found.graph.name))] += found.num_bytes;
    }
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, of_partition] : bytes_) {
    bytes[std::string(NamespaceOf(key.first))] += of_partition;
  }
  return bytes;
}

void PartitionJobs::AwaitEnd(absl::FunctionRef<bool(const Key&)> holds) const {
  const auto gone = [this, holds] { return !states_.HasCancelled(holds); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&gone));
}

absl::Status PartitionJobs::WithoutWork(absl::FunctionRef<bool(const Key&)> holds,
                                        absl::FunctionRef<absl::Status()> change) {
  for (;;) {
    {
      absl::MutexLock changes(&changes_);
      bool is_at_work = false;
      {
        absl::MutexLock lock(&mutex_);
        states_.Cancel(holds);
        is_at_work = states_.HasAny(holds);
      }
      if (!is_at_work) return change();
    }
    AwaitEnd(holds);
  }
}

void PartitionJobs::AwaitIdle() const {
  const auto idle = [this] { return has_searched_ && states_.empty(); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace packhouse
