#include "service/engine/jobs/job_state.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/jobs/joining.h"

namespace packhouse {

JobState::JobState(std::string name, JobLedger ledger, const JobEnvironment* environment)
    : name_(std::move(name)), environment_(*environment), ledger_(std::move(ledger)) {
  if (environment_.memory == nullptr) return;
  auto held = environment_.memory->Hold("the ledger of a job", ledger_.bytes());
  // Without room, it counts from now on.
  if (!held.ok()) held = environment_.memory->Hold("the ledger of a job", 0);
  if (held.ok()) memory_ = *std::move(held);
}

void Wakes::Add(const std::function<void()>& wake) {
  if (!RunWithinMemory([&] { each.push_back(wake); })) all = true;
}

bool JobState::HasMemoryOrLoses(Wakes& wakes, absl::FunctionRef<void()> change) {
  if (RunWithinMemory(change)) return true;
  for (const auto& [number, epoch] : epochs_) {
    for (const auto& [id, session] : epoch->sessions) session->is_lost = true;
    closed_ = closed_ + epoch->earlier;
    if (epoch->table != nullptr) closed_ = closed_ + epoch->table->counters();
  }
  // Moves them without allocating.
  wakes.lost.merge(epochs_);
  epochs_.clear();
  open_bytes_ = 0;
  return false;
}

OpenEpoch& JobState::At(uint64_t epoch) {
  const auto found = epochs_.find(epoch);
  if (found == epochs_.end()) throw std::bad_alloc();
  return *found->second;
}

absl::StatusOr<MemoryHold> JobState::HoldDealing(const EpochIdentity& identity,
                                                 const Sharing& sharing) const {
  if (environment_.memory == nullptr) return MemoryHold();
  // Of windows, each rank group may have as many batches as there are items, and all together too.
  const uint64_t num_batches =
      identity.num_windows == 0 ? identity.num_batches() : identity.rank_groups[0].num_batches;
  return environment_.memory->Hold(
      "how an epoch of a job is dealt",
      Dealing::MostBytes(num_batches, identity.rank_groups.size(), sharing));
}

absl::Status JobState::Reserve(uint64_t bytes) {
  if (environment_.memory == nullptr) return absl::OkStatus();
  return memory_.Grow("the ledger and the leases of a job", bytes);
}

void JobState::GiveBackUnused() { memory_.ShrinkTo(ledger_.bytes() + open_bytes_); }

uint64_t JobState::TableBytes(const EpochState& state) {
  constexpr uint64_t kBytesPerQueue = 256;
  return 4096 +
         (state.identity.rank_groups.size() + state.sharing.rank_group_of_rank.size()) *
             kBytesPerQueue +
         (state.base.num_runs() + state.done.num_runs()) * kBytesPerRun;
}

void JobState::SetTable(OpenEpoch& epoch, std::unique_ptr<LeaseTable> table, uint64_t bytes) {
  open_bytes_ += bytes - epoch.table_bytes;
  epoch.table_bytes = bytes;
  epoch.table = std::move(table);
}

void JobState::CountTable(const EpochKey& key) {
  const EpochState* const state = ledger_.Find(key);
  const auto open = epochs_.find(key.epoch);
  if (state == nullptr || open == epochs_.end() || open->second->table == nullptr) return;
  const uint64_t bytes = TableBytes(*state);
  open_bytes_ += bytes - std::exchange(open->second->table_bytes, bytes);
}

absl::StatusOr<OpenEpoch*> JobState::Open(const EpochKey& key) {
  if (const auto found = epochs_.find(key.epoch); found != epochs_.end())
    return found->second.get();
  const EpochState* const state = ledger_.Find(key);
  if (state == nullptr) return NoSuchEpoch(ledger_, key);
  PH_RETURN_IF_ERROR(Reserve(TableBytes(*state)));
  PH_ASSIGN_OR_RETURN(MemoryHold held, HoldDealing(state->identity, state->sharing));
  PH_ASSIGN_OR_RETURN(Dealing dealing,
                      DealingOf(state->identity, state->windows, state->base, state->sharing));
  dealing.Keep(std::move(held));
  const auto resting = resting_.find(key.epoch);
  BatchSet sent;
  auto made = std::make_unique<OpenEpoch>();
  made->generation = state->generation;
  if (resting != resting_.end()) {
    if (resting->second.generation == state->generation) sent = resting->second.sent;
    made->used_seconds = resting->second.used_seconds;
  }
  auto table = std::make_unique<LeaseTable>(std::move(dealing), environment_.lease_duration,
                                            state->done, sent);
  OpenEpoch& epoch = *epochs_.emplace(key.epoch, std::move(made)).first->second;
  // From here on nothing takes memory.
  SetTable(epoch, std::move(table), TableBytes(*state));
  if (resting != resting_.end()) resting_.erase(resting);
  return &epoch;
}

void JobState::TellWoken(OpenEpoch& epoch, Wakes& wakes) {
  for (const SessionId id : epoch.table->TakeWoken()) {
    // A session that has left need not be told.
    const auto session = epoch.sessions.find(id);
    if (session != epoch.sessions.end()) wakes.Add(session->second->wake);
  }
}

void JobState::RetireTable(OpenEpoch& epoch, Wakes& wakes) {
  if (epoch.table == nullptr) return;
  for (const SessionId id : epoch.table->Waiting()) {
    const auto session = epoch.sessions.find(id);
    if (session != epoch.sessions.end()) wakes.Add(session->second->wake);
  }
  epoch.ended.clear();
  epoch.earlier = epoch.earlier + epoch.table->counters();
  SetTable(epoch, nullptr, 0);
}

void JobState::RestIfIdle(uint64_t epoch) {
  const auto found = epochs_.find(epoch);
  if (found == epochs_.end()) return;
  OpenEpoch& open = *found->second;
  if (!open.sessions.empty() || open.table->num_leased() != 0) return;
  RestingEpoch resting = {open.generation, open.table->Sent(), open.used_seconds};
  resting_[epoch] = std::move(resting);
  std::shared_ptr<LeaseTable> table(std::move(open.table));
  // From here on nothing takes memory.
  closed_ = closed_ + open.earlier + table->counters();
  SetTable(open, nullptr, 0);
  epochs_.erase(found);
  GiveBackUnused();
  // The table may be large, so another thread destroys it, if there is memory for that.
  environment_.executor([table = std::move(table)] {});
}

uint64_t JobState::UsedSeconds(const EpochState& state) const {
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

void JobState::Close(const EpochKey& key, Wakes& wakes) {
  resting_.erase(key.epoch);
  const auto found = epochs_.find(key.epoch);
  if (found == epochs_.end()) return;
  RetireTable(*found->second, wakes);
  closed_ = closed_ + found->second->earlier;
  epochs_.erase(found);
}

absl::StatusOr<OpenEpoch*> JobState::EpochOf(const JobSession& session) const {
  if (session.is_lost) {
    return absl::UnavailableError(absl::StrCat("epoch ", session.key.epoch, " of job ",
                                               Quoted(name_),
                                               ": there was no memory left for it; load again"));
  }
  const auto found = epochs_.find(session.key.epoch);
  // The job may have been deleted and begun anew.
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

bool JobState::IsLoaded(uint64_t epoch) const {
  const auto found = epochs_.find(epoch);
  return found != epochs_.end() && !found->second->sessions.empty();
}

void JobState::StartGeneration(uint64_t epoch, uint64_t generation, Dealing dealing,
                               uint64_t table_bytes, Wakes& wakes) {
  std::unique_ptr<OpenEpoch>& open = epochs_[epoch];
  if (open == nullptr) open = std::make_unique<OpenEpoch>();
  RetireTable(*open, wakes);
  resting_.erase(epoch);
  open->generation = generation;
  SetTable(*open, std::make_unique<LeaseTable>(std::move(dealing), environment_.lease_duration),
           table_bytes);
  ++num_generations_;
}

bool JobState::Leave(JobSession& session, Wakes& wakes) {
  const auto found = epochs_.find(session.key.epoch);
  // The caller holds the session, so this is not its last reference.
  if (found == epochs_.end() || found->second->sessions.erase(session.id) == 0) return false;
  HasMemoryOrLoses(wakes, [&] {
    LeaseTable& table = *found->second->table;
    if (session.has_ended) {
      table.SessionEnded(session.id);
      if (table.IsPresent(session.id)) found->second->ended[session.worker] = session.id;
    } else {
      table.SessionGone(session.id);
    }
    TellWoken(*found->second, wakes);
  });
  return true;
}

KeptSegments JobState::SegmentsOf(const EpochKey& key) const {
  const std::shared_ptr<const KeptPlan> plan = ledger_.PlanOf(key);
  if (plan == nullptr) return {};
  const auto found = segments_.find(plan->digest);
  if (found != segments_.end()) return found->second;
  if (segments_.size() >= kMostKnownSegments) segments_.clear();
  return segments_.emplace(plan->digest, packhouse::SegmentsOf(*plan)).first->second;
}

std::vector<EpochSummary> JobState::Summaries() const {
  std::vector<EpochSummary> summaries;
  for (const EpochKey& key : ledger_.Epochs()) {
    const EpochState& state = *ledger_.Find(key);
    EpochSummary summary;
    summary.progress = {key, state.generation, state.DoneWithoutPadding().size(),
                        state.ExpectedBatches()};
    summary.progress.segments = SegmentsOf(key);
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

SessionWait JobState::WaitOf(const OpenEpoch& epoch, const JobSession& session) {
  if (session.has_ended) return SessionWait::kNobody;
  return epoch.table->WaitOf(session.id, session.is_making, session.num_acknowledging);
}

EpochProgress JobState::ProgressOf(uint64_t number, const OpenEpoch& epoch) const {
  const EpochState& state = *ledger_.Find(KeyOf(number));
  EpochProgress progress = {
      KeyOf(number),           state.generation,       state.DoneWithoutPadding().size(),
      state.ExpectedBatches(), state.identity.dataset, SegmentsOf(KeyOf(number))};
  for (const auto& [id, session] : epoch.sessions) {
    const std::shared_ptr<const LoadableEpoch> loaded = session->epoch.lock();
    if (loaded == nullptr) continue;
    if (const auto steps = loaded->steps()) progress.step_efficiency = steps->efficiency;
    const std::optional<Company> company = loaded->known_company();
    if (company && company->of_shuffle > 0) progress.company = company->Ratio();
    break;
  }
  return progress;
}

void JobState::AddTo(DeliverySnapshot& snapshot) const {
  snapshot.totals = snapshot.totals + closed_;
  snapshot.num_generations += num_generations_;
  for (const auto& [number, epoch] : epochs_) {
    snapshot.totals = snapshot.totals + epoch->earlier + epoch->table->counters();
    SessionCounts& counts = snapshot.jobs[KeyOf(number).job];
    counts.num_sessions += epoch->sessions.size();
    counts.num_in_flight += epoch->table->num_leased();
    for (const auto& [id, session] : epoch->sessions) {
      const SessionWait wait = WaitOf(*epoch, *session);
      counts.num_starved += wait == SessionWait::kWorker ? 1 : 0;
      counts.num_awaited += wait == SessionWait::kServer ? 1 : 0;
    }
    if (!epoch->sessions.empty()) snapshot.progress.push_back(ProgressOf(number, *epoch));
  }
}

std::vector<EpochWatch> JobState::Watch() const {
  std::vector<EpochWatch> watched;
  for (const auto& [number, epoch] : epochs_) {
    if (epoch->sessions.empty()) continue;
    EpochWatch& watch = watched.emplace_back();
    watch.progress = ProgressOf(number, *epoch);
    watch.counters = epoch->earlier;
    std::vector<SessionId> sessions;
    epoch->table->AddTo(watch, sessions);
    for (size_t i = 0; i < sessions.size(); ++i) {
      const auto session = epoch->sessions.find(sessions[i]);
      if (session == epoch->sessions.end()) continue;
      watch.workers[i].worker = session->second->worker;
      watch.workers[i].wait = WaitOf(*epoch, *session->second);
      const auto& shares_memory = session->second->shares_memory;
      watch.workers[i].shares_memory = shares_memory != nullptr && *shares_memory;
    }
  }
  return watched;
}

}  // namespace packhouse
