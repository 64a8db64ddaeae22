#include "service/engine/jobs/loader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/mixing.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/jobs/event_codec.h"
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
absl::Status MakeSegment(const SegmentedEpoch& epoch, uint32_t segment, bool is_ahead,
                         const Making& making) {
  absl::Status status = NoMemoryForWindow();
  HasMemoryFor([&] { status = epoch.MakeSegment(segment, is_ahead, making); });
  // It is asked for again when it is needed; until then nothing has failed.
  if (is_ahead || status.ok()) return absl::OkStatus();
  return absl::Status(WindowPlans::MayPass(status) ? absl::StatusCode::kUnavailable : status.code(),
                      absl::StrCat("segment ", segment, ": ", status.message()));
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
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event));
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
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event));
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
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event));
  seat_->is_making = false;
  return event;
}

namespace {

// No worker goes on in a generation that was dealt before a restore (Loader::Open()): batches that
// it has are dealt again.
absl::Status LeaveFormerGenerations(uint64_t former, JobLedger& ledger, RecordLog& log) {
  PH_RETURN_IF_ERROR(ledger.Apply(GenerationsUsed{"", former}));
  std::vector<std::string> records;
  for (const EpochKey& key : ledger.Epochs()) {
    const EpochState& state = *ledger.Find(key);
    if (state.generation == 0 || state.generation > former) continue;
    const LedgerEvent event = GenerationStarted{key, ledger.last_generation() + 1, state.attempt,
                                                state.sharing, state.DoneWithoutPadding()};
    PH_RETURN_IF_ERROR(ledger.Apply(event));
    records.push_back(EncodeEvent(event));
  }
  return records.empty() ? absl::OkStatus() : log.Append(records);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> Loader::Open(EpochCatalog* catalog, RecordLog* log,
                                                     const LoaderOptions& options,
                                                     SessionId first_session, MemoryBudget* memory,
                                                     uint64_t former_generations) {
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> records, log->ReadAll());
  PH_ASSIGN_OR_RETURN(JobLedger ledger, JobLedger::Replay(records));
  PH_RETURN_IF_ERROR(LeaveFormerGenerations(former_generations, ledger, *log));
  return std::unique_ptr<Loader>(new Loader(catalog, log, options, std::move(ledger),
                                            records.size(), first_session, memory,
                                            former_generations));
}

Loader::Loader(EpochCatalog* catalog, RecordLog* log, const LoaderOptions& options,
               JobLedger ledger, size_t num_records, SessionId first_session, MemoryBudget* memory,
               uint64_t former_generations)
    : catalog_(catalog),
      options_(options),
      writer_(log, options.max_log_records, num_records, ledger.last_generation(),
              options.gathering),
      quota_(options.max_epochs, options.max_epochs_per_client, options.quotas_of,
             options.epochs_here),
      environment_({&writer_, &quota_, memory,
                    [this](std::function<void()> work) { InBackground(std::move(work)); },
                    options.lease_duration, options.kept_finished_epochs, options.gather_joins,
                    options.epoch_retention}),
      next_session_(first_session),
      former_generations_(former_generations) {
  for (const EpochKey& key : ledger.Epochs())
    quota_.TakeAnyway({ledger.Find(key)->client, key.job});
  for (auto& [name, part] : std::move(ledger).SplitByJob()) {
    jobs_[name].job = std::make_shared<Job>(name, std::move(part), &environment_);
  }
}

Loader::~Loader() {
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

// --- The map of jobs.

std::shared_ptr<Job> Loader::Pin(Entry& entry) {
  ++entry.num_pins;
  return std::shared_ptr<Job>(entry.job.get(),
                              [this, job = entry.job](Job* /*same*/) { Unpin(*job); });
}

std::shared_ptr<Job> Loader::Find(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : Pin(found->second);
}

std::shared_ptr<Job> Loader::FindOrCreate(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = jobs_[name];
  if (entry.job == nullptr) {
    JobLedger ledger;
    // Of an epoch that was lost with a restore, workers may still come.
    (void)ledger.Apply(GenerationsUsed{"", former_generations_});
    entry.job = std::make_shared<Job>(name, std::move(ledger), &environment_);
  }
  return Pin(entry);
}

void Loader::Unpin(Job& job) {
  std::shared_ptr<Job> gone;  // Destroyed without the mutex.
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(job.name());
  // Without pins nothing is under way, and nothing can begin.
  if (--found->second.num_pins != 0 || !job.IsForgotten()) return;
  job.AddTo(gone_);
  gone = std::move(found->second.job);
  jobs_.erase(found);
}

std::vector<std::shared_ptr<Job>> Loader::Jobs() const {
  std::vector<std::shared_ptr<Job>> jobs;
  absl::MutexLock lock(&mutex_);
  jobs.reserve(jobs_.size());
  for (const auto& [name, entry] : jobs_) jobs.push_back(entry.job);
  return jobs;
}

// --- Epochs.

std::optional<KeptPlannerResult> Loader::Adopt(const std::optional<Cursor>& cursor,
                                               EpochRequest& request) {
  std::optional<Job::Opened> opened;
  const auto job = Find(request.key.job);
  if (job != nullptr) opened = job->OpenedAs(request.key.epoch);
  if (!opened && cursor) opened = Job::Opened{cursor->identity, nullptr, "", {}};
  if (opened) KeepMixing(opened->identity, request);
  // Epochs in segments have the same numbers of batches, which take long to count.
  const bool is_other = request.segments && (!opened || opened->plan == nullptr);
  if (is_other && job != nullptr) opened = job->OpenedNear(request.key.epoch);
  if (!opened) return std::nullopt;
  auto kept = Adopt(*opened, request);
  if (kept) kept->is_of_other_epoch = is_other;
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
      [plan = opened.plan, memory = environment_.memory] { return ReadHeldPlan(*plan, memory); }};
}

std::shared_ptr<const MeasuredLimits::Measured> Loader::FixMeasured(EpochRequest& request) {
  return measured_limits_.Fix(Find(request.key.job).get(), environment_.memory, request);
}

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Loader::Prepare(
    const EpochRequest& request, const GivenUp& given_up,
    const std::optional<KeptPlannerResult>& kept) {
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedEpoch> prepared,
                      catalog_->Prepare(request, given_up, kept));
  const PreparedEpoch* const epoch = prepared.get();
  auto let_go = [this, prepared = std::move(prepared)](const PreparedEpoch* /*same*/) mutable {
    InBackground([held = std::move(prepared)] {});
  };
  return std::shared_ptr<const PreparedEpoch>(epoch, std::move(let_go));
}

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Loader::PrepareAny(
    const EpochRequest& request, const ClientId& client, const GivenUp& given_up,
    const std::optional<KeptPlannerResult>& kept) {
  if (request.samples) {
    return catalog_->PrepareSampled(request, given_up,
                                    [&](std::shared_ptr<const SampledEpoch> epoch) {
                                      return PlanFirstWindow(client, std::move(epoch), given_up);
                                    });
  }
  if (request.segments) return catalog_->PrepareSegmented(request, given_up, kept);
  if (request.join_parts) return catalog_->PrepareJoined(request, given_up);
  return Prepare(request, given_up, kept);
}

