#include "service/delivery/job.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

void RunAll(const std::vector<std::function<void()>>& wakes) {
  for (const auto& wake : wakes) wake();
}

}  // namespace

class Job::Session {
 public:
  Session(EpochKey of_epoch, SessionId number, const JoinRequest& request, size_t most_in_flight,
          std::function<void()> to_wake, std::shared_ptr<const void> pinned)
      : key(std::move(of_epoch)),
        id(number),
        lane(request.lane),
        reader(request.reader),
        worker(request.worker),
        ends_when_all_leased(request.ends_when_all_leased),
        max_in_flight(most_in_flight),
        wake(std::move(to_wake)),
        pin(std::move(pinned)) {}

  const EpochKey key;
  const SessionId id;
  const uint32_t lane;
  const Reader reader;
  const std::string worker;
  const bool ends_when_all_leased;
  const size_t max_in_flight;
  const std::function<void()> wake;
  const std::shared_ptr<const void> pin;

  // Guarded by the job's mutex.
  enum class State { kJoining, kJoined, kRefused };
  State state = State::kJoining;
  bool has_left = false;
  bool has_ended = false;
  bool waits_for_join = false;
  absl::Status refusal;  // kRefused.
  LoadStart start;       // kJoined.
};

struct Job::Pending {
  JobLedger ledger;
  std::vector<std::string> records;
  bool changed = false;
  // Epochs that somebody joins, and those of which somebody starts a generation.
  std::set<EpochKey> joined;
  std::set<EpochKey> started;

  // Events that were planned against `ledger` fit it: an error is a defect.
  absl::Status Add(const LedgerEvent& event) {
    const absl::Status status = ledger.Apply(event);
    if (!status.ok()) {
      return absl::InternalError(absl::StrCat("planned, and does not fit: ", status.message()));
    }
    records.push_back(EncodeEvent(event));
    changed = true;
    return absl::OkStatus();
  }
};

// All but `status` after the end is touched by the thread that commits, with the job's mutex.
struct Job::Operation {
  explicit Operation(bool somebody_waits) : is_awaited(somebody_waits) {}
  virtual ~Operation() = default;

  // Adds what is to be made durable to `pending`. An error: it does not happen.
  virtual absl::Status Plan(Job& job, Pending& pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) = 0;
  // Once it is in the ledger.
  virtual void Apply(Job& job, Wakes& wakes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) = 0;
  // Planned, but the log refused it.
  virtual void Undo(Job& /*job*/) {}
  // With its status, after all else.
  virtual void Answer(Wakes& /*wakes*/) {}

  // Whether a thread waits for it in Perform(), and would commit it.
  const bool is_awaited;
  // Whether its status rests on changes that are not durable yet.
  bool is_tentative = false;
  bool done = false;  // Guarded by the job's mutex.
  absl::Status status;
};

struct Job::JoinOperation final : Operation {
  JoinOperation(EpochIdentity of_epoch, JoinRequest join, std::shared_ptr<Session> joining)
      : Operation(/*somebody_waits=*/false),
        identity(std::move(of_epoch)),
        request(std::move(join)),
        session(std::move(joining)) {}

