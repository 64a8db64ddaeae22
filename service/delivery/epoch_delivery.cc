#include "service/delivery/epoch_delivery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

// As the ledger names it.
std::string WorkerName(const JoinRequest& request) {
  if (!request.sharing.ranked()) return request.worker;
  std::string name = absl::StrCat("rank ", request.lane);
  if (request.reader.count == 1) return name;
  return absl::StrCat(name, " reader ", request.reader.number, " of ", request.reader.count);
}

// Whether a worker of the generation must have gone for this one to come: itself, or, of its rank,
// readers of another number.
bool ReplacesOneOf(const absl::btree_set<std::string>& workers, const JoinRequest& request) {
  const std::string name = WorkerName(request);
  if (workers.contains(name)) return true;
  if (!request.sharing.ranked()) return false;
  const std::string rank = absl::StrCat("rank ", request.lane);
  if (workers.contains(rank)) return true;
  const std::string prefix = absl::StrCat(rank, " reader ");
  const std::string suffix = absl::StrCat(" of ", request.reader.count);
  for (auto each = workers.lower_bound(prefix);
       each != workers.end() && absl::StartsWith(*each, prefix); ++each) {
    if (request.reader.count == 1 || !absl::EndsWith(*each, suffix)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EpochDelivery>> EpochDelivery::Open(EpochIdentity identity,
                                                                   absl::Duration lease_duration,
                                                                   JobLedger* ledger,
                                                                   RecordLog* log) {
  PH_RETURN_IF_ERROR(CheckIdentity(identity));
  const EpochState* const state = ledger->Find(identity.key);
  if (state != nullptr) PH_RETURN_IF_ERROR(CheckSameEpoch(state->identity, identity, "load"));
  std::unique_ptr<EpochDelivery> delivery(
      new EpochDelivery(std::move(identity), lease_duration, ledger, log));
  if (state != nullptr && state->generation != 0) {
    PH_ASSIGN_OR_RETURN(Dealing dealing, Dealing::Create(state->identity.first_batches(),
                                                         state->base, state->sharing));
    delivery->table_ =
        std::make_unique<LeaseTable>(std::move(dealing), lease_duration, state->done);
  }
  return delivery;
}

uint64_t EpochDelivery::generation() const {
  const EpochState* const current = state();
  return current == nullptr ? 0 : current->generation;
}

LeaseCounters EpochDelivery::counters() const {
  return table_ ? earlier_ + table_->counters() : earlier_;
}

absl::Status EpochDelivery::CheckGeneration(uint64_t generation) const {
  if (table_ && state() != nullptr && generation == this->generation()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("generation ", generation, " of epoch ", identity_.key.epoch, " of job '",
                   identity_.key.job, "' is over, the current one is ", this->generation(),
                   ": workers have restarted from a cursor or in another number"));
}

absl::Status EpochDelivery::CheckRequest(const JoinRequest& request) const {
  if (request.generation && request.cursor) {
    return absl::InvalidArgumentError("load: has both a generation and a cursor");
  }
  const Sharing& sharing = request.sharing;
  const size_t lanes =
      sharing.ranked() ? sharing.profile_of_rank.size() : identity_.profiles.size();
  if (request.reader.number >= request.reader.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("load: reader ", request.reader.number, ", there are ", request.reader.count));
  }
  if (request.lane >= lanes) {
    return absl::InvalidArgumentError(
        absl::StrCat(sharing.ranked() ? "rank " : "profile ", request.lane, ": there are ", lanes));
  }
  if (!sharing.ranked() && request.worker.empty()) {
    return absl::InvalidArgumentError("load: without a rank a worker needs a name");
  }
  if (table_ && table_->IsPresent(request.session)) {
    return absl::AlreadyExistsError(absl::StrCat("session ", request.session, ": has joined"));
  }
  if (request.cursor && !sharing.ranked() && request.attempt.empty()) {
    return absl::InvalidArgumentError(
        "load: without a rank a cursor needs an attempt, by which the workers of one start of the "
        "trainer know each other");
  }
  if (request.cursor) {
    PH_RETURN_IF_ERROR(CheckSameEpoch(identity_, request.cursor->identity, "cursor"));
  }
  if (request.generation) PH_RETURN_IF_ERROR(CheckGeneration(*request.generation));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BatchSet>> EpochDelivery::BaseOfNewGeneration(
    const JoinRequest& request) const {
  const EpochState* const current = state();
  if (!table_) return request.cursor ? request.cursor->done : BatchSet();
  const bool same_sharing = request.sharing == current->sharing;
  if (request.generation) {
    if (same_sharing) return std::nullopt;
    return absl::FailedPreconditionError(absl::StrCat(
        "load: generation ", *request.generation, " is shared by ",
        current->sharing.profile_of_rank.size(), " ranks, asked for are ",
        request.sharing.profile_of_rank.size(), " or other profiles (0 ranks: dynamic)"));
  }
  const bool same_attempt = request.attempt == current->attempt;
  if (!request.cursor) {
    if (same_sharing && (same_attempt || request.attempt.empty())) return std::nullopt;
    return current->done.Below(identity_.num_batches());
  }
  const bool has_part = request.attempt.empty() && ReplacesOneOf(current->workers, request);
  if (same_sharing && same_attempt && !has_part && request.cursor->done == current->base) {
    return std::nullopt;
  }
  return request.cursor->done;
}

absl::StatusOr<JoinResult> EpochDelivery::Join(const JoinRequest& request) {
  if (table_ && state() == nullptr) {
    // Forgotten: as if nobody had ever joined.
    earlier_ = counters();
    table_ = nullptr;
    ended_.clear();
  }
  PH_RETURN_IF_ERROR(CheckRequest(request));
  PH_ASSIGN_OR_RETURN(std::optional<BatchSet> base, BaseOfNewGeneration(request));
  const bool starts_generation = base.has_value();
  const std::string worker = WorkerName(request);
  if (starts_generation) {
    PH_RETURN_IF_ERROR(Start(request, *std::move(base)));
  } else if (!state()->workers.contains(worker)) {
    if (state()->workers.size() >= kMaxWorkers) {
      return absl::ResourceExhaustedError(absl::StrCat("workers of generation ", generation(), ": ",
                                                       state()->workers.size(), ", at most ",
                                                       kMaxWorkers));
    }
    PH_RETURN_IF_ERROR(Commit({WorkerJoined{identity_.key, generation(), worker}}));
  }
  PH_RETURN_IF_ERROR(table_->Join(request.session, request.lane, request.reader));
  if (const auto ended = ended_.find(request.worker); ended != ended_.end()) {
    table_->SessionGone(ended->second);
    ended_.erase(ended);
  }
  return JoinResult{generation(), starts_generation, CursorOf(state()->base)};
}

void EpochDelivery::SessionEnded(SessionId session, const std::string& worker) {
  if (!table_) return;
  table_->SessionEnded(session);
  if (table_->IsPresent(session)) ended_[worker] = session;
}

absl::Status EpochDelivery::Start(const JoinRequest& request, BatchSet base) {
  // Made first: what cannot be dealt must not be in the log.
  PH_ASSIGN_OR_RETURN(Dealing dealing,
                      Dealing::Create(identity_.first_batches(), base, request.sharing));
  const uint64_t of_cursor = request.cursor ? request.cursor->generation : 0;
  const uint64_t next = std::max(ledger_->LastGeneration(identity_.key.job), of_cursor) + 1;
  std::vector<LedgerEvent> events;
  if (state() == nullptr) events.emplace_back(EpochOpened{identity_});
  events.emplace_back(
      GenerationStarted{identity_.key, next, request.attempt, request.sharing, std::move(base)});
  events.emplace_back(WorkerJoined{identity_.key, next, WorkerName(request)});
  if (request.cursor) {
    for (const EpochKey& later : ledger_->EpochsAfter(identity_.key)) {
      events.emplace_back(EpochForgotten{later});
    }
  }
  PH_RETURN_IF_ERROR(Commit(events));
  earlier_ = counters();
  table_ = std::make_unique<LeaseTable>(std::move(dealing), lease_duration_);
  ended_.clear();
  return absl::OkStatus();
}

absl::Status EpochDelivery::Commit(absl::Span<const LedgerEvent> events) {
  std::vector<std::string> records;
  for (const LedgerEvent& event : events) records.push_back(EncodeEvent(event));
  PH_RETURN_IF_ERROR(log_->Append(records));
  for (const LedgerEvent& event : events) PH_RETURN_IF_ERROR(ledger_->Apply(event));
  return absl::OkStatus();
}

absl::StatusOr<Lease> EpochDelivery::Next(SessionId session, size_t max_in_flight, absl::Time now) {
  if (!table_ || state() == nullptr || !table_->IsPresent(session)) {
    return absl::FailedPreconditionError(
        absl::StrCat("session ", session, ": has no part in generation ", generation(),
                     " of epoch ", identity_.key.epoch, " of job '", identity_.key.job,
                     "': its rank has a newer stream, or workers have restarted from a cursor"));
  }
  return table_->Next(session, max_in_flight, now);
}

absl::StatusOr<std::optional<BatchesAcknowledged>> EpochDelivery::PrepareAcknowledge(
    uint64_t generation, absl::Span<const uint64_t> batches) const {
  PH_RETURN_IF_ERROR(CheckGeneration(generation));
  PH_RETURN_IF_ERROR(table_->CheckDealt(batches));
  BatchesAcknowledged event = {identity_.key, generation, {}};
  for (const uint64_t batch : batches) {
    if (!state()->done.Contains(batch)) event.batches.Insert(batch);
  }
  if (event.batches.empty()) return std::nullopt;
  return event;
}

absl::StatusOr<AcknowledgeResult> EpochDelivery::FinishAcknowledge(
    SessionId session, uint64_t generation, absl::Span<const uint64_t> batches, absl::Time now) {
  PH_RETURN_IF_ERROR(CheckGeneration(generation));
  PH_RETURN_IF_ERROR(table_->CheckDealt(batches));
  PH_RETURN_IF_ERROR(
      ledger_->Apply(BatchesAcknowledged{identity_.key, generation, BatchSet::Of(batches)}));
  const uint64_t news = table_->Acknowledge(session, batches, now);
  return AcknowledgeResult{news, CursorOf(state()->done.Below(identity_.num_batches()))};
}

absl::StatusOr<AcknowledgeResult> EpochDelivery::Acknowledge(SessionId session, uint64_t generation,
                                                             absl::Span<const uint64_t> batches,
                                                             absl::Time now) {
  PH_ASSIGN_OR_RETURN(const std::optional<BatchesAcknowledged> event,
                      PrepareAcknowledge(generation, batches));
  if (event) PH_RETURN_IF_ERROR(log_->Append({EncodeEvent(*event)}));
  return FinishAcknowledge(session, generation, batches, now);
}

absl::StatusOr<std::string> EpochDelivery::CursorAtStep(uint64_t generation, uint64_t steps) const {
  PH_RETURN_IF_ERROR(CheckGeneration(generation));
  const Dealing& dealing = table_->dealing();
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
  BatchSet done = state()->base;
  done.InsertAll(dealing.BatchesOfSteps(steps));
  return CursorOf(done);
}

std::string EpochDelivery::CursorOf(const BatchSet& done) const {
  return EncodeCursor({identity_, generation(), done});
}

}  // namespace packhouse