void Loader::PlanSoon(const ClientId& client, WindowOrder order, Planning work) {
  plan_executor_(client, order,
                 [counted = CountInBackground(),
                  work = std::move(work)](const std::function<bool()>& given_up) mutable {
                   work(given_up);
                   work = nullptr;
                   counted = nullptr;
                 });
}

absl::Status Loader::PlanFirstWindow(const ClientId& client,
                                     std::shared_ptr<const SampledEpoch> epoch,
                                     const GivenUp& given_up) {
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
             HasMemoryFor([&] {
               const auto is_over = [&] { return result->is_unwanted || gone(); };
               status = epoch->Plan(0, Making(catalog_->memory(), is_over));
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
    if (!given_up.WhileWaiting()) continue;
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
       is_ahead = order == WindowOrder::kLater](const std::function<bool()>& given_up) mutable {
        absl::Status status = NoMemoryForWindow();
        const auto is_over = [&] { return given_up() || !job->Has(number, opening); };
        const Making making(catalog_->memory(), is_over);
        std::vector<uint32_t> counts;
        if (const SegmentedEpoch* const segmented = epoch->segmented()) {
          status = MakeSegment(*segmented, static_cast<uint32_t>(window), is_ahead, making);
        } else {
          HasMemoryFor([&] { status = epoch->windows()->Plan(window, making); });
          counts = epoch->windows()->Counts();
        }
        job->WindowPlanned(number, opening, window, std::move(counts), status);
        epoch = nullptr;
        job = nullptr;
      });
}