  absl::Status Plan(Job& job, Pending& pending) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    if (session->has_left) return absl::CancelledError("load: its stream has ended");
    LedgerWriter& writer = *job.environment_.writer;
    if (request.cursor && request.cursor->generation > LedgerWriter::kMaxNamedGeneration &&
        request.cursor->generation > writer.last_generation()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cursor: is of generation ", request.cursor->generation, ", which no server has given"));
    }
    const EpochState* const before = pending.ledger.Find(identity.key);
    uint64_t bytes = kJoinBytes;
    if (before != nullptr) bytes += before->Bytes();
    if (request.cursor) bytes += 2 * request.cursor->done.num_runs() * kBytesPerRun;
    bytes += request.sharing.rank_group_of_rank.size() * sizeof(uint32_t);
    // A new generation's table, and until then the dealing.
    bytes += 4096 + identity.num_batches() * sizeof(uint32_t) +
             (identity.rank_groups.size() + request.sharing.rank_group_of_rank.size()) * 256 +
             2 * (before == nullptr ? 0 : before->done.num_runs()) * kBytesPerRun;
    PH_RETURN_IF_ERROR(job.Reserve(bytes));
    PH_ASSIGN_OR_RETURN(plan, PlanJoin(pending.ledger, identity, request, [&](uint64_t above) {
                          return writer.DrawGeneration(above);
                        }));
    // A generation that a join before this one starts, that one will open.
    if (!plan.starts && !pending.started.contains(identity.key)) {
      PH_RETURN_IF_ERROR(job.Open(identity.key).status());
    }
    if (plan.opens) PH_RETURN_IF_ERROR(TakeQuota(job, pending));
    for (const EpochKey& key : forgotten) PH_RETURN_IF_ERROR(pending.Add(EpochForgotten{key}));
    for (const LedgerEvent& event : plan.events) {
      if (const auto* const later = std::get_if<EpochForgotten>(&event)) {
        rolled_back.emplace_back(later->epoch, pending.ledger.Find(later->epoch)->client);
      }
      PH_RETURN_IF_ERROR(pending.Add(event));
    }
    pending.joined.insert(identity.key);
    if (plan.starts) pending.started.insert(identity.key);
    const EpochState& state = *pending.ledger.Find(identity.key);
    if (plan.starts) table_bytes = TableBytes(state);
    start.session = session->id;
    start.join = {state.generation, plan.starts.has_value(), CursorOf(state, state.base)};
    start.progress = {identity.key, state.generation, state.DoneWithoutPadding().size(),
                      identity.num_batches()};
    return absl::OkStatus();
  }

  // Of an epoch's state, without what is counted.
  static constexpr uint64_t kJoinBytes = 16 << 10;

  // Finished epochs beyond those that are kept make room.
  absl::Status TakeQuota(Job& job, const Pending& pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    EpochQuota& quota = *job.environment_.quota;
    for (const EpochKey& key : pending.ledger.Epochs()) {
      if (key == identity.key || pending.joined.contains(key)) continue;
      const auto open = job.epochs_.find(key.epoch);
      if (open != job.epochs_.end() && !open->second->sessions.empty()) continue;
      if (pending.ledger.Find(key)->finished()) forgotten.push_back(key);
    }
    // Ascending: the oldest first.
    forgotten.resize(forgotten.size() -
                     std::min(forgotten.size(), job.environment_.kept_finished_epochs));
    for (const EpochKey& key : forgotten) {
      given_back.push_back(pending.ledger.Find(key)->client);
      quota.GiveBack(given_back.back());
    }
    const absl::Status taken = quota.Take(request.client);
    has_quota = taken.ok();
    if (taken.ok()) return taken;
    for (const ClientId& client : given_back) quota.TakeAnyway(client);
    given_back.clear();
    return taken;
  }

  void Apply(Job& job, Wakes& wakes) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    for (const EpochKey& key : forgotten) job.Close(key, wakes);
    if (plan.starts) {
      std::unique_ptr<OpenEpoch>& epoch = job.epochs_[identity.key.epoch];
      if (epoch == nullptr) epoch = std::make_unique<OpenEpoch>();
      job.RetireTable(*epoch, wakes);
      job.resting_.erase(identity.key.epoch);
      epoch->generation = start.join.generation;
      job.SetTable(
          *epoch,
          std::make_unique<LeaseTable>(*std::move(plan.starts), job.environment_.lease_duration),
          table_bytes);
      ++job.num_generations_;
    }
    // Rolled back, a job forgets its later epochs.
    for (const auto& [key, client] : rolled_back) {
      job.Close(key, wakes);
      job.environment_.quota->GiveBack(client);
    }
    OpenEpoch& epoch = *job.epochs_.at(identity.key.epoch);
    epoch.used_seconds = std::max(epoch.used_seconds, SecondsOf(request.now));
    LeaseTable& table = *epoch.table;
    start.dealing = table.shared_dealing();
    if (status = table.Join(session->id, session->lane, session->reader); status.ok()) {
      start.num_steps = table.NumStepsOf(session->lane, session->reader);
      start.num_steps_done = start.num_steps - table.NumLeftOf(session->lane, session->reader);
      if (const auto ended = epoch.ended.find(session->worker); ended != epoch.ended.end()) {
        table.SessionGone(ended->second);
        epoch.ended.erase(ended);
      }
      if (session->has_left) {
        table.SessionGone(session->id);
      } else {
        epoch.sessions.emplace(session->id, session);
      }
    }
    job.TellWoken(epoch, wakes);
  }

  void Undo(Job& job) override {
    EpochQuota& quota = *job.environment_.quota;
    if (has_quota) quota.GiveBack(request.client);
    for (const ClientId& client : given_back) quota.TakeAnyway(client);
  }

  void Answer(Wakes& wakes) override {
    session->state = status.ok() ? Session::State::kJoined : Session::State::kRefused;
    session->refusal = status;
    session->start = std::move(start);
    if (std::exchange(session->waits_for_join, false)) wakes.push_back(session->wake);
  }

  const EpochIdentity identity;
  const JoinRequest request;
  const std::shared_ptr<Session> session;

  JoinPlan plan;
  // Finished epochs that are forgotten to make room, and whose they were.
  std::vector<EpochKey> forgotten;
  std::vector<ClientId> given_back;
  bool has_quota = false;
  // Later epochs that are forgotten, and whose they are.
  std::vector<std::pair<EpochKey, ClientId>> rolled_back;
  uint64_t table_bytes = 0;
  LoadStart start;
};

