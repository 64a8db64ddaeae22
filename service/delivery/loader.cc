#include "service/delivery/loader.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "service/sizes/quoted.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

absl::Status NoSuchEpoch(const EpochKey& key) {
  return absl::NotFoundError(
      absl::StrCat("epoch ", key.epoch, " of job ", Quoted(key.job), ": nobody has loaded it"));
}

void RunAll(const std::vector<std::function<void()>>& wakes) {
  for (const auto& wake : wakes) wake();
}

}  // namespace

class Loader::WritingLocked {
 public:
  explicit WritingLocked(Loader& loader) : loader_(loader) { ++loader_.num_writing_locked_; }
  ~WritingLocked() { --loader_.num_writing_locked_; }
  WritingLocked(const WritingLocked&) = delete;
  WritingLocked& operator=(const WritingLocked&) = delete;

 private:
  Loader& loader_;
};

bool LoadSession::MayBlock() const {
  return loader_->num_writing_locked_.load(std::memory_order_relaxed) != 0;
}

LoadSession::~LoadSession() {
  Loader::Wakes wakes;
  {
    absl::MutexLock lock(&loader_->mutex_);
    const auto found = loader_->epochs_.find(epoch_->identity().key);
    if (found == loader_->epochs_.end()) return;
    if (ended_) {
      found->second.delivery->SessionEnded(start_.session, worker_);
    } else {
      found->second.delivery->SessionGone(start_.session);
    }
    found->second.sessions.erase(start_.session);
    Loader::WakeWaiting(found->second, wakes);
  }
  RunAll(wakes);
}

absl::StatusOr<LoadEvent> LoadSession::Next(absl::Time now) {
  const EpochKey& key = epoch_->identity().key;
  LoadEvent event;
  {
    absl::MutexLock lock(&loader_->mutex_);
    const auto found = loader_->epochs_.find(key);
    // A job may have been deleted and begun anew.
    if (found == loader_->epochs_.end() || !found->second.sessions.contains(start_.session)) {
      return NoSuchEpoch(key);
    }
    EpochDelivery& delivery = *found->second.delivery;
    waiting_ = false;
    PH_ASSIGN_OR_RETURN(const Lease lease, delivery.Next(start_.session, max_in_flight_, now));
    if (lease.outcome == LeaseOutcome::kFinished) return event;
    if (lease.outcome == LeaseOutcome::kAllLeased && ends_when_all_leased_) {
      ended_ = true;
      event.num_pending = delivery.table()->NumLeft(lane_);
      return event;
    }
    if (lease.outcome != LeaseOutcome::kLeased) {
      waiting_ = true;
      event.kind = LoadEvent::Kind::kWait;
      return event;
    }
    event = BatchEventAt(delivery.table()->dealing(), *epoch_, lease.place);
    event.is_redelivered = lease.redelivered;
  }
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event));
  return event;
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Open(EpochCatalog* catalog, RecordLog* log,
                                                     const LoaderOptions& options,
                                                     SessionId first_session) {
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> records, log->ReadAll());
  PH_ASSIGN_OR_RETURN(JobLedger ledger, JobLedger::Replay(records));
  return std::unique_ptr<Loader>(
      new Loader(catalog, log, options, std::move(ledger), records.size(), first_session));
}

void Loader::AdoptPlannedRanks(const std::optional<Cursor>& cursor, EpochRequest& request) const {
  absl::MutexLock lock(&mutex_);
  const EpochState* const state = ledger_.Find(request.key);
  if (state == nullptr && !cursor) return;
  const EpochIdentity& identity = state != nullptr ? state->identity : cursor->identity;
  if (identity.profiles.size() != request.profiles.size()) return;
  for (size_t i = 0; i < request.profiles.size(); ++i) {
    const uint64_t planned = identity.profiles[i].planned_ranks;
    if (planned != 0 && planned <= Sharing::kMaxRanks) {
      request.profiles[i].num_ranks = static_cast<uint32_t>(planned);
    }
  }
}