void Loader::MakeSegmentSoon(std::shared_ptr<const SegmentedEpoch> epoch, uint32_t segment,
                             const ClientId& client, SegmentMakings::Waiter waiter) {
  const bool is_ahead = waiter.is_ahead;
  auto order = segment_makings_.Add(std::move(epoch), segment, std::move(waiter));
  if (order == nullptr) return;
  PlanSoon(client, is_ahead ? WindowOrder::kLater : WindowOrder::kFirst,
           [this, order = std::move(order), segment,
            is_ahead](const std::function<bool()>& given_up) mutable {
             if (order->Begin()) {
               const auto is_over = [&] { return given_up() || order->IsOver(); };
               order->End(MakeSegment(order->epoch(), segment, is_ahead,
                                      Making(catalog_->memory(), is_over)));
             }
             order = nullptr;
           });
}

absl::StatusOr<Loader::Description> Loader::Describe(EpochRequest request,
                                                     const GivenUp& given_up) {
  const auto measured = FixMeasured(request);
  const auto kept = Adopt(std::nullopt, request);
  PH_ASSIGN_OR_RETURN(auto epoch, PrepareAny(request, /*client=*/"", given_up, kept));
  EpochProgress progress = {request.key, 0, 0, epoch->identity().num_batches()};
  if (const auto job = Find(request.key.job)) {
    PH_ASSIGN_OR_RETURN(progress, job->ProgressOf(epoch->identity()));
  }
  return Description{std::move(epoch), std::move(progress)};
}

absl::StatusOr<std::unique_ptr<LoadSession>> Loader::StartLoad(EpochRequest request,
                                                               JoinRequest join,
                                                               size_t max_in_flight,
                                                               std::function<void()> wake,
                                                               const GivenUp& given_up) {
  auto measured = FixMeasured(request);
  // Of an epoch that is not in the ledger any more, the cursor knows the limits.
  if (measured != nullptr && join.cursor) KeepLimits(join.cursor->identity, nullptr, request);
  const auto kept = Adopt(join.cursor, request);
  PH_ASSIGN_OR_RETURN(auto prepared, PrepareAny(request, join.client, given_up, kept));
  if (prepared->windows() != nullptr) {
    join.windows = prepared->windows()->Counts();
  } else if (prepared->segmented() != nullptr) {
    join.plan = KeepPlan(*prepared->segmented()->plan().planned());
  } else if (!kept && prepared->joined() == nullptr) {
    const auto& of_dataset = static_cast<const PreparedEpoch&>(*prepared);
    join.plan = KeepPlan(*of_dataset.plan().planned());
    LogLimits(options_.log, request, of_dataset);
  }
  std::shared_ptr<Job> job = FindOrCreate(request.key.job);
  const SessionId id = next_session_.fetch_add(1, std::memory_order_relaxed);
  auto plan = [this, pinned = job, key = request.key, epoch = prepared, client = join.client](
                  uint64_t opening, uint64_t window, bool is_first) {
    PlanWindow(pinned, key, opening, epoch, window,
               is_first ? WindowOrder::kFirst : WindowOrder::kLater, client);
  };
  auto seat = job->StartJoin(prepared->identity(), std::move(join), id, max_in_flight,
                             std::move(wake), job);
  CompactIfDue();
  auto session = std::unique_ptr<LoadSession>(
      new LoadSession(std::move(job), std::move(seat), std::move(prepared), std::move(plan)));
  session->measured_ = std::move(measured);
  return session;
}

absl::StatusOr<std::unique_ptr<LoadSession>> Loader::Load(EpochRequest request, JoinRequest join,
                                                          size_t max_in_flight,
                                                          std::function<void()> wake,
                                                          const GivenUp& given_up) {
  PH_ASSIGN_OR_RETURN(auto session, StartLoad(std::move(request), std::move(join), max_in_flight,
                                              std::move(wake), given_up));
  session->job_->AwaitStarted(*session->seat_);
  PH_RETURN_IF_ERROR(session->HasJoined().status());
  return session;
}