struct Job::AcknowledgeOperation final : Operation {
  AcknowledgeOperation(EpochKey of_epoch, SessionId sender, uint64_t of_generation,
                       absl::Span<const uint64_t> acknowledged, absl::Time received)
      : Operation(/*somebody_waits=*/true),
        key(std::move(of_epoch)),
        session(sender),
        generation(of_generation),
        batches(acknowledged),
        now(received) {}

  absl::Status Plan(Job& job, Pending& pending) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    PH_RETURN_IF_ERROR(CheckGeneration(pending.ledger, key, generation));
    // A generation that is about to start has not been told to anybody.
    PH_RETURN_IF_ERROR(CheckGeneration(job.ledger_, key, generation));
    PH_ASSIGN_OR_RETURN(const OpenEpoch* const epoch, job.Open(key));
    PH_RETURN_IF_ERROR(epoch->table->CheckDealt(batches));
    const EpochState* state = pending.ledger.Find(key);
    PH_RETURN_IF_ERROR(job.Reserve(state->Bytes() + batches.size() * 2 * kBytesPerRun));
    BatchesAcknowledged event = {key, generation, {}};
    for (const uint64_t batch : batches) {
      if (!state->done.Contains(batch)) event.batches.Insert(batch);
    }
    result.num_new = event.batches.size();
    PH_RETURN_IF_ERROR(CheckRuns(*state, event.batches));
    const std::optional<EpochUsed> use = UseToWrite(*state, now);
    if (!event.batches.empty()) PH_RETURN_IF_ERROR(pending.Add(event));
    if (use) PH_RETURN_IF_ERROR(pending.Add(*use));
    state = pending.ledger.Find(key);
    result.cursor = CursorOf(*state, state->DoneWithoutPadding());
    return absl::OkStatus();
  }

  static absl::Status CheckRuns(const EpochState& state, const BatchSet& added) {
    if (state.done.num_runs() + added.num_runs() <= kMaxRuns) return absl::OkStatus();
    BatchSet all = state.done;
    all.InsertAll(added);
    if (all.num_runs() <= std::max(kMaxRuns, state.done.num_runs())) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "batches: what is done of the epoch would have ", all.num_runs(),
        " runs with gaps between them, at most ", kMaxRuns, "; acknowledge those that came first"));
  }

  void Apply(Job& job, Wakes& wakes) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    OpenEpoch& epoch = *job.epochs_.at(key.epoch);
    epoch.used_seconds = std::max(epoch.used_seconds, SecondsOf(now));
    epoch.table->Acknowledge(session, batches, now);
    job.TellWoken(epoch, wakes);
  }

  const EpochKey key;
  const SessionId session;
  const uint64_t generation;
  const absl::Span<const uint64_t> batches;
  const absl::Time now;

  AcknowledgeResult result;
};

