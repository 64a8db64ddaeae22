#include "service/engine/jobs/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/execution.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/forget_operation.h"
#include "service/engine/jobs/join_operation.h"
#include "service/engine/jobs/windows_operation.h"

namespace packhouse {
namespace {}  // namespace

Job::Job(std::string name, JobLedger ledger, std::shared_ptr<RecordLog> log, size_t num_records,
         const JobEnvironment* environment)
    : name_(std::move(name)),
      environment_(*environment),
      log_(std::move(log)),
      next_session_(log_->owner_revision() << kSessionBits),
      state_(name_, std::move(ledger), environment),
      num_records_(num_records),
      burst_(kLongestGathering * environment->gather_joins) {
  const JobLedger& known = state_.ledger();
  for (const EpochKey& key : known.Epochs()) {
    environment_.quota->TakeAnyway({known.Find(key)->client, name_});
  }
}

Job::~Job() {
  absl::MutexLock lock(&mutex_);
  const JobLedger& ledger = state_.ledger();
  for (const EpochKey& key : ledger.Epochs()) {
    environment_.quota->GiveBack({ledger.Find(key)->client, name_});
  }
}

void Job::RunAll(const Wakes& wakes) const {
  for (const auto& wake : wakes.each) Wake(wake);
  for (const auto& [number, epoch] : wakes.lost) {
    for (const auto& [id, session] : epoch->sessions) Wake(session->wake);
  }
  SessionId last = 0;
  while (wakes.all) {
    // One after the other, since there is no memory for a list.
    std::shared_ptr<Session> next;
    {
      absl::MutexLock lock(&mutex_);
      for (const auto& [number, epoch] : state_.open_epochs()) {
        const auto session = epoch->sessions.upper_bound(last);
        if (session == epoch->sessions.end()) continue;
        if (next == nullptr || session->first < next->id) next = session->second;
      }
    }
    if (next == nullptr) return;
    last = next->id;
    Wake(next->wake);
  }
}

// --- The commit queue.

bool Job::NeedsCommitter() {
  if (committing_ || committer_called_ || queue_.empty()) return false;
  // A thread that awaits an operation commits all queued ones.
  const bool is_awaited =
      std::any_of(queue_.begin(), queue_.end(), [](const auto& one) { return one->is_awaited; });
  if (is_awaited) return false;
  committer_called_ = true;
  return true;
}

void Job::CallCommitter() {
  const bool is_called = RunWithinMemory([this] {
    environment_.executor([self = shared_from_this()] { self->CommitIfNobodyDoes(); });
  });
  // No other thread would.
  if (!is_called) CommitIfNobodyDoes();
}

void Job::CommitIfNobodyDoes() {
  {
    absl::MutexLock lock(&mutex_);
    if (environment_.gather_joins > absl::ZeroDuration() && burst_.ExpectsMore() &&
        environment_.gathering != nullptr && environment_.gathering->Take()) {
      GatherJoins();
      environment_.gathering->GiveBack();
    }
    committer_called_ = false;
    if (committing_ || queue_.empty()) return;
    committing_ = true;
  }
  CommitQueued();
}

void Job::GatherJoins() {
  // A thread that awaits an operation commits these, too.
  const auto is_over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.empty() || !burst_.ExpectsMore();
  };
  const uint64_t at_first = burst_.num();
  for (int waits = 0; waits < kLongestGathering; ++waits) {
    const uint64_t before = burst_.num();
    if (mutex_.AwaitWithTimeout(absl::Condition(&is_over), environment_.gather_joins)) return;
    if (!burst_.knows_group() && burst_.num() == before) break;
  }
  if (burst_.num() == at_first) burst_.WaitedInVain();
}

absl::Status Job::Perform(const std::shared_ptr<JobOperation>& operation) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(operation);
    const auto is_its_turn = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return operation->done || !committing_;
    };
    mutex_.Await(absl::Condition(&is_its_turn));
    if (operation->done) return operation->status;
    committing_ = true;
  }
  CommitQueued();
  return operation->status;
}