absl::StatusOr<Loader::OpenEpoch*> Loader::Find(const EpochKey& key) {
  if (const auto found = epochs_.find(key); found != epochs_.end()) return &found->second;
  const EpochState* const state = ledger_.Find(key);
  if (state == nullptr) return NoSuchEpoch(key);
  return FindOrOpen(state->identity);
}

absl::StatusOr<Loader::OpenEpoch*> Loader::FindOrOpen(const EpochIdentity& identity) {
  if (const auto found = epochs_.find(identity.key); found != epochs_.end()) {
    PH_RETURN_IF_ERROR(CheckSameEpoch(found->second.delivery->identity(), identity, "load"));
    return &found->second;
  }
  PH_ASSIGN_OR_RETURN(auto delivery,
                      EpochDelivery::Open(identity, options_.lease_duration, &ledger_, log_));
  return &epochs_.emplace(identity.key, OpenEpoch{std::move(delivery), {}}).first->second;
}

EpochProgress Loader::ProgressOf(const EpochKey& key) const {
  const EpochState* const state = ledger_.Find(key);
  if (state == nullptr) return {key, 0, 0, 0};
  const uint64_t num_batches = state->identity.num_batches();
  return {key, state->generation, state->done.Below(num_batches).size(), num_batches};
}

absl::StatusOr<Loader::Description> Loader::Describe(EpochRequest request,
                                                     const std::function<bool()>& given_up) {
  AdoptPlannedRanks(std::nullopt, request);
  PH_ASSIGN_OR_RETURN(auto epoch, catalog_->Prepare(request, given_up));
  absl::MutexLock lock(&mutex_);
  const EpochState* const state = ledger_.Find(request.key);
  if (state != nullptr) {
    PH_RETURN_IF_ERROR(CheckSameEpoch(state->identity, epoch->identity(), "request"));
  }
  EpochProgress progress = ProgressOf(request.key);
  progress.num_batches = epoch->identity().num_batches();
  return Description{std::move(epoch), std::move(progress)};
}

void Loader::Close(const EpochKey& key, Wakes& wakes) {
  const auto found = epochs_.find(key);
  if (found == epochs_.end()) return;
  WakeWaiting(found->second, wakes);
  closed_ = closed_ + found->second.delivery->counters();
  epochs_.erase(found);
}

absl::Status Loader::Forget(absl::Span<const EpochKey> keys, Wakes& wakes) {
  if (keys.empty()) return absl::OkStatus();
  std::vector<std::string> records;
  for (const EpochKey& key : keys) records.push_back(EncodeEvent(EpochForgotten{key}));
  PH_RETURN_IF_ERROR(log_->Append(records));
  num_records_ += records.size();
  for (const EpochKey& key : keys) {
    PH_RETURN_IF_ERROR(ledger_.Apply(EpochForgotten{key}));
    Close(key, wakes);
  }
  return absl::OkStatus();
}

absl::Status Loader::ForgetFinished(const EpochKey& opened, Wakes& wakes) {
  std::vector<EpochKey> finished;
  for (auto epoch = ledger_.epochs().lower_bound({opened.job, 0});
       epoch != ledger_.epochs().end() && epoch->first.job == opened.job; ++epoch) {
    if (epoch->first == opened) continue;
    const auto open = epochs_.find(epoch->first);
    if (open != epochs_.end() && !open->second.sessions.empty()) continue;
    const uint64_t num_batches = epoch->second.identity.num_batches();
    if (epoch->second.done.Below(num_batches).size() == num_batches) {
      finished.push_back(epoch->first);
    }
  }
  // Ascending: the oldest first.
  finished.resize(finished.size() - std::min(finished.size(), options_.kept_finished_epochs));
  return Forget(finished, wakes);
}