struct Job::ForgetOperation final : Operation {
  // All, or those that nobody has used for long.
  explicit ForgetOperation(std::optional<absl::Time> unused_by)
      : Operation(/*somebody_waits=*/true), unused_at(unused_by) {}

  absl::Status Plan(Job& job, Pending& pending) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    return unused_at ? PlanUnused(job, pending, *unused_at) : PlanAll(pending);
  }

  absl::Status PlanAll(Pending& pending) {
    const std::vector<EpochKey> epochs = pending.ledger.Epochs();
    std::vector<EpochKey> expired = pending.ledger.Expired();
    if (epochs.empty() && expired.empty()) return absl::NotFoundError("has no epochs");
    for (const EpochKey& key : epochs) PH_RETURN_IF_ERROR(Forget(pending, EpochForgotten{key}));
    for (EpochKey& key : expired) {
      PH_RETURN_IF_ERROR(pending.Add(EpochForgotten{std::move(key)}));
    }
    return absl::OkStatus();
  }

  absl::Status PlanUnused(Job& job, Pending& pending, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    const absl::Duration retention = job.environment_.epoch_retention;
    if (retention == absl::InfiniteDuration()) return absl::OkStatus();
    const uint64_t seconds = SecondsOf(now);
    const auto kept = static_cast<uint64_t>(absl::ToInt64Seconds(retention));
    for (const EpochKey& key : pending.ledger.Epochs()) {
      const EpochState& state = *pending.ledger.Find(key);
      const auto open = job.epochs_.find(key.epoch);
      const bool is_loaded = open != job.epochs_.end() && !open->second->sessions.empty();
      if (pending.joined.contains(key) || is_loaded) continue;
      if (state.used_seconds == 0) {
        PH_RETURN_IF_ERROR(pending.Add(EpochUsed{key, seconds}));
        continue;
      }
      if (seconds < job.UsedSeconds(state) + kept) continue;
      PH_RETURN_IF_ERROR(Forget(pending, EpochExpired{key, state.generation, seconds}));
    }
    // At any time no more of them than there were epochs so long ago: what has been forgotten
    // since was remembered then.
    if (seconds > kept) {
      pending.ledger.DropExpired(seconds - kept);
      pending.changed = true;
    }
    return absl::OkStatus();
  }

  template <typename Event>
  absl::Status Forget(Pending& pending, const Event& event) {
    const ClientId client = pending.ledger.Find(event.epoch)->client;
    PH_RETURN_IF_ERROR(pending.Add(event));
    forgotten.emplace_back(event.epoch, client);
    return absl::OkStatus();
  }

  void Apply(Job& job, Wakes& wakes) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(job.mutex_) {
    for (const auto& [key, client] : forgotten) {
      job.Close(key, wakes);
      job.environment_.quota->GiveBack(client);
    }
  }

  const std::optional<absl::Time> unused_at;
  // And whose they were.
  std::vector<std::pair<EpochKey, ClientId>> forgotten;
};

// --- The commit queue.

bool Job::NeedsCommitter() {
  if (committing_ || committer_called_ || queue_.empty()) return false;
  // Whoever awaits an operation commits all that are there.
  const bool is_awaited =
      std::any_of(queue_.begin(), queue_.end(), [](const auto& one) { return one->is_awaited; });
  if (is_awaited) return false;
  committer_called_ = true;
  return true;
}