void Job::CommitQueued() {
  std::vector<std::shared_ptr<JobOperation>> operations;
  PendingChanges pending;
  Wakes wakes;
  absl::Status written;
  {
    absl::MutexLock lock(&mutex_);
    operations.swap(queue_);
    // Planning changes only what Undo() undoes.
    if (!RunWithinMemory(
            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { PlanAll(operations, pending); })) {
      written = OutOfMemory();
    }
  }
  const auto apply = [&] {
    absl::MutexLock lock(&mutex_);
    if (pending.changed) state_.ReplaceLedger(pending.ledger);
    bool has_memory = true;
    for (const auto& one : operations) {
      if (!one->status.ok()) continue;
      // The ledger has it, and the state in memory is made from the ledger again. A caller that
      // tries again finds it done.
      has_memory =
          has_memory && state_.HasMemoryOrLoses(wakes, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
            one->Apply(state_, wakes);
          });
      if (has_memory) continue;
      one->Lose(state_);
      one->status = OutOfMemory();
    }
  };
  if (written.ok() && pending.records.empty()) {
    apply();
  } else if (written.ok()) {
    // If there is no memory for the call, the log is not called.
    written = OutOfMemory();
    RunWithinMemory([&] {
      written = log_->Append(pending.records);
      if (written.ok()) apply();
    });
  }
  bool needs_committer = false;
  bool needs_compaction = false;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& one : operations) {
      if (!written.ok() && one->status.ok() && one->is_planned) {
        RunWithinMemory([&] { one->Undo(state_); });
      }
      if (!written.ok() && (one->status.ok() || one->is_tentative)) one->status = written;
      one->Answer();
      one->done = true;
    }
    committing_ = false;
    state_.GiveBackUnused();
    needs_committer = NeedsCommitter();
    num_records_ += pending.records.size();
    needs_compaction =
        num_records_ >= environment_.max_log_records && !std::exchange(compaction_called_, true);
  }
  for (const auto& one : operations) {
    if (const auto* const wake = one->Answered()) Wake(*wake);
  }
  RunAll(wakes);
  if (needs_committer) CallCommitter();
  if (needs_compaction) CallCompaction();
}

void Job::CallCompaction() {
  if (RunWithinMemory(
          [this] { environment_.executor([self = shared_from_this()] { self->Compact(); }); })) {
    return;
  }
  absl::MutexLock lock(&mutex_);
  compaction_called_ = false;
}

void Job::Compact() {
  const auto nobody_commits = [this]()
                                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !committing_; };
  std::optional<JobLedger> ledger;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&nobody_commits));
    committing_ = true;
    RunWithinMemory([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      ledger = state_.ForkLedger();
      ledger->Apply(GenerationsUsed{state_.last_generation()}).IgnoreError();
    });
  }
  std::vector<std::string> records;
  bool is_replaced = false;
  RunWithinMemory([&] {
    if (!ledger) return;
    records = ledger->Snapshot();
    is_replaced = log_->Replace(records).ok();
  });
  ledger.reset();
  bool needs_committer = false;
  {
    absl::MutexLock lock(&mutex_);
    committing_ = false;
    compaction_called_ = false;
    // If it was in vain, or of little use, it is due again after as many records.
    const size_t half = environment_.max_log_records / 2;
    num_records_ = is_replaced ? std::min(records.size(), half) : half;
    needs_committer = NeedsCommitter();
  }
  if (needs_committer) CallCommitter();
}

void Job::PlanAll(const std::vector<std::shared_ptr<JobOperation>>& operations,
                  PendingChanges& pending) {
  pending.ledger = state_.ForkLedger();
  for (const auto& one : operations) {
    const bool changed = pending.changed;
    const size_t num_records = pending.records.size();
    one->is_tentative = changed;
    one->is_planned = true;
    one->status = one->Plan(state_, pending);
    if (one->status.ok()) continue;
    one->Undo(state_);
    if (pending.records.size() == num_records) continue;
    // A part of it was planned. The operations before it are planned anew, without that part.
    pending.records.resize(num_records);
    pending.changed = changed;
    pending.ledger = state_.ForkLedger();
    for (const std::string& record : pending.records) {
      const auto event = DecodeEvent(record);
      // It fitted before.
      if (event.ok()) pending.ledger.Apply(*event).IgnoreError();
    }
  }
}