absl::StatusOr<std::unique_ptr<Evaluation>> Loader::Evaluate(const EpochRequest& request,
                                                             EvaluationRequest evaluation,
                                                             const ClientId& client,
                                                             std::function<void()> wake,
                                                             const GivenUp& given_up) {
  if (request.samples) {
    return absl::InvalidArgumentError(
        "evaluation: not of sub-graphs; a data set of them (SampleDataset) can be evaluated");
  }
  if (request.join_parts) return absl::InvalidArgumentError("join_parts: not for an evaluation");
  if (request.segments) {
    PH_ASSIGN_OR_RETURN(auto epoch, catalog_->PrepareSegmented(request, given_up));
    auto make = [this, epoch, client](uint32_t segment, SegmentMakings::Waiter waiter) {
      MakeSegmentSoon(epoch, segment, client, std::move(waiter));
    };
    return Evaluation::Open(std::move(epoch), std::move(evaluation), environment_.memory,
                            std::move(make), std::move(wake));
  }
  PH_ASSIGN_OR_RETURN(auto prepared, Prepare(request, given_up));
  return Evaluation::Open(std::move(prepared), std::move(evaluation), environment_.memory);
}

absl::StatusOr<Job::Opened> Loader::OpenedNear(const EpochKey& key) {
  if (const std::shared_ptr<Job> job = Find(key.job)) {
    if (std::optional<Job::Opened> opened = job->OpenedNear(key.epoch)) return *std::move(opened);
  }
  return absl::NotFoundError(absl::StrCat("job ", Quoted(key.job), ": has no epochs"));
}

absl::StatusOr<Loader::Planned> Loader::FindPlan(
    absl::string_view receipt, absl::FunctionRef<bool(const EpochIdentity&)> may_show) {
  for (const std::shared_ptr<Job>& job : Jobs()) {
    std::optional<Job::Opened> opened = job->OpenedWithPlan(receipt, may_show);
    if (!opened) continue;
    PH_ASSIGN_OR_RETURN(auto plan, ReadHeldPlan(*opened->plan, environment_.memory));
    return Planned{*std::move(opened), std::move(plan)};
  }
  return absl::NotFoundError(
      absl::StrCat("receipt ", Quoted(receipt),
                   ": no epoch that is remembered has it; name the histogram "
                   "or the data set that it is for"));
}

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Loader::Rebuild(EpochRequest request,
                                                                     const Job::Opened& opened,
                                                                     const GivenUp& given_up) {
  const bool is_remembered = opened.identity.key == request.key;
  if (!is_remembered && request.adaptive) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", request.key.epoch, " of job ", Quoted(request.key.job),
                     ": the limits of an adaptive job's epoch are known only while it is "
                     "remembered"));
  }
  if (HasMeasuredDevice(request)) {
    std::shared_ptr<const PlannerResult> plan;
    if (opened.plan != nullptr) {
      PH_ASSIGN_OR_RETURN(plan, ReadHeldPlan(*opened.plan, environment_.memory));
    }
    KeepLimits(opened.identity, plan.get(), request);
  }
  KeepMixing(opened.identity, request);
  std::optional<KeptPlannerResult> kept = Adopt(opened, request);
  // A plan of an epoch that draws its graphs is for that epoch alone.
  if (request.draw && !is_remembered) kept = std::nullopt;
  PH_ASSIGN_OR_RETURN(auto epoch, PrepareAny(request, /*client=*/"", given_up, kept));
  if (is_remembered) {
    PH_RETURN_IF_ERROR(CheckSameEpoch(opened.identity, epoch->identity(), "what can be made now"));
    if (epoch->windows() != nullptr) PH_RETURN_IF_ERROR(epoch->windows()->Learn(opened.windows));
  }
  return epoch;
}

absl::StatusOr<AcknowledgeResult> Loader::Acknowledge(const EpochKey& key, SessionId session,
                                                      uint64_t generation,
                                                      absl::Span<const uint64_t> batches,
                                                      absl::Time now) {
  const std::shared_ptr<Job> job = Find(key.job);
  if (job == nullptr) return NoSuchEpoch(JobLedger(), key);
  auto result = job->Acknowledge(key.epoch, session, generation, batches, now);
  CompactIfDue();
  return result;
}

absl::StatusOr<std::string> Loader::CursorAtStep(const EpochKey& key, uint64_t generation,
                                                 uint64_t steps) {
  const std::shared_ptr<Job> job = Find(key.job);
  if (job == nullptr) return NoSuchEpoch(JobLedger(), key);
  return job->CursorAtStep(key.epoch, generation, steps);
}