void Job::CommitIfNobodyDoes() {
  {
    absl::MutexLock lock(&mutex_);
    committer_called_ = false;
    if (committing_ || queue_.empty()) return;
    committing_ = true;
  }
  CommitQueued();
}

absl::Status Job::Perform(const std::shared_ptr<Operation>& operation) {
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
  std::vector<std::shared_ptr<Operation>> operations;
  Pending pending;
  {
    absl::MutexLock lock(&mutex_);
    operations.swap(queue_);
    pending.ledger = ledger_.Fork();
    for (const auto& one : operations) {
      one->is_tentative = pending.changed;
      one->status = one->Plan(*this, pending);
    }
  }
  Wakes wakes;
  const auto apply = [&] {
    absl::MutexLock lock(&mutex_);
    if (pending.changed) std::swap(ledger_, pending.ledger);
    for (const auto& one : operations) {
      if (one->status.ok()) one->Apply(*this, wakes);
    }
  };
  absl::Status written;
  if (pending.records.empty()) {
    apply();
  } else {
    written = environment_.writer->Write(pending.records, apply);
  }
  bool needs_committer = false;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& one : operations) {
      if (!written.ok() && one->status.ok()) one->Undo(*this);
      if (!written.ok() && (one->status.ok() || one->is_tentative)) one->status = written;
      one->Answer(wakes);
      one->done = true;
    }
    committing_ = false;
    GiveBackUnused();
    needs_committer = NeedsCommitter();
  }
  RunAll(wakes);
  if (needs_committer) {
    environment_.executor([self = shared_from_this()] { self->CommitIfNobodyDoes(); });
  }
}

// --- Epochs in memory.

Job::Job(std::string name, JobLedger ledger, const Environment* environment)
    : name_(std::move(name)), environment_(*environment), ledger_(std::move(ledger)) {
  if (environment_.memory == nullptr) return;
  absl::MutexLock lock(&mutex_);
  auto held = environment_.memory->Hold("the ledger of a job", ledger_.bytes());
  // Without room it counts from now on.
  if (!held.ok()) held = environment_.memory->Hold("the ledger of a job", 0);
  if (held.ok()) memory_ = *std::move(held);
}

absl::Status Job::Reserve(uint64_t bytes) {
  if (environment_.memory == nullptr) return absl::OkStatus();
  return memory_.Grow("the ledger and the leases of a job", bytes);
}

void Job::GiveBackUnused() {
  if (!committing_) memory_.ShrinkTo(ledger_.bytes() + open_bytes_);
}

uint64_t Job::TableBytes(const EpochState& state) {
  constexpr uint64_t kBytesPerLane = 256;
  return 4096 + state.identity.num_batches() * sizeof(uint32_t) +
         (state.identity.rank_groups.size() + state.sharing.rank_group_of_rank.size()) *
             kBytesPerLane +
         (state.base.num_runs() + state.done.num_runs()) * kBytesPerRun;
}

void Job::SetTable(OpenEpoch& epoch, std::unique_ptr<LeaseTable> table, uint64_t bytes) {
  open_bytes_ += bytes - epoch.table_bytes;
  epoch.table_bytes = bytes;
  epoch.table = std::move(table);
}

absl::StatusOr<Job::OpenEpoch*> Job::Open(const EpochKey& key) {
  if (const auto found = epochs_.find(key.epoch); found != epochs_.end())
    return found->second.get();
  const EpochState* const state = ledger_.Find(key);
  if (state == nullptr) return NoSuchEpoch(ledger_, key);
  PH_RETURN_IF_ERROR(Reserve(TableBytes(*state)));
  PH_ASSIGN_OR_RETURN(Dealing dealing, Dealing::Create(state->identity.first_batches(), state->base,
                                                       state->sharing));
  auto epoch = std::make_unique<OpenEpoch>();
  epoch->generation = state->generation;
  BatchSet sent;
  if (const auto resting = resting_.find(key.epoch); resting != resting_.end()) {
    if (resting->second.generation == state->generation) sent = std::move(resting->second.sent);
    epoch->used_seconds = resting->second.used_seconds;
    resting_.erase(resting);
  }
  SetTable(*epoch,
           std::make_unique<LeaseTable>(std::move(dealing), environment_.lease_duration,
                                        state->done, sent),
           TableBytes(*state));
  return epochs_.emplace(key.epoch, std::move(epoch)).first->second.get();
}