// --- Joins and deliveries.

std::shared_ptr<Job::Session> Job::StartJoin(const EpochIdentity& identity, JoinRequest request,
                                             SessionId id, size_t max_in_flight,
                                             std::function<void()> wake,
                                             std::shared_ptr<const void> pin) {
  auto session = std::make_shared<JobSession>(identity.key, id, request, max_in_flight,
                                              std::move(wake), std::move(pin));
  const absl::Time now = request.now;
  const uint64_t group = uint64_t{request.sharing.rank_group_of_rank.size()} * request.reader.count;
  auto operation = std::make_shared<JoinOperation>(identity, std::move(request), session);
  bool needs_committer = false;
  {
    absl::MutexLock lock(&mutex_);
    // Acknowledgements are awaited, joins are not.
    const bool meets = std::any_of(queue_.begin(), queue_.end(),
                                   [](const auto& queued) { return !queued->is_awaited; });
    burst_.Came(now, group, meets);
    was_idle_ = false;
    queue_.push_back(std::move(operation));
    needs_committer = NeedsCommitter();
  }
  if (needs_committer) CallCommitter();
  return session;
}

absl::StatusOr<std::optional<LoadStart>> Job::Started(Session& session, bool may_wait) {
  absl::MutexLock lock(&mutex_);
  switch (session.state) {
    case JobSession::State::kJoining:
      session.waits_for_join |= may_wait;
      return std::nullopt;
    case JobSession::State::kRefused:
      return session.refusal;
    case JobSession::State::kJoined:
      return session.start;
  }
  return absl::InternalError("not reached");
}

void Job::AwaitStarted(const Session& session) const {
  const auto is_answered = [&] { return session.state != JobSession::State::kJoining; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&is_answered));
}

absl::StatusOr<Offer> Job::Next(Session& session, absl::Time now) {
  Wakes wakes;
  absl::StatusOr<Offer> offer = NextOrLose(session, now, wakes);
  RunAll(wakes);
  return offer;
}

absl::StatusOr<Offer> Job::NextOrLose(Session& session, absl::Time now, Wakes& wakes) {
  absl::MutexLock lock(&mutex_);
  PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, state_.EpochOf(session));
  epoch->used_seconds = std::max(epoch->used_seconds, SecondsOf(now));
  Offer offer;
  if (!state_.HasMemoryOrLoses(wakes, [&] {
        static_cast<Lease&>(offer) = epoch->table->Next(session.id, session.max_in_flight, now);
      })) {
    return OutOfMemory();
  }
  offer.ends = offer.outcome == LeaseOutcome::kFinished;
  session.is_making = offer.outcome == LeaseOutcome::kLeased;
  if (session.is_making) session.awaited.reset();
  if (const EpochState* const state = state_.ledger().Find(session.key);
      state != nullptr && state->identity.num_windows != 0) {
    PH_RETURN_IF_ERROR(CompleteOffer(session, *state, *epoch, offer));
  }
  if (session.ends_when_all_leased && offer.outcome == LeaseOutcome::kAllLeased) {
    session.has_ended = true;
    offer.ends = true;
    offer.num_pending = epoch->table->NumLeft(session.queue);
  }
  return offer;
}

absl::Status Job::CompleteOffer(Session& session, const EpochState& state, OpenEpoch& epoch,
                                Offer& offer) {
  const LeaseTable& table = *epoch.table;
  const Dealing& dealing = table.dealing();
  offer.num_steps = table.NumStepsOf(session.queue, session.reader);
  if (offer.outcome == LeaseOutcome::kLeased) {
    offer.is_padding = dealing.IsPadding(offer.batch);
    for (uint32_t queue = 0; dealing.sharing().ranked() && queue < dealing.num_queues(); ++queue) {
      const uint64_t batch = dealing.BatchAt({queue, offer.place.position});
      if (!dealing.IsPadding(batch)) offer.batches_of_step.push_back(batch);
    }
  }
  if (state.is_complete()) return absl::OkStatus();
  const std::vector<uint64_t> known = state.NumKnown();
  const uint64_t next = state.windows.size() / known.size();
  // Of each rank group, those of the last window that is known.
  const absl::Span<const uint32_t> last =
      absl::MakeConstSpan(state.windows).last(next == 0 ? 0 : known.size());
  bool is_ours = false;
  if (offer.outcome == LeaseOutcome::kNotKnown) {
    PH_ASSIGN_OR_RETURN(is_ours, epoch.windows.Need(next, session.awaited));
  } else {
    // The next window is planned while the last one that is known is delivered.
    bool has_begun = false;
    for (size_t j = 0; j < last.size(); ++j) {
      has_begun |= table.leased_ends()[j] > known[j] - last[j];
    }
    is_ours = has_begun && epoch.windows.BeginAhead(next);
  }
  if (is_ours) offer.plan_window = next;
  return absl::OkStatus();
}