absl::StatusOr<std::unique_ptr<LoadSession>> Loader::Load(EpochRequest request, JoinRequest join,
                                                          size_t max_in_flight,
                                                          std::function<void()> wake,
                                                          const std::function<bool()>& given_up) {
  AdoptPlannedRanks(join.cursor, request);
  PH_ASSIGN_OR_RETURN(auto prepared, catalog_->Prepare(request, given_up));
  Wakes wakes;
  // Destroyed, if at all, without the lock.
  std::unique_ptr<LoadSession> session(
      new LoadSession(this, std::move(prepared), join, max_in_flight, std::move(wake)));
  const EpochIdentity& identity = session->epoch_->identity();
  {
    const WritingLocked writing(*this);
    absl::MutexLock lock(&mutex_);
    if (ledger_.Find(identity.key) == nullptr) {
      PH_RETURN_IF_ERROR(ForgetFinished(identity.key, wakes));
      if (ledger_.epochs().size() >= options_.max_epochs) {
        return absl::ResourceExhaustedError(
            absl::StrCat("epochs: ", ledger_.epochs().size(), " are remembered, at most ",
                         options_.max_epochs, "; finish them, or delete jobs that will not"));
      }
    }
    PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, FindOrOpen(identity));
    join.session = next_session_++;
    LoadStart& start = session->start_;
    start.session = join.session;
    const std::vector<EpochKey> later = ledger_.EpochsAfter(identity.key);
    absl::StatusOr<JoinResult> joined = epoch->delivery->Join(join);
    if (!joined.ok()) {
      // Nobody has opened it: the next one may ask for it in other words.
      if (ledger_.Find(identity.key) == nullptr) epochs_.erase(identity.key);
      return joined.status();
    }
    start.join = *std::move(joined);
    // Rolled back, a job forgets its later epochs.
    for (const EpochKey& key : later) {
      if (ledger_.Find(key) == nullptr) Close(key, wakes);
    }
    num_records_ += start.join.started ? 3 : 1;
    num_generations_ += start.join.started ? 1 : 0;
    epoch->sessions.emplace(join.session, session.get());
    start.progress = ProgressOf(identity.key);
    const Dealing& dealing = epoch->delivery->table()->dealing();
    const BatchSet& done = ledger_.Find(identity.key)->done;
    for (uint64_t step = join.reader.number; step < dealing.lane_length(join.lane);
         step += join.reader.count) {
      ++start.num_steps;
      if (done.Contains(dealing.BatchAt({join.lane, step}))) ++start.num_steps_done;
    }
    // Those whose generation or lane this ends, and those who can take what it gave back.
    WakeWaiting(*epoch, wakes);
    CompactIfDue();
  }
  RunAll(wakes);
  return session;
}

absl::StatusOr<std::unique_ptr<Evaluation>> Loader::Evaluate(
    const EpochRequest& request, EvaluationRequest evaluation,
    const std::function<bool()>& given_up) {
  PH_ASSIGN_OR_RETURN(auto prepared, catalog_->Prepare(request, given_up));
  return Evaluation::Open(std::move(prepared), std::move(evaluation));
}

void Loader::WakeWaiting(const OpenEpoch& epoch, Wakes& wakes) {
  for (const auto& [id, session] : epoch.sessions) {
    if (session->waiting_) wakes.push_back(session->wake_);
  }
}

absl::StatusOr<AcknowledgeResult> Loader::Acknowledge(const EpochKey& key, SessionId session,
                                                      uint64_t generation,
                                                      absl::Span<const uint64_t> batches,
                                                      absl::Time now) {
  std::optional<BatchesAcknowledged> event;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Loader::MayAppend));
    PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, Find(key));
    PH_ASSIGN_OR_RETURN(event, epoch->delivery->PrepareAcknowledge(generation, batches));
    ++num_appending_;
  }
  absl::Status appended;
  if (event) appended = log_->Append({EncodeEvent(*event)});

  Wakes wakes;
  absl::StatusOr<AcknowledgeResult> result;
  {
    absl::MutexLock lock(&mutex_);
    --num_appending_;
    if (event) ++num_records_;
    if (appended.ok()) {
      result = FinishAcknowledge(key, session, generation, batches, now, wakes);
    } else {
      result = appended;
    }
    CompactIfDue();
  }
  RunAll(wakes);
  return result;
}