void Job::TellWoken(OpenEpoch& epoch, Wakes& wakes) {
  for (const SessionId id : epoch.table->TakeWoken()) {
    // Whoever has left need not be told.
    const auto session = epoch.sessions.find(id);
    if (session != epoch.sessions.end()) wakes.push_back(session->second->wake);
  }
}

void Job::RetireTable(OpenEpoch& epoch, Wakes& wakes) {
  if (epoch.table == nullptr) return;
  for (const SessionId id : epoch.table->Waiting()) {
    const auto session = epoch.sessions.find(id);
    if (session != epoch.sessions.end()) wakes.push_back(session->second->wake);
  }
  epoch.ended.clear();
  epoch.earlier = epoch.earlier + epoch.table->counters();
  SetTable(epoch, nullptr, 0);
}

void Job::RestIfIdle(uint64_t epoch) {
  const auto found = epochs_.find(epoch);
  // What is being committed may have been planned against its table.
  if (found == epochs_.end() || committing_) return;
  OpenEpoch& open = *found->second;
  if (!open.sessions.empty() || open.table->num_leased() != 0) return;
  closed_ = closed_ + open.earlier + open.table->counters();
  resting_[epoch] = {open.generation, open.table->Sent(), open.used_seconds};
  // It may be large.
  environment_.executor([table = std::shared_ptr<LeaseTable>(std::move(open.table))] {});
  SetTable(open, nullptr, 0);
  epochs_.erase(found);
  GiveBackUnused();
}

uint64_t Job::UsedSeconds(const EpochState& state) const {
  uint64_t used = state.used_seconds;
  const uint64_t epoch = state.identity.key.epoch;
  if (const auto open = epochs_.find(epoch); open != epochs_.end()) {
    used = std::max(used, open->second->used_seconds);
  }
  if (const auto resting = resting_.find(epoch); resting != resting_.end()) {
    used = std::max(used, resting->second.used_seconds);
  }
  return used;
}

void Job::Rest() {
  absl::MutexLock lock(&mutex_);
  std::vector<uint64_t> open;
  for (const auto& [number, epoch] : epochs_) open.push_back(number);
  for (const uint64_t number : open) RestIfIdle(number);
}

size_t Job::num_open() const {
  absl::MutexLock lock(&mutex_);
  return epochs_.size();
}

void Job::Close(const EpochKey& key, Wakes& wakes) {
  resting_.erase(key.epoch);
  const auto found = epochs_.find(key.epoch);
  if (found == epochs_.end()) return;
  RetireTable(*found->second, wakes);
  closed_ = closed_ + found->second->earlier;
  epochs_.erase(found);
}

// --- Sessions.

std::shared_ptr<Job::Session> Job::StartJoin(const EpochIdentity& identity, JoinRequest request,
                                             SessionId id, size_t max_in_flight,
                                             std::function<void()> wake,
                                             std::shared_ptr<const void> pin) {
  auto session = std::make_shared<Session>(identity.key, id, request, max_in_flight,
                                           std::move(wake), std::move(pin));
  auto operation = std::make_shared<JoinOperation>(identity, std::move(request), session);
  bool needs_committer = false;
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(operation));
    needs_committer = NeedsCommitter();
  }
  if (needs_committer) {
    environment_.executor([self = shared_from_this()] { self->CommitIfNobodyDoes(); });
  }
  return session;
}