absl::StatusOr<bool> Job::AwaitWindow(Session& session, uint64_t window) {
  absl::MutexLock lock(&mutex_);
  PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, state_.EpochOf(session));
  return epoch->windows.Need(window, session.awaited);
}

absl::StatusOr<bool> Job::PlanAhead(const Session& session, uint64_t window) {
  absl::MutexLock lock(&mutex_);
  PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, state_.EpochOf(session));
  return epoch->windows.BeginAhead(window);
}

bool Job::Has(uint64_t epoch, uint64_t opening) const {
  absl::MutexLock lock(&mutex_);
  return state_.ledger().OpeningOf(KeyOf(epoch)) == opening;
}

void Job::WindowPlanned(uint64_t epoch, uint64_t opening, uint64_t window,
                        std::vector<uint32_t> counts, absl::Status status) {
  if (status.ok() && !counts.empty()) {
    status = Perform(std::make_shared<WindowsOperation>(KeyOf(epoch), opening, std::move(counts)));
  }
  Wakes wakes;
  {
    absl::MutexLock lock(&mutex_);
    if (state_.ledger().OpeningOf(KeyOf(epoch)) != opening) return;
    const auto open = state_.open_epochs().find(epoch);
    if (open == state_.open_epochs().end()) return;
    open->second->windows.Ended(window, status);
    for (const auto& [id, session] : open->second->sessions) wakes.Add(session->wake);
  }
  RunAll(wakes);
}

void Job::ListSharing(Session& session, std::shared_ptr<const std::atomic<bool>> shares_memory) {
  absl::MutexLock lock(&mutex_);
  session.shares_memory = std::move(shares_memory);
}

bool Job::WouldWait(const Session& session) const {
  absl::MutexLock lock(&mutex_);
  if (session.state != JobSession::State::kJoined)
    return session.state == JobSession::State::kJoining;
  const auto epoch = state_.EpochOf(session);
  if (!epoch.ok()) return false;
  const LeaseOutcome outcome = (*epoch)->table->Peek(session.id, session.max_in_flight);
  return outcome == LeaseOutcome::kTooManyInFlight || outcome == LeaseOutcome::kNotKnown ||
         (outcome == LeaseOutcome::kAllLeased && !session.ends_when_all_leased);
}

void Job::Leave(Session& session) {
  Wakes wakes;
  {
    absl::MutexLock lock(&mutex_);
    session.has_left = true;
    if (state_.Leave(session, wakes) && !committing_) {
      // If there is no memory for that now, Rest() does it later.
      RunWithinMemory(
          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { state_.RestIfIdle(session.key.epoch); });
    }
  }
  RunAll(wakes);
}

// --- What is done from outside.

absl::StatusOr<AcknowledgeResult> Job::Acknowledge(uint64_t epoch, SessionId session,
                                                   uint64_t generation,
                                                   absl::Span<const uint64_t> batches,
                                                   absl::Time now) {
  const auto operation =
      std::make_shared<AcknowledgeOperation>(KeyOf(epoch), session, generation, batches, now);
  NoteAcknowledging(epoch, session, batches.size(), 0);
  const absl::Status performed = Perform(operation);
  NoteAcknowledging(epoch, session, 0, batches.size());
  PH_RETURN_IF_ERROR(performed);
  return std::move(operation->result());
}

