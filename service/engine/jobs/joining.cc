#include "service/engine/jobs/joining.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

std::string NameOf(const EpochKey& key) {
  return absl::StrCat("epoch ", key.epoch, " of job ", Quoted(key.job));
}

// The worker's name in the ledger.
std::string WorkerName(const JoinRequest& request) {
  if (!request.sharing.ranked()) return request.worker;
  std::string name = absl::StrCat("rank ", request.queue);
  if (request.reader.count == 1) return name;
  return absl::StrCat(name, " reader ", request.reader.number, " of ", request.reader.count);
}

// Whether this worker replaces one of the generation: itself or, for its rank, readers of another
// number.
bool ReplacesOneOf(const absl::btree_set<std::string>& workers, const JoinRequest& request) {
  const std::string name = WorkerName(request);
  if (workers.contains(name)) return true;
  if (!request.sharing.ranked()) return false;
  const std::string rank = absl::StrCat("rank ", request.queue);
  if (workers.contains(rank)) return true;
  const std::string prefix = absl::StrCat(rank, " reader ");
  const std::string suffix = absl::StrCat(" of ", request.reader.count);
  for (auto each = workers.lower_bound(prefix);
       each != workers.end() && absl::StartsWith(*each, prefix); ++each) {
    if (request.reader.count == 1 || !absl::EndsWith(*each, suffix)) return true;
  }
  return false;
}

absl::Status ExpiredError(const EpochKey& key, const ExpiredEpoch& expired) {
  return absl::FailedPreconditionError(absl::StrCat(
      NameOf(key), ": was forgotten on ",
      absl::FormatTime("%Y-%m-%d", absl::FromUnixSeconds(static_cast<int64_t>(expired.seconds)),
                       absl::UTCTimeZone()),
      ", since nobody had used it for as long as --epoch-retention says; load it without a cursor "
      "to "
      "begin anew, or delete the job first to go on from this cursor all the same"));
}

absl::Status CheckRequest(const JobLedger& ledger, const EpochIdentity& identity,
                          const JoinRequest& request) {
  if (request.generation && request.cursor) {
    return absl::InvalidArgumentError("load: has both a generation and a cursor");
  }
  const Sharing& sharing = request.sharing;
  const size_t queues =
      sharing.ranked() ? sharing.rank_group_of_rank.size() : identity.rank_groups.size();
  if (request.reader.number >= request.reader.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("load: reader ", request.reader.number, ", there are ", request.reader.count));
  }
  if (request.queue >= queues) {
    return absl::InvalidArgumentError(absl::StrCat(sharing.ranked() ? "rank " : "rank group ",
                                                   request.queue, ": there are ", queues));
  }
  if (!sharing.ranked() && request.worker.empty()) {
    return absl::InvalidArgumentError("load: without a rank a worker needs a name");
  }
  if (request.cursor && !sharing.ranked() && request.attempt.empty()) {
    return absl::InvalidArgumentError(
        "load: without a rank a cursor needs an attempt, by which the workers of one start of the "
        "trainer know each other");
  }
  if (request.cursor) {
    PH_RETURN_IF_ERROR(CheckSameEpoch(identity, request.cursor->identity, "cursor"));
    if (const ExpiredEpoch* const expired = ledger.FindExpired(identity.key)) {
      return ExpiredError(identity.key, *expired);
    }
  }
  if (request.generation) {
    const absl::Status current = CheckGeneration(ledger, identity.key, *request.generation);
    // A worker that names a generation has lost it, even if the epoch is gone.
    if (absl::IsNotFound(current)) return absl::FailedPreconditionError(current.message());
    return current;
  }
  return absl::OkStatus();
}

// nullopt if the request is for the current generation; otherwise the base of a new one.
absl::StatusOr<std::optional<BatchSet>> BaseOfNewGeneration(const EpochState* current,
                                                            const JoinRequest& request) {
  if (current == nullptr || current->generation == 0) {
    return request.cursor ? request.cursor->done : BatchSet();
  }
  const bool same_sharing = request.sharing == current->sharing;
  if (request.generation) {
    if (same_sharing) return std::nullopt;
    return absl::FailedPreconditionError(absl::StrCat(
        "load: generation ", *request.generation, " is shared by ",
        current->sharing.rank_group_of_rank.size(), " ranks, asked for are ",
        request.sharing.rank_group_of_rank.size(), " or other rank_groups (0 ranks: dynamic)"));
  }
  const bool same_attempt = request.attempt == current->attempt;
  if (!request.cursor) {
    if (same_sharing && (same_attempt || request.attempt.empty())) return std::nullopt;
    return current->DoneWithoutPadding();
  }
  const bool has_part = request.attempt.empty() && ReplacesOneOf(current->workers, request);
  if (same_sharing && same_attempt && !has_part && request.cursor->done == current->base) {
    return std::nullopt;
  }
  return request.cursor->done;
}