absl::StatusOr<std::optional<LoadStart>> Job::Started(Session& session, bool may_wait) {
  absl::MutexLock lock(&mutex_);
  switch (session.state) {
    case Session::State::kJoining:
      session.waits_for_join |= may_wait;
      return std::nullopt;
    case Session::State::kRefused:
      return session.refusal;
    case Session::State::kJoined:
      return session.start;
  }
  return absl::InternalError("not reached");
}

void Job::AwaitStarted(const Session& session) const {
  const auto is_answered = [&] { return session.state != Session::State::kJoining; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&is_answered));
}

absl::StatusOr<Job::OpenEpoch*> Job::EpochOf(const Session& session) const {
  const auto found = epochs_.find(session.key.epoch);
  // A job may have been deleted and begun anew.
  if (found == epochs_.end() || !found->second->sessions.contains(session.id)) {
    return absl::NotFoundError(
        absl::StrCat("epoch ", session.key.epoch, " of job ", Quoted(name_),
                     ": was deleted, or its job has gone back to an earlier epoch"));
  }
  OpenEpoch& epoch = *found->second;
  if (!epoch.table->IsPresent(session.id)) {
    return absl::FailedPreconditionError(
        absl::StrCat("session ", session.id, ": has no part in generation ", epoch.generation,
                     " of epoch ", session.key.epoch, " of job ", Quoted(name_),
                     ": its rank has a newer stream, or workers have restarted from a cursor"));
  }
  return &epoch;
}

absl::StatusOr<Offer> Job::Next(Session& session, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  PH_ASSIGN_OR_RETURN(OpenEpoch* const epoch, EpochOf(session));
  epoch->used_seconds = std::max(epoch->used_seconds, SecondsOf(now));
  Offer offer;
  static_cast<Lease&>(offer) = epoch->table->Next(session.id, session.max_in_flight, now);
  offer.ends = offer.outcome == LeaseOutcome::kFinished;
  if (session.ends_when_all_leased && offer.outcome == LeaseOutcome::kAllLeased) {
    session.has_ended = true;
    offer.ends = true;
    offer.num_pending = epoch->table->NumLeft(session.lane);
  }
  return offer;
}

bool Job::WouldWait(const Session& session) const {
  absl::MutexLock lock(&mutex_);
  if (session.state != Session::State::kJoined) return session.state == Session::State::kJoining;
  const auto epoch = EpochOf(session);
  if (!epoch.ok()) return false;
  const LeaseOutcome outcome = (*epoch)->table->Peek(session.id, session.max_in_flight);
  return outcome == LeaseOutcome::kTooManyInFlight ||
         (outcome == LeaseOutcome::kAllLeased && !session.ends_when_all_leased);
}

void Job::Leave(Session& session) {
  Wakes wakes;
  {
    absl::MutexLock lock(&mutex_);
    session.has_left = true;
    const auto found = epochs_.find(session.key.epoch);
    // The caller holds the session: what goes here is not its last.
    if (found != epochs_.end() && found->second->sessions.erase(session.id) != 0) {
      LeaseTable& table = *found->second->table;
      if (session.has_ended) {
        table.SessionEnded(session.id);
        if (table.IsPresent(session.id)) found->second->ended[session.worker] = session.id;
      } else {
        table.SessionGone(session.id);
      }
      TellWoken(*found->second, wakes);
      RestIfIdle(session.key.epoch);
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
  PH_RETURN_IF_ERROR(Perform(operation));
  return std::move(operation->result);
}

absl::StatusOr<std::string> Job::CursorAtStep(uint64_t epoch, uint64_t generation, uint64_t steps) {
  const EpochKey key = KeyOf(epoch);
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(CheckGeneration(ledger_, key, generation));
  PH_ASSIGN_OR_RETURN(const OpenEpoch* const open, Open(key));
  const Dealing& dealing = open->table->dealing();
  if (!dealing.sharing().ranked()) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", steps,
                     ": workers that are served as they come have no steps in "
                     "common; keep the cursor of the last acknowledgement"));
  }
  if (steps > dealing.lane_length(0)) {
    return absl::OutOfRangeError(absl::StrCat("step ", steps, ": generation ", generation, " has ",
                                              dealing.lane_length(0), " steps"));
  }
  const EpochState& state = *ledger_.Find(key);
  BatchSet done = state.base;
  done.InsertAll(dealing.BatchesOfSteps(steps));
  return CursorOf(state, done);
}