void Job::NoteAcknowledging(uint64_t epoch, SessionId session, size_t more, size_t fewer) {
  absl::MutexLock lock(&mutex_);
  const auto open = state_.open_epochs().find(epoch);
  if (open == state_.open_epochs().end()) return;
  const auto seat = open->second->sessions.find(session);
  if (seat == open->second->sessions.end()) return;
  size_t& number = seat->second->num_acknowledging;
  number += more;
  // The session may have come while the batches were being acknowledged.
  number -= std::min(number, fewer);
}

absl::StatusOr<std::string> Job::CursorAtStep(uint64_t epoch, uint64_t generation, uint64_t steps) {
  const EpochKey key = KeyOf(epoch);
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(CheckGeneration(state_.ledger(), key, generation));
  PH_ASSIGN_OR_RETURN(const OpenEpoch* const open, state_.Open(key));
  const Dealing& dealing = open->table->dealing();
  if (!dealing.sharing().ranked()) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", steps,
                     ": workers that are served as they come have no steps in "
                     "common; keep the cursor of the last acknowledgement"));
  }
  if (steps > dealing.queue_length(0)) {
    return absl::OutOfRangeError(absl::StrCat("step ", steps, ": generation ", generation, " has ",
                                              dealing.queue_length(0), " steps"));
  }
  const EpochState& state = *state_.ledger().Find(key);
  BatchSet done = state.base;
  done.InsertAll(dealing.BatchesOfSteps(steps));
  return CursorOf(state, done);
}

absl::Status Job::Forget() {
  const absl::Status status = Perform(std::make_shared<ForgetOperation>());
  next_.Clear();
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(absl::StrCat("job ", Quoted(name_), ": ", status.message()));
}

absl::StatusOr<size_t> Job::ForgetUnused(absl::Time now) {
  const auto operation = std::make_shared<ForgetOperation>(now);
  PH_RETURN_IF_ERROR(Perform(operation));
  if (IsForgotten()) next_.Clear();
  return operation->num_forgotten();
}

void Job::Expire(absl::Time now) {
  Wakes wakes;
  {
    absl::MutexLock lock(&mutex_);
    state_.HasMemoryOrLoses(wakes, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (const auto& [number, epoch] : state_.open_epochs()) {
        if (epoch->table->Expire(now) != 0) state_.TellWoken(*epoch, wakes);
      }
    });
  }
  RunAll(wakes);
}

absl::Time Job::NextExpiry() const {
  absl::MutexLock lock(&mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [number, epoch] : state_.open_epochs()) {
    next = std::min(next, epoch->table->NextExpiry());
  }
  return next;
}

namespace {

std::optional<Job::Opened> OpenedIn(const JobLedger& ledger, const EpochKey& key) {
  const EpochState* const state = ledger.Find(key);
  if (state == nullptr) return std::nullopt;
  return Job::Opened{state->identity, ledger.PlanOf(key), state->words, state->windows};
}

}  // namespace

std::optional<Job::Opened> OpenedWithPlanIn(
    const JobLedger& ledger, absl::string_view receipt,
    absl::FunctionRef<bool(const EpochIdentity&)> may_show) {
  for (const EpochKey& key : ledger.Epochs()) {
    const std::shared_ptr<const KeptPlan> plan = ledger.PlanOf(key);
    if (plan == nullptr || plan->receipt != receipt) continue;
    if (may_show(ledger.Find(key)->identity)) return OpenedIn(ledger, key);
  }
  return std::nullopt;
}

std::optional<Job::Opened> Job::OpenedAs(uint64_t epoch) const {
  absl::MutexLock lock(&mutex_);
  return OpenedIn(state_.ledger(), KeyOf(epoch));
}

absl::StatusOr<Job::Opened> Job::OpenedNear(uint64_t epoch) const {
  absl::MutexLock lock(&mutex_);
  std::optional<EpochKey> nearest;
  const auto distance = [epoch](const EpochKey& key) {
    return key.epoch > epoch ? key.epoch - epoch : epoch - key.epoch;
  };
  for (const EpochKey& key : state_.ledger().Epochs()) {
    // Ascending.
    if (!nearest || distance(key) <= distance(*nearest)) nearest = key;
  }
  if (nearest) return *OpenedIn(state_.ledger(), *nearest);
  return absl::NotFoundError(absl::StrCat("job ", Quoted(name_), ": has no epochs"));
}

