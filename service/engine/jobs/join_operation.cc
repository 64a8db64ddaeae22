#include "service/engine/jobs/join_operation.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/epoch_quota.h"
#include "service/engine/jobs/joining.h"

namespace packhouse {
namespace {

// Bytes of an epoch's state, without the counted parts.
constexpr uint64_t kJoinBytes = 16 << 10;

}  // namespace

absl::Status JoinOperation::Plan(JobState& job, PendingChanges& pending) {
  if (session_->has_left) return absl::CancelledError("load: its stream has ended");
  if (request_.cursor && request_.cursor->generation > kMaxNamedGeneration &&
      request_.cursor->generation > job.last_generation()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cursor: is of generation ", request_.cursor->generation, ", which no server has given"));
  }
  const EpochState* const before = pending.ledger.Find(identity_.key);
  uint64_t bytes = kJoinBytes;
  if (before != nullptr) bytes += before->Bytes();
  if (request_.cursor) bytes += 2 * request_.cursor->done.num_runs() * kBytesPerRun;
  bytes += request_.sharing.rank_group_of_rank.size() * sizeof(uint32_t);
  // Twice in the ledger, in the answer and in events.
  bytes += 4 * sizeof(uint32_t) *
           (request_.windows.size() + (request_.cursor ? request_.cursor->windows.size() : 0));
  // A new generation's table.
  bytes += 4096 +
           (identity_.rank_groups.size() + request_.sharing.rank_group_of_rank.size()) * 256 +
           2 * (before == nullptr ? 0 : before->done.num_runs()) * kBytesPerRun;
  if (request_.plan != nullptr && !pending.ledger.HasPlan(request_.plan->digest)) {
    bytes += JobLedger::BytesOf(*request_.plan);
  }
  PH_RETURN_IF_ERROR(job.Reserve(bytes));
  PH_ASSIGN_OR_RETURN(MemoryHold dealing, job.HoldDealing(identity_, request_.sharing));
  PH_ASSIGN_OR_RETURN(plan_, PlanJoin(pending.ledger, identity_, request_,
                                      [&](uint64_t above) { return job.DrawGeneration(above); }));
  if (plan_.starts) plan_.starts->Keep(std::move(dealing));
  // If an earlier join starts the generation, that join opens it.
  if (!plan_.starts && !pending.started.contains(identity_.key)) {
    PH_RETURN_IF_ERROR(job.Open(identity_.key).status());
  }
  for (const LedgerEvent& event : plan_.events) {
    if (const auto* const later = std::get_if<EpochForgotten>(&event)) {
      rolled_back_.emplace_back(later->epoch, pending.ledger.Find(later->epoch)->client);
    }
  }
  if (plan_.opens) PH_RETURN_IF_ERROR(TakeQuota(job, pending));
  for (const LedgerEvent& event : plan_.events) PH_RETURN_IF_ERROR(pending.Add(event));
  // After the epoch has its plan: one that is forgotten may be the only other one with that plan.
  for (const EpochKey& key : forgotten_) PH_RETURN_IF_ERROR(pending.Add(EpochForgotten{key}));
  pending.joined.insert(identity_.key);
  if (plan_.starts) pending.started.insert(identity_.key);
  const EpochState& state = *pending.ledger.Find(identity_.key);
  opening_ = pending.ledger.OpeningOf(identity_.key);
  if (plan_.starts) table_bytes_ = JobState::TableBytes(state);
  start_.session = session_->id;
  start_.join = {state.generation, plan_.starts.has_value(), CursorOf(state, state.base)};
  start_.progress = {identity_.key, state.generation, state.DoneWithoutPadding().size(),
                     state.ExpectedBatches()};
  start_.windows = state.windows;
  num_known_ = state.NumKnown();
  is_complete_ = state.is_complete();
  PH_ASSIGN_OR_RETURN(start_.progress.share, ShareOf(identity_, state.windows, state.base,
                                                     state.sharing, session_->queue));
  return absl::OkStatus();
}

absl::Status JoinOperation::TakeQuota(JobState& job, const PendingChanges& pending) {
  EpochQuota& quota = *job.environment().quota;
  const bool rolls_back = !rolled_back_.empty();
  for (const EpochKey& key : pending.ledger.Epochs()) {
    if (key == identity_.key || pending.joined.contains(key)) continue;
    // All later ones are forgotten by the plan.
    if (job.IsLoaded(key.epoch) || (rolls_back && identity_.key < key)) continue;
    if (pending.ledger.Find(key)->finished()) forgotten_.push_back(key);
  }
  // Ascending: the oldest first.
  forgotten_.resize(forgotten_.size() -
                    std::min(forgotten_.size(), job.environment().kept_finished_epochs));
  const auto give_back = [&](const ClientId& client) {
    given_back_.push_back(client);
    quota.GiveBack({given_back_.back(), job.name()});
  };
  for (const EpochKey& key : forgotten_) give_back(pending.ledger.Find(key)->client);
  for (; num_given_back_ < rolled_back_.size(); ++num_given_back_) {
    give_back(rolled_back_[num_given_back_].second);
  }
  const absl::Status taken = quota.Take({request_.client, job.name()});
  has_quota_ = taken.ok();
  if (taken.ok()) return taken;
  for (const ClientId& client : given_back_) quota.TakeAnyway({client, job.name()});
  given_back_.clear();
  return taken;
}

void JoinOperation::Apply(JobState& job, Wakes& wakes) {
  for (const EpochKey& key : forgotten_) job.Close(key, wakes);
  if (plan_.starts) {
    job.StartGeneration(identity_.key.epoch, start_.join.generation, *std::move(plan_.starts),
                        table_bytes_, wakes);
  }
  // A job that is rolled back forgets its later epochs.
  for (const auto& [key, client] : rolled_back_) job.Close(key, wakes);
  GiveBackRolledBack(job);
  OpenEpoch& epoch = job.At(identity_.key.epoch);
  epoch.used_seconds = std::max(epoch.used_seconds, SecondsOf(request_.now));
  LeaseTable& table = *epoch.table;
  start_.dealing = table.shared_dealing();
  // As the ledger was when this was planned: another operation of the same commit may have made it
  // forget the epoch.
  table.Grow(num_known_, is_complete_);
  epoch.windows.ForgetFailures();
  if (status = table.Join(session_->id, session_->queue, session_->reader); status.ok()) {
    start_.num_steps = table.NumStepsOf(session_->queue, session_->reader);
    start_.num_steps_done = start_.num_steps - table.NumLeftOf(session_->queue, session_->reader);
    EpochShare& share = *start_.progress.share;
    if (!is_complete_) {
      const uint64_t readers = session_->reader.count;
      start_.num_steps_is_estimate = true;
      start_.num_steps = std::max(start_.num_steps, (share.num_steps + readers - 1) / readers);
    }
    table.AddTo(share, session_->queue);
    if (const auto ended = epoch.ended.find(session_->worker); ended != epoch.ended.end()) {
      table.SessionGone(ended->second);
      epoch.ended.erase(ended);
    }
    if (session_->has_left) {
      table.SessionGone(session_->id);
    } else {
      epoch.sessions.emplace(session_->id, session_);
    }
  }
  job.TellWoken(epoch, wakes);
}

void JoinOperation::Undo(JobState& job) {
  EpochQuota& quota = *job.environment().quota;
  if (has_quota_) quota.GiveBack({request_.client, job.name()});
  for (const ClientId& client : given_back_) quota.TakeAnyway({client, job.name()});
}

void JoinOperation::Lose(JobState& job) { GiveBackRolledBack(job); }

void JoinOperation::GiveBackRolledBack(JobState& job) {
  for (; num_given_back_ < rolled_back_.size(); ++num_given_back_) {
    job.environment().quota->GiveBack({rolled_back_[num_given_back_].second, job.name()});
  }
}

void JoinOperation::Answer() {
  session_->state = status.ok() ? JobSession::State::kJoined : JobSession::State::kRefused;
  session_->refusal = status;
  session_->start = std::move(start_);
  session_->opening = opening_;
  wakes_session_ = std::exchange(session_->waits_for_join, false);
}

}  // namespace packhouse