absl::Status Job::Forget() {
  const absl::Status status = Perform(std::make_shared<ForgetOperation>(std::nullopt));
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(absl::StrCat("job ", Quoted(name_), ": ", status.message()));
}

absl::StatusOr<size_t> Job::ForgetUnused(absl::Time now) {
  const auto operation = std::make_shared<ForgetOperation>(now);
  PH_RETURN_IF_ERROR(Perform(operation));
  return operation->forgotten.size();
}

void Job::Expire(absl::Time now) {
  Wakes wakes;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [number, epoch] : epochs_) {
      if (epoch->table->Expire(now) != 0) TellWoken(*epoch, wakes);
    }
  }
  RunAll(wakes);
}

absl::Time Job::NextExpiry() const {
  absl::MutexLock lock(&mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [number, epoch] : epochs_) {
    next = std::min(next, epoch->table->NextExpiry());
  }
  return next;
}

std::optional<EpochIdentity> Job::IdentityOf(uint64_t epoch) const {
  absl::MutexLock lock(&mutex_);
  const EpochState* const state = ledger_.Find(KeyOf(epoch));
  if (state == nullptr) return std::nullopt;
  return state->identity;
}

absl::StatusOr<EpochProgress> Job::ProgressOf(const EpochIdentity& identity) const {
  EpochProgress progress = {identity.key, 0, 0, identity.num_batches()};
  absl::MutexLock lock(&mutex_);
  const EpochState* const state = ledger_.Find(identity.key);
  if (state == nullptr) return progress;
  PH_RETURN_IF_ERROR(CheckSameEpoch(state->identity, identity, "request"));
  progress.generation = state->generation;
  progress.num_done = state->DoneWithoutPadding().size();
  return progress;
}

std::vector<EpochSummary> Job::Epochs() const {
  std::vector<EpochSummary> summaries;
  absl::MutexLock lock(&mutex_);
  for (const EpochKey& key : ledger_.Epochs()) {
    const EpochState& state = *ledger_.Find(key);
    EpochSummary summary;
    summary.progress = {key, state.generation, state.DoneWithoutPadding().size(),
                        state.identity.num_batches()};
    summary.dataset = state.identity.dataset;
    summary.client = state.client;
    summary.used_seconds = UsedSeconds(state);
    if (const auto open = epochs_.find(key.epoch); open != epochs_.end()) {
      summary.num_sessions = open->second->sessions.size();
    }
    summaries.push_back(std::move(summary));
  }
  std::reverse(summaries.begin(), summaries.end());
  return summaries;
}

void Job::AddTo(DeliverySnapshot& snapshot) const {
  absl::MutexLock lock(&mutex_);
  snapshot.totals = snapshot.totals + closed_;
  snapshot.num_generations += num_generations_;
  for (const auto& [number, epoch] : epochs_) {
    snapshot.totals = snapshot.totals + epoch->earlier + epoch->table->counters();
    snapshot.num_sessions += epoch->sessions.size();
    snapshot.num_in_flight += epoch->table->num_leased();
    if (epoch->sessions.empty()) continue;
    const EpochState& state = *ledger_.Find(KeyOf(number));
    snapshot.progress.push_back({KeyOf(number), state.generation, state.DoneWithoutPadding().size(),
                                 state.identity.num_batches()});
  }
}

JobLedger Job::ForkLedger() {
  absl::MutexLock lock(&mutex_);
  return ledger_.Fork();
}

bool Job::IsForgotten() const {
  absl::MutexLock lock(&mutex_);
  return ledger_.empty() && queue_.empty() && !committing_;
}

}  // namespace packhouse