std::optional<Job::Opened> Job::OpenedWithPlan(
    absl::string_view receipt, absl::FunctionRef<bool(const EpochIdentity&)> may_show) const {
  absl::MutexLock lock(&mutex_);
  return OpenedWithPlanIn(state_.ledger(), receipt, may_show);
}

absl::StatusOr<EpochProgress> Job::ProgressOf(const EpochIdentity& identity,
                                              const JoinRequest* worker) {
  EpochProgress progress = {identity.key, 0, 0, identity.num_batches()};
  absl::MutexLock lock(&mutex_);
  if (worker != nullptr) {
    PH_ASSIGN_OR_RETURN(JoinForecast forecast, ForecastJoin(state_.ledger(), identity, *worker));
    if (!forecast.starts) {
      PH_ASSIGN_OR_RETURN(const OpenEpoch* const open, state_.Open(identity.key));
      open->table->AddTo(forecast.share, worker->queue);
      if (!committing_) state_.RestIfIdle(identity.key.epoch);
    }
    progress.share = forecast.share;
  }
  const EpochState* const state = state_.ledger().Find(identity.key);
  if (state == nullptr) return progress;
  PH_RETURN_IF_ERROR(CheckSameEpoch(state->identity, identity, "request"));
  progress.generation = state->generation;
  progress.num_done = state->DoneWithoutPadding().size();
  progress.num_batches = state->ExpectedBatches();
  return progress;
}

std::vector<EpochSummary> Job::Epochs() const {
  absl::MutexLock lock(&mutex_);
  return state_.Summaries();
}

absl::StatusOr<JobSummary> Job::Summary(size_t max_epochs) const {
  JobSummary summary;
  summary.name = name_;
  summary.epochs = Epochs();
  summary.num_epochs = summary.epochs.size();
  if (summary.epochs.empty()) {
    return absl::NotFoundError(absl::StrCat("job ", Quoted(name_), ": has no epochs"));
  }
  for (const EpochSummary& epoch : summary.epochs) {
    summary.num_sessions += epoch.num_sessions;
    summary.used_seconds = std::max(summary.used_seconds, epoch.used_seconds);
  }
  if (summary.epochs.size() > max_epochs) summary.epochs.resize(max_epochs);
  return summary;
}

std::vector<SessionSummary> Job::Sessions() const {
  absl::MutexLock lock(&mutex_);
  std::vector<SessionSummary> sessions;
  for (const auto& [_, epoch] : state_.open_epochs()) {
    for (const auto& [id, session] : epoch->sessions) {
      sessions.push_back({session->key, id, session->client, session->queue, session->worker,
                          epoch->table->InFlight(id).size()});
    }
  }
  return sessions;
}

void Job::AddTo(DeliverySnapshot& snapshot) const {
  absl::MutexLock lock(&mutex_);
  state_.AddTo(snapshot);
}

std::vector<EpochWatch> Job::Watch() const {
  absl::MutexLock lock(&mutex_);
  return state_.Watch();
}

void Job::Rest() {
  bool is_idle = false;
  {
    absl::MutexLock lock(&mutex_);
    if (committing_) return;
    std::vector<uint64_t> open;
    for (const auto& [number, epoch] : state_.open_epochs()) open.push_back(number);
    for (const uint64_t number : open) state_.RestIfIdle(number);
    is_idle = state_.open_epochs().empty();
    is_idle = std::exchange(was_idle_, is_idle) && is_idle;
  }
  if (is_idle) next_.Clear();
}

size_t Job::num_open() const {
  absl::MutexLock lock(&mutex_);
  return state_.open_epochs().size();
}

JobLedger Job::ForkLedger() {
  absl::MutexLock lock(&mutex_);
  return state_.ForkLedger();
}

bool Job::IsForgotten() const {
  absl::MutexLock lock(&mutex_);
  return state_.ledger().empty() && queue_.empty() && !committing_;
}

bool Job::HasRecords() const {
  absl::MutexLock lock(&mutex_);
  return num_records_ != 0;
}

uint64_t Job::last_generation() const {
  absl::MutexLock lock(&mutex_);
  return state_.last_generation();
}

}  // namespace packhouse
