#include "service/engine/jobs/loader.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/mixing.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/jobs/held_plan.h"
#include "service/engine/jobs/kept_plan.h"

namespace packhouse {
namespace {

// Time between two questions whether a window is still wanted.
constexpr absl::Duration kAskEvery = absl::Milliseconds(5);

absl::Status NoMemoryForWindow() {
  return absl::ResourceExhaustedError("there was no memory to plan a window");
}

// As its workers are told. What may pass is UNAVAILABLE: they join again after a while and go on at
// the same batch.
absl::Status MakeSegment(const LoadableEpoch& epoch, uint32_t segment, bool is_ahead,
                         const Making& making) {
  absl::Status status = NoMemoryForWindow();
  RunWithinMemory([&] {
    status = epoch.segmented() != nullptr
                 ? epoch.segmented()->MakeSegment(segment, is_ahead, making)
                 : epoch.windows()->Plan(segment, making);
  });
  // It is asked for again when it is needed; until then nothing has failed.
  if (is_ahead || status.ok()) return absl::OkStatus();
  return absl::Status(WindowPlans::MayPass(status) ? absl::StatusCode::kUnavailable : status.code(),
                      absl::StrCat(epoch.segmented() != nullptr ? "segment " : "window ", segment,
                                   ": ", status.message()));
}

uint64_t BytesOfLists(const EpochRequest& request) {
  uint64_t bytes = 0;
  if (request.subset) {
    bytes += request.subset->ids.capacity() * sizeof(request.subset->ids[0]) +
             request.subset->ranges.capacity() * sizeof(request.subset->ranges[0]);
  }
  if (request.draw) bytes += request.draw->weights.capacity() * sizeof(request.draw->weights[0]);
  return bytes;
}

}  // namespace

LoadSession::~LoadSession() { job_->Leave(*seat_); }

absl::StatusOr<bool> LoadSession::HasJoined() {
  if (has_joined_) return true;
  PH_ASSIGN_OR_RETURN(std::optional<LoadStart> start, job_->Started(*seat_, /*may_wait=*/true));
  if (!start) return false;
  if (epoch_->windows() != nullptr) PH_RETURN_IF_ERROR(epoch_->windows()->Learn(start->windows));
  start_ = *std::move(start);
  has_joined_ = true;
  measured_ = nullptr;
  return true;
}

absl::StatusOr<LoadEvent> LoadSession::Next(absl::Time now) {
  LoadEvent event;
  PH_ASSIGN_OR_RETURN(const bool joined, HasJoined());
  if (!joined) {
    event.kind = LoadEvent::Kind::kWait;
    return event;
  }
  if (epoch_->windows() != nullptr) return NextOfWindows(now);
  if (epoch_->segmented() != nullptr) return NextOfSegments(now);
  PH_ASSIGN_OR_RETURN(const Offer lease, job_->Next(*seat_, now));
  event.num_pending = lease.num_pending;
  if (lease.ends) return event;
  if (lease.outcome != LeaseOutcome::kLeased) {
    event.kind = LoadEvent::Kind::kWait;
    return event;
  }
  event = BatchEventAt(*start_.dealing, *epoch_, lease.place);
  event.is_redelivered = lease.redelivered;
  event.leased_until = lease.until;
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event, shared_.get()));
  seat_->is_making = false;
  return event;
}

absl::StatusOr<LoadEvent> LoadSession::NextOfWindows(absl::Time now) {
  const EpochWindows& windows = *epoch_->windows();
  LoadEvent event;
  if (!pending_) {
    PH_ASSIGN_OR_RETURN(Offer lease, job_->Next(*seat_, now));
    if (lease.plan_window) plan_(seat_->opening, *lease.plan_window, /*is_first=*/false);
    event.num_pending = lease.num_pending;
    event.num_steps = lease.num_steps;
    if (lease.ends) return event;
    event.kind = LoadEvent::Kind::kWait;
    if (lease.outcome != LeaseOutcome::kLeased) return event;
    pending_ = std::move(lease);
  }
  std::vector<uint64_t> needed = pending_->batches_of_step;
  if (!pending_->is_padding) needed.push_back(pending_->batch);
  if (const std::optional<uint64_t> missing = windows.FirstMissing(needed)) {
    PH_ASSIGN_OR_RETURN(const bool is_ours, job_->AwaitWindow(*seat_, *missing));
    if (is_ours) plan_(seat_->opening, *missing, /*is_first=*/!has_had_batch_);
    event.kind = LoadEvent::Kind::kWait;
    return event;
  }
  has_had_batch_ = true;
  const Offer lease = *std::exchange(pending_, std::nullopt);
  event.kind = LoadEvent::Kind::kBatch;
  event.number = lease.batch;
  event.place = lease.place;
  event.is_padding = lease.is_padding;
  event.is_redelivered = lease.redelivered;
  event.leased_until = lease.until;
  for (const uint64_t batch : lease.batches_of_step) {
    event.graphs_of_step += epoch_->NumGraphs(batch);
  }
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event, shared_.get()));
  seat_->is_making = false;
  return event;
}