// The same of a whole request, with all of its errors.
absl::StatusOr<std::optional<BatchSet>> BaseOfJoin(const JobLedger& ledger,
                                                   const EpochIdentity& identity,
                                                   const JoinRequest& request) {
  PH_RETURN_IF_ERROR(CheckIdentity(identity));
  const EpochState* const state = ledger.Find(identity.key);
  if (state != nullptr) PH_RETURN_IF_ERROR(CheckSameEpoch(state->identity, identity, "load"));
  PH_RETURN_IF_ERROR(CheckRequest(ledger, identity, request));
  return BaseOfNewGeneration(state, request);
}

// EpochState::windows after the join. `state` may be null.
std::vector<uint32_t> WindowsAfter(const EpochState* state, const JoinRequest& request) {
  std::vector<uint32_t> windows = state == nullptr ? std::vector<uint32_t>() : state->windows;
  if (request.cursor && request.cursor->windows.size() > windows.size()) {
    windows = request.cursor->windows;
  }
  if (request.windows.size() > windows.size()) windows = request.windows;
  return windows;
}

}  // namespace

uint64_t SecondsOf(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(1, absl::ToUnixSeconds(time)));
}

std::string CursorOf(const EpochState& state, const BatchSet& done) {
  return EncodeCursor({state.identity, state.generation, done, state.windows});
}

absl::Status NoSuchEpoch(const JobLedger& ledger, const EpochKey& key) {
  if (const ExpiredEpoch* const expired = ledger.FindExpired(key))
    return ExpiredError(key, *expired);
  return absl::NotFoundError(absl::StrCat(NameOf(key), ": nobody has loaded it"));
}

absl::Status CheckGeneration(const JobLedger& ledger, const EpochKey& key, uint64_t generation) {
  const EpochState* const state = ledger.Find(key);
  if (state != nullptr && generation != 0 && generation == state->generation) {
    return absl::OkStatus();
  }
  const uint64_t former = FormerGenerations(ledger.last_generation() >> kGenerationBits);
  if (generation != 0 && generation <= former && former >= FormerGenerations(kFirstRestore)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "generation ", generation, " of ", NameOf(key),
        " is of before the cluster was restored from a backup, which knows nothing of what was "
        "done after it was taken: start the trainer again, from a checkpoint or anew"));
  }
  if (state == nullptr) return NoSuchEpoch(ledger, key);
  return absl::FailedPreconditionError(absl::StrCat(
      "generation ", generation, " of ", NameOf(key), " is over, the current one is ",
      state->generation, ": workers have restarted from a cursor or in another number"));
}

std::optional<EpochUsed> UseToWrite(const EpochState& state, absl::Time now) {
  const uint64_t seconds = SecondsOf(now);
  const auto granularity = static_cast<uint64_t>(absl::ToInt64Seconds(kUseGranularity));
  if (seconds < state.used_seconds + granularity) return std::nullopt;
  return EpochUsed{state.identity.key, seconds};
}

absl::StatusOr<Dealing> DealingOf(const EpochIdentity& identity, absl::Span<const uint32_t> windows,
                                  const BatchSet& base, const Sharing& sharing) {
  if (identity.num_windows == 0) return Dealing::Create(identity.first_batches(), base, sharing);
  PH_ASSIGN_OR_RETURN(Dealing dealing,
                      Dealing::CreateGrowing(identity.first_batches(), base, sharing));
  dealing.Grow(KnownBatches(identity, windows), windows.size() == identity.num_counts());
  return dealing;
}