namespace {

JobSummary SummaryOf(const Job& job, size_t max_epochs) {
  JobSummary summary;
  summary.name = job.name();
  summary.epochs = job.Epochs();
  summary.num_epochs = summary.epochs.size();
  for (const EpochSummary& epoch : summary.epochs) {
    summary.num_sessions += epoch.num_sessions;
    summary.used_seconds = std::max(summary.used_seconds, epoch.used_seconds);
  }
  if (summary.epochs.size() > max_epochs) summary.epochs.resize(max_epochs);
  return summary;
}

}  // namespace

JobList Loader::ListJobs(size_t page_size, const std::string& page_token) const {
  page_size = std::min(page_size == 0 ? size_t{100} : page_size, kMaxPageSize);
  std::vector<std::shared_ptr<Job>> jobs;
  JobList list;
  {
    absl::MutexLock lock(&mutex_);
    auto entry = jobs_.upper_bound(page_token);
    for (; entry != jobs_.end() && jobs.size() < page_size; ++entry) {
      jobs.push_back(entry->second.job);
    }
    if (entry != jobs_.end()) list.next_page_token = jobs.back()->name();
  }
  for (const std::shared_ptr<Job>& job : jobs) {
    JobSummary summary = SummaryOf(*job, kMaxListedEpochs);
    if (summary.num_epochs != 0) list.jobs.push_back(std::move(summary));
  }
  return list;
}

absl::StatusOr<JobSummary> Loader::GetJob(const std::string& job) const {
  std::shared_ptr<Job> found;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto entry = jobs_.find(job); entry != jobs_.end()) found = entry->second.job;
  }
  if (found != nullptr) {
    JobSummary summary = SummaryOf(*found, kMaxShownEpochs);
    if (summary.num_epochs != 0) return summary;
  }
  return absl::NotFoundError(absl::StrCat("job ", Quoted(job), ": has no epochs"));
}

std::vector<EpochWatch> Loader::WatchJob(const std::string& job) const {
  std::shared_ptr<Job> found;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto entry = jobs_.find(job); entry != jobs_.end()) found = entry->second.job;
  }
  return found == nullptr ? std::vector<EpochWatch>() : found->Watch();
}

absl::Status Loader::DeleteJob(const std::string& job) {
  const std::shared_ptr<Job> found = Find(job);
  if (found == nullptr)
    return absl::NotFoundError(absl::StrCat("job ", Quoted(job), ": has no epochs"));
  const absl::Status status = found->Forget();
  CompactIfDue();
  return status;
}

absl::StatusOr<size_t> Loader::ForgetUnused(absl::Time now) {
  size_t forgotten = 0;
  for (const std::shared_ptr<Job>& job : Jobs()) {
    const std::shared_ptr<Job> pinned = Find(job->name());
    if (pinned == nullptr) continue;
    pinned->Rest();
    PH_ASSIGN_OR_RETURN(const size_t of_job, pinned->ForgetUnused(now));
    forgotten += of_job;
  }
  CompactIfDue();
  return forgotten;
}

// --- The log.

void Loader::CompactIfDue() {
  if (!writer_.TakeDue()) return;
  InBackground([this] {
    writer_.Compact([this] {
      std::vector<std::string> records;
      for (const std::shared_ptr<Job>& job : Jobs()) {
        std::vector<std::string> own = job->ForkLedger().EpochRecords();
        std::move(own.begin(), own.end(), std::back_inserter(records));
      }
      return records;
    });
  });
}

// --- Leases.

void Loader::Expire(absl::Time now) {
  for (const std::shared_ptr<Job>& job : Jobs()) job->Expire(now);
}

absl::Time Loader::NextExpiry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const std::shared_ptr<Job>& job : Jobs()) next = std::min(next, job->NextExpiry());
  return next;
}

size_t Loader::num_jobs() const {
  absl::MutexLock lock(&mutex_);
  return jobs_.size();
}

std::vector<SessionSummary> Loader::Sessions() const {
  std::vector<SessionSummary> sessions;
  for (const std::shared_ptr<Job>& job : Jobs()) {
    std::vector<SessionSummary> of_job = job->Sessions();
    sessions.insert(sessions.end(), std::make_move_iterator(of_job.begin()),
                    std::make_move_iterator(of_job.end()));
  }
  return sessions;
}

DeliverySnapshot Loader::Snapshot() const {
  DeliverySnapshot snapshot;
  {
    absl::MutexLock lock(&mutex_);
    snapshot = gone_;
  }
  snapshot.num_epochs = quota_.num_epochs();
  for (const std::shared_ptr<Job>& job : Jobs()) job->AddTo(snapshot);
  return snapshot;
}

}  // namespace packhouse