absl::StatusOr<LoadEvent> LoadSession::NextOfSegments(absl::Time now) {
  const SegmentedEpoch& epoch = *epoch_->segmented();
  LoadEvent event;
  if (!pending_) {
    PH_ASSIGN_OR_RETURN(Offer lease, job_->Next(*seat_, now));
    event.num_pending = lease.num_pending;
    if (lease.ends) return event;
    event.kind = LoadEvent::Kind::kWait;
    if (lease.outcome != LeaseOutcome::kLeased) return event;
    pending_ = std::move(lease);
  }
  const Dealing& dealing = *start_.dealing;
  const std::vector<uint64_t> needed = BatchesOfStep(dealing, pending_->place);
  if (const std::optional<uint32_t> missing = epoch.Pin(needed, pins_)) {
    PH_ASSIGN_OR_RETURN(const bool is_ours, job_->AwaitWindow(*seat_, *missing));
    if (is_ours) plan_(seat_->opening, *missing, /*is_first=*/true);
    event.kind = LoadEvent::Kind::kWait;
    return event;
  }
  for (const uint64_t batch : needed) {
    const std::optional<uint32_t> next = epoch.NextMissing(batch);
    if (!next) continue;
    PH_ASSIGN_OR_RETURN(const bool is_ours, job_->PlanAhead(*seat_, *next));
    if (is_ours) plan_(seat_->opening, *next, /*is_first=*/false);
  }
  const Offer lease = *std::exchange(pending_, std::nullopt);
  event = BatchEventAt(dealing, *epoch_, lease.place);
  event.is_redelivered = lease.redelivered;
  event.leased_until = lease.until;
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event, shared_.get()));
  seat_->is_making = false;
  return event;
}

void Loader::AwaitBackground() {
  const auto is_quiet = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(background_mutex_) {
    return num_in_background_ == 0;
  };
  absl::MutexLock lock(&background_mutex_);
  background_mutex_.Await(absl::Condition(&is_quiet));
}

std::shared_ptr<Loader> Loader::CountInBackground() {
  {
    absl::MutexLock lock(&background_mutex_);
    ++num_in_background_;
  }
  return std::shared_ptr<Loader>(this, [](Loader* loader) {
    absl::MutexLock lock(&loader->background_mutex_);
    --loader->num_in_background_;
  });
}

void Loader::InBackground(std::function<void()> work) {
  background_([counted = CountInBackground(), work = std::move(work)]() mutable {
    work();
    work = nullptr;
    counted = nullptr;
  });
}

// --- Epochs.

std::optional<KeptPlannerResult> Loader::Adopt(const Job* job, const std::optional<Cursor>& cursor,
                                               EpochRequest& request) const {
  std::optional<Job::Opened> opened;
  if (job != nullptr) opened = job->OpenedAs(request.key.epoch);
  if (!opened && cursor) opened = Job::Opened{cursor->identity, nullptr, "", {}};
  if (opened) {
    KeepMixing(opened->identity, request);
    KeepCosts(opened->identity, request);
  }
  // Epochs in segments have the same numbers of batches, which take long to count.
  const bool is_other = request.segments && (!opened || opened->plan == nullptr);
  if (is_other && job != nullptr) {
    auto near = job->OpenedNear(request.key.epoch);
    opened = near.ok() ? std::optional(*std::move(near)) : std::nullopt;
  }
  if (!opened) return std::nullopt;
  const std::vector<uint32_t> num_ranks = request.NumRanks();
  auto kept = Adopt(*opened, request);
  if (!is_other) return kept;
  // As many ranks as it has when it is opened, which decide how many batches several groups get.
  const bool had_as_many = request.NumRanks() == num_ranks;
  for (size_t i = 0; i < num_ranks.size(); ++i) request.rank_groups[i].num_ranks = num_ranks[i];
  if (num_ranks.size() > 1 && !had_as_many) return std::nullopt;
  if (kept) kept->is_of_other_epoch = true;
  return kept;
}