absl::StatusOr<EpochShare> ShareOf(const EpochIdentity& identity,
                                   absl::Span<const uint32_t> windows, const BatchSet& base,
                                   const Sharing& sharing, uint32_t queue) {
  const std::vector<uint64_t> first_batches = identity.first_batches();
  const std::vector<uint64_t> num_batches = GuessBatches(identity, windows);
  EpochShare share;
  share.is_estimate = windows.size() != identity.num_counts();
  share.num_batches_before = base.size();
  PH_ASSIGN_OR_RETURN(share.num_steps,
                      Dealing::QueueLength(first_batches, base, sharing, queue, num_batches));
  PH_ASSIGN_OR_RETURN(share.num_steps_of_epoch,
                      Dealing::QueueLength(first_batches, BatchSet(), sharing, queue, num_batches));
  return share;
}

absl::StatusOr<JoinForecast> ForecastJoin(const JobLedger& ledger, const EpochIdentity& identity,
                                          const JoinRequest& request) {
  PH_ASSIGN_OR_RETURN(const std::optional<BatchSet> base, BaseOfJoin(ledger, identity, request));
  const EpochState* const state = ledger.Find(identity.key);
  JoinForecast forecast;
  forecast.starts = base.has_value();
  PH_ASSIGN_OR_RETURN(forecast.share,
                      ShareOf(identity, WindowsAfter(state, request), base ? *base : state->base,
                              request.sharing, request.queue));
  return forecast;
}

absl::StatusOr<JoinPlan> PlanJoin(const JobLedger& ledger, const EpochIdentity& identity,
                                  const JoinRequest& request,
                                  absl::FunctionRef<uint64_t(uint64_t above)> draw_generation) {
  PH_ASSIGN_OR_RETURN(std::optional<BatchSet> base, BaseOfJoin(ledger, identity, request));
  const EpochState* const state = ledger.Find(identity.key);

  JoinPlan plan;
  const std::string worker = WorkerName(request);
  const auto keep_plan = [&] {
    if (request.plan == nullptr || (state != nullptr && !state->plan.empty())) return;
    const std::string& digest = request.plan->digest;
    plan.events.emplace_back(
        EpochPlanned{identity.key, digest, ledger.HasPlan(digest) ? nullptr : request.plan});
  };
  const std::vector<uint32_t> windows = WindowsAfter(state, request);
  const size_t known = state == nullptr ? 0 : state->windows.size();
  const auto keep_windows = [&] {
    if (windows.size() == known) return;
    plan.events.emplace_back(
        WindowsCounted{identity.key,
                       known / identity.rank_groups.size(),
                       {windows.begin() + static_cast<ptrdiff_t>(known), windows.end()}});
  };
  if (!base) {
    keep_windows();
    if (!state->workers.contains(worker)) {
      if (state->workers.size() >= kMaxWorkers) {
        return absl::ResourceExhaustedError(
            absl::StrCat("workers of generation ", state->generation, ": ", state->workers.size(),
                         ", at most ", kMaxWorkers));
      }
      plan.events.emplace_back(WorkerJoined{identity.key, state->generation, worker});
    }
    if (auto use = UseToWrite(*state, request.now)) plan.events.emplace_back(*std::move(use));
    keep_plan();
    return plan;
  }
  // Dealt before it is logged: a generation that cannot be dealt must not be in the log.
  PH_ASSIGN_OR_RETURN(plan.starts, DealingOf(identity, windows, *base, request.sharing));
  const uint64_t generation = draw_generation(request.cursor ? request.cursor->generation : 0);
  if (state == nullptr) {
    plan.opens = true;
    plan.events.emplace_back(EpochOpened{identity});
    if (!request.client.empty()) {
      plan.events.emplace_back(EpochOwned{identity.key, request.client});
    }
    if (!request.words.empty() && request.words.size() <= kMaxWordsBytes) {
      plan.events.emplace_back(EpochWorded{identity.key, request.words});
    }
  }
  keep_plan();
  keep_windows();
  if (state == nullptr || UseToWrite(*state, request.now)) {
    plan.events.emplace_back(EpochUsed{identity.key, SecondsOf(request.now)});
  }
  plan.events.emplace_back(GenerationStarted{identity.key, generation, request.attempt,
                                             request.sharing, *std::move(base)});
  plan.events.emplace_back(WorkerJoined{identity.key, generation, worker});
  if (request.cursor) {
    for (const EpochKey& later : ledger.EpochsAfter(identity.key)) {
      plan.events.emplace_back(EpochForgotten{later});
    }
  }
  return plan;
}

}  // namespace packhouse
