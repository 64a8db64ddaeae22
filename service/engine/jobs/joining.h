// The rules by which joins and acknowledgements change the ledger, without threads, leases or a
// log.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOINING_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOINING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/access/client_identity.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/cursor.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/kept_plan.h"
#include "service/engine/jobs/lease_table.h"

namespace packhouse {

class LoadableEpoch;

// How a worker joins. At most one of `generation` and `cursor` is set.
struct JoinRequest {
  // Rank, or, dynamic, rank group.
  uint32_t queue = 0;
  // Ranked: which of the rank's steps it gets.
  Reader reader;
  // Dynamic: the worker's name, the same each time that it joins.
  std::string worker;
  Sharing sharing;
  // Dynamic: does not wait for batches that are leased to others.
  bool ends_when_all_leased = false;
  // Names one start of the trainer, and is the same for all of its workers; new after each restart.
  // Empty: no name; see PlanJoin().
  std::string attempt;
  // For a worker that only lost its stream and has kept all received batches. It goes on in this
  // generation or fails.
  std::optional<uint64_t> generation;
  // For a trainer that has restarted from a checkpoint.
  std::optional<Cursor> cursor;
  // What the planner found for the epoch. It is kept with the epoch if none is kept yet. Null:
  // nothing to keep.
  std::shared_ptr<const KeptPlan> plan;
  // What it loads, for people who look on.
  std::weak_ptr<const LoadableEpoch> epoch;
  // Of an epoch with windows: batches of the first ones, as far as they are known. They are kept if
  // they are more than those that are kept already.
  std::vector<uint32_t> windows;
  // A packhouse.v1.EpochSpec (EpochWorded), kept if this opens the epoch. Empty: nothing to keep.
  std::string words;
  // The worker's client, which owns the epoch if this opens it. Empty: not known.
  ClientId client;
  // When it joins.
  absl::Time now = absl::UnixEpoch();
};

struct JoinPlan {
  // To be made durable, all or none; may be empty.
  std::vector<LedgerEvent> events;
  // Set if this worker is the first of a generation: the generation's dealing.
  std::optional<Dealing> starts;
  // The epoch is not in the ledger yet.
  bool opens = false;
};

// The most dynamic workers that a generation remembers.
inline constexpr size_t kMaxWorkers = 65536;

// Last uses of an epoch are written at most this often: they need not be exact.
inline constexpr absl::Duration kUseGranularity = absl::Hours(1);

// A cursor may name any generation up to this one, or up to the last that was drawn, so that
// invented cursors cannot use up the numbers.
inline constexpr uint64_t kMaxNamedGeneration = uint64_t{1} << 62;

// The reason why the ledger does not have an epoch: FAILED_PRECONDITION or NOT_FOUND.
absl::Status NoSuchEpoch(const JobLedger& ledger, const EpochKey& key);

// Plans the join of a worker. `draw_generation` gives a number that was never used and is above the
// given one. The given one is at most kMaxNamedGeneration, or was drawn before.
//
// The worker takes part in the current generation, or starts a new one, which ends all sessions of
// the previous one:
// - With `generation`: in that one; FAILED_PRECONDITION if it is not the current one.
// - cursor: in the current one if it started from the same cursor with the same sharing and
//   attempt, and, without an attempt, this rank has not taken part yet. Else the trainer has
//   restarted: a new generation, in which exactly what the cursor has is done; what earlier
//   trainers did of the job's later epochs is forgotten with it. Once all ranks
//   have joined, nothing in their generation was acknowledged by an earlier trainer. Dynamic: an
//   attempt is needed, as there one cannot tell from the workers' names.
// - neither: in the current one if sharing and attempt are the same (or there is no attempt);
//   else a new one, in which what was acknowledged is done.
//
// Errors: FAILED_PRECONDITION naming both for a cursor of another epoch, for an epoch that was
// opened with another identity, and for a `generation` that has other sharing or is over.
// FAILED_PRECONDITION also for a cursor of an epoch that was forgotten because nobody had used it
// for long. INVALID_ARGUMENT naming a queue that is not there, for no worker name, for both a
// generation and a cursor, for a cursor without attempt or rank, for a cursor of a generation that
// no server gives, or as Dealing and CheckIdentity; RESOURCE_EXHAUSTED for kMaxWorkers. O(batches)
// if it starts a generation.
absl::StatusOr<JoinPlan> PlanJoin(const JobLedger& ledger, const EpochIdentity& identity,
                                  const JoinRequest& request,
                                  absl::FunctionRef<uint64_t(uint64_t above)> draw_generation);

// What a worker would find that joined now.
struct JoinForecast {
  // If it takes part in the current generation, without what is done of its steps.
  EpochShare share;
  // Its join would start a generation.
  bool starts = false;
};

// Errors as PlanJoin, except for those of numbers of workers and of batches that no rank takes.
// O(runs and ranks).
absl::StatusOr<JoinForecast> ForecastJoin(const JobLedger& ledger, const EpochIdentity& identity,
                                          const JoinRequest& request);

// The share of a queue in a generation that goes on from `base`, without what is done of its steps.
// `windows` as EpochState::windows. Errors as Dealing::QueueLength.
absl::StatusOr<EpochShare> ShareOf(const EpochIdentity& identity,
                                   absl::Span<const uint32_t> windows, const BatchSet& base,
                                   const Sharing& sharing, uint32_t queue);

// How the batches that are left are dealt, as far as they are known. Errors as Dealing.
absl::StatusOr<Dealing> DealingOf(const EpochIdentity& identity, absl::Span<const uint32_t> windows,
                                  const BatchSet& base, const Sharing& sharing);

// Generations of a cluster that was restored from a backup are above these: what is restored has
// forgotten some that were drawn. `began`: LivingStore::began() (stores/keys/cluster_life.h).
inline constexpr int kGenerationBits = 20;
inline constexpr uint64_t kFirstRestore = 1'000'000'000;
inline uint64_t FormerGenerations(uint64_t began) { return began << kGenerationBits; }

// OK if `generation` is the epoch's current one. Otherwise NOT_FOUND or FAILED_PRECONDITION, naming
// both: the worker belongs to a trainer that has been rolled back, and must stop.
// FAILED_PRECONDITION saying so if it is of before the cluster was restored, whatever the epoch is
// now.
absl::Status CheckGeneration(const JobLedger& ledger, const EpochKey& key, uint64_t generation);

// The event that the epoch is used, if it is time to write one.
std::optional<EpochUsed> UseToWrite(const EpochState& state, absl::Time now);

uint64_t SecondsOf(absl::Time time);

// The cursor for a state's identity and generation.
std::string CursorOf(const EpochState& state, const BatchSet& done);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOINING_H_