std::optional<KeptPlannerResult> Loader::Adopt(const Job::Opened& opened,
                                               EpochRequest& request) const {
  const EpochIdentity& identity = opened.identity;
  for (size_t i = 0;
       identity.rank_groups.size() == request.rank_groups.size() && i < request.rank_groups.size();
       ++i) {
    const uint64_t planned = identity.rank_groups[i].planned_ranks;
    if (planned != 0 && planned <= Sharing::kMaxRanks) {
      request.rank_groups[i].num_ranks = static_cast<uint32_t>(planned);
    }
  }
  // For a request with other words the plan is made, so that the error can name the difference.
  if (opened.plan == nullptr || identity.dataset != request.dataset ||
      identity.seed != request.seed ||
      identity.options != EpochOptions(request, opened.plan->receipt)) {
    return std::nullopt;
  }
  return KeptPlannerResult{
      opened.plan->receipt, identity.dataset_version,
      [plan = opened.plan, memory = memory_] { return ReadHeldPlan(*plan, memory); }};
}

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Loader::Prepare(
    const EpochRequest& request, const Cancellation& cancellation,
    const std::optional<KeptPlannerResult>& kept) {
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedEpoch> prepared,
                      catalog_->Prepare(request, cancellation, kept));
  const PreparedEpoch* const epoch = prepared.get();
  auto let_go = [this, prepared = std::move(prepared)](const PreparedEpoch* /*same*/) mutable {
    InBackground([held = std::move(prepared)] {});
  };
  return std::shared_ptr<const PreparedEpoch>(epoch, std::move(let_go));
}

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Loader::PrepareAny(
    const EpochRequest& request, const ClientId& client, const Cancellation& cancellation,
    const std::optional<KeptPlannerResult>& kept) {
  if (!request.kinds.empty()) {
    return catalog_->PrepareKind(request, cancellation,
                                 [&](std::shared_ptr<const LoadableEpoch> epoch) {
                                   return PlanFirst(client, std::move(epoch), cancellation);
                                 });
  }
  if (request.segments) return catalog_->PrepareSegmented(request, cancellation, kept);
  return Prepare(request, cancellation, kept);
}

void Loader::PlanSoon(const ClientId& client, WindowOrder order, Planning work) {
  plan_executor_(client, order,
                 [counted = CountInBackground(),
                  work = std::move(work)](const std::function<bool()>& is_cancelled) mutable {
                   work(is_cancelled);
                   work = nullptr;
                   counted = nullptr;
                 });
}

absl::Status Loader::PlanFirst(const ClientId& client, std::shared_ptr<const LoadableEpoch> epoch,
                               const Cancellation& cancellation) {
  // The call may be gone before the window is planned.
  struct Result {
    absl::Mutex mutex;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
    std::atomic<bool> is_unwanted = false;
  };
  const auto result = std::make_shared<Result>();
  PlanSoon(client, WindowOrder::kFirst,
           [this, result, epoch = std::move(epoch)](const std::function<bool()>& gone) mutable {
             absl::Status status = NoMemoryForWindow();
             RunWithinMemory([&] {
               const auto is_over = [&] { return result->is_unwanted || gone(); };
               status = epoch->windows()->Plan(0, Making(catalog_->memory(), is_over));
             });
             epoch = nullptr;
             absl::MutexLock lock(&result->mutex);
             result->status = std::move(status);
           });
  const auto is_planned = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(result->mutex) {
    return result->status.has_value();
  };
  for (;;) {
    {
      absl::MutexLock lock(&result->mutex);
      if (result->mutex.AwaitWithTimeout(absl::Condition(&is_planned), kAskEvery)) {
        return *result->status;
      }
    }
    // It may take long to answer, so nobody waits for the lock meanwhile.
    if (!cancellation.WhileWaiting()) continue;
    result->is_unwanted = true;
    return absl::CancelledError("epoch: given up by the caller");
  }
}