absl::StatusOr<AcknowledgeResult> Loader::FinishAcknowledge(const EpochKey& key, SessionId session,
                                                            uint64_t generation,
                                                            absl::Span<const uint64_t> batches,
                                                            absl::Time now, Wakes& wakes) {
  const auto found = epochs_.find(key);
  if (found == epochs_.end()) return NoSuchEpoch(key);
  const OpenEpoch& epoch = found->second;
  PH_ASSIGN_OR_RETURN(AcknowledgeResult result,
                      epoch.delivery->FinishAcknowledge(session, generation, batches, now));
  const LeaseCounters counters = epoch.delivery->counters();
  const auto sender = epoch.sessions.find(session);
  // As long as no batch was sent to two sessions, the sender alone has more room now.
  if (sender == epoch.sessions.end() || counters.given_back + counters.expired != 0 ||
      epoch.delivery->finished()) {
    WakeWaiting(epoch, wakes);
  } else if (sender->second->waiting_) {
    wakes.push_back(sender->second->wake_);
  }
  return result;
}

absl::StatusOr<std::string> Loader::CursorAtStep(const EpochKey& key, uint64_t generation,
                                                 uint64_t steps) {
  absl::MutexLock lock(&mutex_);
  PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, Find(key));
  return epoch->delivery->CursorAtStep(generation, steps);
}

absl::Status Loader::DeleteJob(const std::string& job) {
  Wakes wakes;
  {
    const WritingLocked writing(*this);
    absl::MutexLock lock(&mutex_);
    std::vector<EpochKey> keys;
    for (auto epoch = ledger_.epochs().lower_bound({job, 0});
         epoch != ledger_.epochs().end() && epoch->first.job == job; ++epoch) {
      keys.push_back(epoch->first);
    }
    if (keys.empty()) {
      return absl::NotFoundError(absl::StrCat("job ", Quoted(job), ": has no epochs"));
    }
    PH_RETURN_IF_ERROR(Forget(keys, wakes));
    CompactIfDue();
  }
  RunAll(wakes);
  return absl::OkStatus();
}

void Loader::CompactIfDue() {
  if (num_records_ >= options_.max_log_records) compaction_due_ = true;
  if (!compaction_due_ || num_appending_ != 0) return;
  compaction_due_ = false;
  const WritingLocked writing(*this);
  const std::vector<std::string> snapshot = ledger_.Snapshot();
  // If it fails, the log is as good as before; tried again after as many records.
  if (log_->Replace(snapshot).ok()) {
    num_records_ = std::min(snapshot.size(), options_.max_log_records / 2);
  } else {
    num_records_ = options_.max_log_records / 2;
  }
}

void Loader::Expire(absl::Time now) {
  Wakes wakes;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, epoch] : epochs_) {
      if (epoch.delivery->Expire(now) != 0) WakeWaiting(epoch, wakes);
    }
  }
  RunAll(wakes);
}

absl::Time Loader::NextExpiry() const {
  absl::MutexLock lock(&mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, epoch] : epochs_) {
    if (!epoch.sessions.empty()) next = std::min(next, epoch.delivery->NextExpiry());
  }
  return next;
}

DeliverySnapshot Loader::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  DeliverySnapshot snapshot;
  snapshot.totals = closed_;
  snapshot.num_generations = num_generations_;
  snapshot.num_epochs = ledger_.epochs().size();
  for (const auto& [key, epoch] : epochs_) {
    snapshot.totals = snapshot.totals + epoch.delivery->counters();
    snapshot.num_sessions += epoch.sessions.size();
    if (epoch.delivery->table() != nullptr) {
      snapshot.num_in_flight += epoch.delivery->table()->num_leased();
    }
    if (!epoch.sessions.empty()) snapshot.progress.push_back(ProgressOf(key));
  }
  return snapshot;
}

}  // namespace packhouse