void Loader::PlanWindow(std::shared_ptr<Job> job, const EpochKey& key, uint64_t opening,
                        std::shared_ptr<const LoadableEpoch> epoch, uint64_t window,
                        WindowOrder order, const ClientId& client) {
  PlanSoon(
      client, order,
      [this, job = std::move(job), number = key.epoch, opening, epoch = std::move(epoch), window,
       is_ahead = order == WindowOrder::kLater](const std::function<bool()>& is_cancelled) mutable {
        absl::Status status = NoMemoryForWindow();
        const auto is_over = [&] { return is_cancelled() || !job->Has(number, opening); };
        const Making making(catalog_->memory(), is_over);
        std::vector<uint32_t> counts;
        if (epoch->segmented() != nullptr) {
          status = MakeSegment(*epoch, static_cast<uint32_t>(window), is_ahead, making);
        } else {
          RunWithinMemory([&] { status = epoch->windows()->Plan(window, making); });
          counts = epoch->windows()->Counts();
        }
        job->WindowPlanned(number, opening, window, std::move(counts), status);
        epoch = nullptr;
        job = nullptr;
      });
}

std::optional<EpochRequest> Loader::NextOf(EpochRequest& request) const {
  const bool is_plain = request.kinds.empty() && !request.segments;
  if (!ahead_executor_ || !is_plain || HasMeasuredDevice(request) ||
      request.key.epoch == std::numeric_limits<uint64_t>::max()) {
    return std::nullopt;
  }
  // Lists may be long, and are copied by nobody.
  auto subset = std::exchange(request.subset, std::nullopt);
  auto draw = std::exchange(request.draw, std::nullopt);
  EpochRequest next = request;
  ++next.key.epoch;
  request.subset = std::move(subset);
  request.draw = std::move(draw);
  return next;
}

void Loader::PrepareNextSoon(const std::shared_ptr<Job>& job, EpochRequest request,
                             const ClientId& client) {
  const uint64_t number = request.key.epoch;
  if (!job->next().Begin(number)) return;
  MemoryHold lists;
  if (const uint64_t bytes = BytesOfLists(request); memory_ != nullptr && bytes != 0) {
    auto held = memory_->Hold("the words of a job's next epoch", bytes);
    if (!held.ok()) return;
    lists = *std::move(held);
  }
  // The executor's functions can be copied.
  const auto next =
      std::make_shared<std::pair<EpochRequest, MemoryHold>>(std::move(request), std::move(lists));
  auto work = [this, counted = CountInBackground(), next,
               weak = std::weak_ptr<Job>(job)](const Cancellation& cancellation) {
    if (const auto of_next = weak.lock()) {
      RunWithinMemory([&] { PrepareNext(*of_next, std::move(next->first), cancellation); });
    }
    *next = {};
  };
  job->next().SetHurry(number, ahead_executor_(client, job->name(), std::move(work)));
}

void Loader::PrepareNext(Job& job, EpochRequest request, const Cancellation& cancellation) {
  const uint64_t number = request.key.epoch;
  const auto is_over = [&] {
    return !job.next().IsWanted(number) || !job.early_end().status().ok();
  };
  if (is_over()) return;
  const Cancellation::Ask& gone = cancellation.while_making();
  const Cancellation asked([&] { return is_over() || (gone && gone()); },
                           [&] { return is_over() || cancellation.WhileWaiting(); });
  const auto kept = Adopt(&job, std::nullopt, request);
  // Another job that wants the same must not wait for what is done in the background.
  const auto hurry = [&] { job.next().Await(number); };
  auto made = catalog_->PrepareAhead(request, asked, kept, hurry);
  // Whoever opens the epoch makes it, and is told what fails.
  if (!made.ok()) return;
  // Its company was measured beside the epoch that is loaded. That of the first epoch is measured
  // beside it.
  if (number == 1) {
    request.key.epoch = 0;
    if (const auto loaded = catalog_->Prepare(request, asked, Adopt(&job, std::nullopt, request));
        loaded.ok()) {
      (*loaded)->MeasureCompany(Making(memory_, asked, hurry)).IgnoreError();
    }
  }
  const std::shared_ptr<AheadEpoch> epoch = *std::move(made);
  job.next().Keep(number, std::shared_ptr<const void>(
                              epoch.get(), [this, epoch = std::move(epoch)](const void*) mutable {
                                InBackground([held = std::move(epoch)] {});
                              }));
}

void Loader::MakeSegmentSoon(std::shared_ptr<const LoadableEpoch> epoch, uint32_t segment,
                             const ClientId& client, SegmentMakings::Waiter waiter) {
  const bool is_ahead = waiter.is_ahead;
  auto order = segment_makings_.Add(std::move(epoch), segment, std::move(waiter));
  if (order == nullptr) return;
  PlanSoon(client, is_ahead ? WindowOrder::kLater : WindowOrder::kFirst,
           [this, order = std::move(order), segment,
            is_ahead](const std::function<bool()>& is_cancelled) mutable {
             if (order->Begin()) {
               const auto is_over = [&] { return is_cancelled() || order->IsOver(); };
               order->End(MakeSegment(order->epoch(), segment, is_ahead,
                                      Making(catalog_->memory(), is_over)));
             }
             order = nullptr;
           });
}

absl::StatusOr<Loader::Description> Loader::Describe(Job* job, EpochRequest request,
                                                     const Cancellation& cancellation,
                                                     const Sharer& sharer, bool tells_company) {
  if (sharer.evaluation) request.use = EpochUse::kEvaluation;
  std::optional<JoinRequest> worker = sharer.worker;
  const std::optional<Cursor> cursor = worker ? worker->cursor : std::nullopt;
  if (job != nullptr) job->next().Await(request.key.epoch);
  const auto measured = measured_limits_.Fix(job, memory_, request);
  if (measured != nullptr && cursor) KeepLimits(cursor->identity, nullptr, request);
  const auto kept = Adopt(job, cursor, request);
  PH_ASSIGN_OR_RETURN(auto epoch, PrepareAny(request, /*client=*/"", cancellation, kept));
  if (worker && epoch->windows() != nullptr) worker->windows = epoch->windows()->Counts();
  const EpochIdentity& identity = epoch->identity();
  EpochProgress progress = {request.key, 0, 0, identity.num_batches()};
  if (job != nullptr) {
    PH_ASSIGN_OR_RETURN(progress, job->ProgressOf(identity, worker ? &*worker : nullptr));
  } else if (worker) {
    PH_ASSIGN_OR_RETURN(const JoinForecast forecast, ForecastJoin(JobLedger(), identity, *worker));
    progress.share = forecast.share;
  }
  if (sharer.evaluation) {
    PH_ASSIGN_OR_RETURN(progress.share, Evaluation::ShareOf(*epoch, *sharer.evaluation));
  }
  std::optional<Company> company;
  if (tells_company) {
    const Making making(catalog_->memory(), cancellation);
    PH_ASSIGN_OR_RETURN(company, epoch->MeasureCompany(making));
  }
  return Description{std::move(epoch), std::move(progress), company};
}

absl::StatusOr<std::unique_ptr<LoadSession>> Loader::StartLoad(
    std::shared_ptr<Job> job, EpochRequest request, JoinRequest join, size_t max_in_flight,
    std::function<void()> wake, const Cancellation& cancellation) {
  job->next().Await(request.key.epoch);
  std::optional<EpochRequest> next = NextOf(request);
  auto measured = measured_limits_.Fix(job.get(), memory_, request);
  // Of an epoch that is not in the ledger any more, the cursor knows the limits.
  if (measured != nullptr && join.cursor) KeepLimits(join.cursor->identity, nullptr, request);
  const auto kept = Adopt(job.get(), join.cursor, request);
  PH_ASSIGN_OR_RETURN(auto prepared, PrepareAny(request, join.client, cancellation, kept));
  if (prepared->windows() != nullptr) join.windows = prepared->windows()->Counts();
  if (const auto planned = prepared->planned();
      planned != nullptr && (!kept || prepared->segmented() != nullptr)) {
    join.plan = KeepPlan(*planned);
    if (!kept || kept->is_of_other_epoch) LogLimits(log_, request, *prepared);
  }
  if (next) {
    next->subset = std::move(request.subset);
    next->draw = std::move(request.draw);
    // The epoch is loaded without it.
    RunWithinMemory([&] { PrepareNextSoon(job, *std::move(next), join.client); });
  }
  join.epoch = prepared;
  const SessionId id = job->NewSession();
  auto plan = [this, pinned = job, key = request.key, epoch = prepared, client = join.client](
                  uint64_t opening, uint64_t window, bool is_first) {
    PlanWindow(pinned, key, opening, epoch, window,
               is_first ? WindowOrder::kFirst : WindowOrder::kLater, client);
  };
  auto seat = job->StartJoin(prepared->identity(), std::move(join), id, max_in_flight,
                             std::move(wake), job);
  auto shared = catalog_->shared_batches().Join(prepared->identity());
  auto session = std::unique_ptr<LoadSession>(new LoadSession(
      std::move(job), std::move(seat), std::move(prepared), std::move(shared), std::move(plan)));
  session->measured_ = std::move(measured);
  return session;
}

absl::StatusOr<std::unique_ptr<LoadSession>> Loader::Load(std::shared_ptr<Job> job,
                                                          EpochRequest request, JoinRequest join,
                                                          size_t max_in_flight,
                                                          std::function<void()> wake,
                                                          const Cancellation& cancellation) {
  PH_ASSIGN_OR_RETURN(auto session, StartLoad(std::move(job), std::move(request), std::move(join),
                                              max_in_flight, std::move(wake), cancellation));
  session->job_->AwaitStarted(*session->seat_);
  PH_RETURN_IF_ERROR(session->HasJoined().status());
  return session;
}

absl::StatusOr<std::unique_ptr<Evaluation>> Loader::Evaluate(EpochRequest request,
                                                             EvaluationRequest evaluation,
                                                             const ClientId& client,
                                                             std::function<void()> wake,
                                                             const Cancellation& cancellation) {
  if (request.use == EpochUse::kJob) request.use = EpochUse::kEvaluation;
  PH_ASSIGN_OR_RETURN(auto epoch, PrepareAny(request, client, cancellation, std::nullopt));
  Evaluation::MakeSegment make;
  if (epoch->segmented() != nullptr || epoch->windows() != nullptr) {
    make = [this, epoch, client](uint32_t segment, SegmentMakings::Waiter waiter) {
      MakeSegmentSoon(epoch, segment, client, std::move(waiter));
    };
  }
  // A pass of all ranks makes other batches than a rank's.
  SharedBatches* const shared = evaluation.is_of_all_ranks ? nullptr : &catalog_->shared_batches();
  return Evaluation::Open(std::move(epoch), std::move(evaluation), memory_, std::move(make),
                          std::move(wake), shared);
}

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Loader::Rebuild(
    EpochRequest request, const Job::Opened& opened, const Cancellation& cancellation) {
  const bool is_remembered = opened.identity.key == request.key;
  if (!is_remembered && request.adaptive) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", request.key.epoch, " of job ", Quoted(request.key.job),
                     ": the limits of an adaptive job's epoch are known only while it is "
                     "remembered"));
  }
  if (!is_remembered && request.cost_balanced && !request.cost_balanced->cost &&
      HasMeasuredDevice(request)) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", request.key.epoch, " of job ", Quoted(request.key.job),
                     ": what its devices were measured to cost, by which its batches are ordered, "
                     "is known only while it is remembered"));
  }
  if (HasMeasuredDevice(request)) {
    std::shared_ptr<const PlannerResult> plan;
    if (opened.plan != nullptr) {
      PH_ASSIGN_OR_RETURN(plan, ReadHeldPlan(*opened.plan, memory_));
    }
    KeepLimits(opened.identity, plan.get(), request);
  }
  KeepMixing(opened.identity, request);
  if (is_remembered) KeepCosts(opened.identity, request);
  std::optional<KeptPlannerResult> kept = Adopt(opened, request);
  // A plan of an epoch that draws its graphs is for that epoch alone.
  if (request.draw && !is_remembered) kept = std::nullopt;
  PH_ASSIGN_OR_RETURN(auto epoch, PrepareAny(request, /*client=*/"", cancellation, kept));
  if (is_remembered) {
    PH_RETURN_IF_ERROR(CheckSameEpoch(opened.identity, epoch->identity(), "what can be made now"));
    if (epoch->windows() != nullptr) PH_RETURN_IF_ERROR(epoch->windows()->Learn(opened.windows));
  }
  return epoch;
}

}  // namespace packhouse
