// One epoch of one job as it is delivered: ledger, dealing and leases together.
//
// Flow of a worker: Join() with its stream's session; Next() for a batch to send, again and again;
// Acknowledge() when the trainer is through with batches, which gives the cursor to keep in the
// checkpoint; SessionGone() when the stream ends. Expire() now and then (NextExpiry()). After the
// server has stopped in any way, Open() with what the log has goes on, and workers join again.
#ifndef PACKHOUSE_SERVICE_DELIVERY_EPOCH_DELIVERY_H_
#define PACKHOUSE_SERVICE_DELIVERY_EPOCH_DELIVERY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/datasets/record_log.h"
#include "service/delivery/cursor.h"
#include "service/delivery/dealing.h"
#include "service/delivery/epoch_identity.h"
#include "service/delivery/job_ledger.h"
#include "service/delivery/lease_table.h"

namespace packhouse {

// How a worker comes in. At most one of `generation` and `cursor` is there.
struct JoinRequest {
  SessionId session = 0;
  // Rank, or, dynamic, profile.
  uint32_t lane = 0;
  // Ranked: which of the rank's steps it gets.
  Reader reader;
  // Dynamic: the worker's name, the same each time that it comes.
  std::string worker;
  Sharing sharing;
  // Dynamic: does not wait for what is leased to others.
  bool ends_when_all_leased = false;
  // Names one start of the trainer, and is the same for all of its workers; new after each restart.
  // Empty: without a name, see Join().
  std::string attempt;
  // Of a worker that only lost its stream, and has kept all that it got: goes on in this generation
  // or not at all.
  std::optional<uint64_t> generation;
  // Of a trainer that has restarted from a checkpoint.
  std::optional<Cursor> cursor;
};

struct JoinResult {
  uint64_t generation = 0;
  // This worker is the first of the generation.
  bool started = false;
  // What was done when the generation started: to load the same again.
  std::string cursor;
};

struct AcknowledgeResult {
  uint64_t num_new = 0;
  std::string cursor;
};

// Thread-compatible, together with its ledger; both outlive it, and so does the log.
//
// Changes wait for the log. Whoever does not want to hold a lock meanwhile calls
// PrepareAcknowledge, appends the record without it, and calls FinishAcknowledge; Acknowledge does
// the three in one.
class EpochDelivery {
 public:
  // Dynamic mode remembers so many workers a generation.
  static constexpr size_t kMaxWorkers = 65536;

  // FAILED_PRECONDITION naming both if the ledger has this epoch with another identity;
  // INVALID_ARGUMENT as CheckIdentity().
  static absl::StatusOr<std::unique_ptr<EpochDelivery>> Open(EpochIdentity identity,
                                                             absl::Duration lease_duration,
                                                             JobLedger* ledger, RecordLog* log);

  // Takes part in the current generation, or starts a new one, which ends all sessions of the one
  // before:
  // - generation: in that one; FAILED_PRECONDITION if it is not the current one.
  // - cursor: in the current one if it started from the same cursor with the same sharing and
  //   attempt, and, without an attempt, this rank has not taken part yet. Else the trainer has
  //   restarted: a new generation, in which exactly what the cursor has is done; what earlier
  //   trainers did of the job's later epochs is forgotten with it. Once all ranks
  //   have joined, nothing in their generation was acknowledged by an earlier trainer. Dynamic: an
  //   attempt is needed, as there one cannot tell from the workers' names.
  // - neither: in the current one if sharing and attempt are the same (or there is no attempt);
  //   else a new one, in which what was acknowledged is done.
  // A rank's new session takes over from the one before; readers of another number from all of its
  // sessions, in the same generation. A dynamic worker's takes over what its last one had in flight
  // when it ended.
  //
  // Errors: FAILED_PRECONDITION naming both for a cursor of another epoch, or with `generation` for
  // other sharing; INVALID_ARGUMENT naming a lane that is not there, for no worker name, for both a
  // generation and a cursor, for a cursor without attempt or rank, or as Dealing; ALREADY_EXISTS
  // for a session that has joined; RESOURCE_EXHAUSTED for kMaxWorkers; those of the log. Then
  // nothing has changed.
  absl::StatusOr<JoinResult> Join(const JoinRequest& request);

  // The next batch for a session; FAILED_PRECONDITION, saying why, if it has no part in the current
  // generation: its stream ends. Requires max_in_flight above 0.
  absl::StatusOr<Lease> Next(SessionId session, size_t max_in_flight, absl::Time now);

  // All or nothing; done when it returns OK. A batch may be acknowledged again, by anyone.
  //
  // Errors: FAILED_PRECONDITION, naming both, unless `generation` is the current one: the worker
  // belongs to a trainer that has been rolled back, and must stop. INVALID_ARGUMENT for a batch
  // that the generation does not deal. Those of the log: then it may be done or not, try again.
  absl::StatusOr<AcknowledgeResult> Acknowledge(SessionId session, uint64_t generation,
                                                absl::Span<const uint64_t> batches, absl::Time now);
  // The event to be appended; nothing if all was done before. Errors as Acknowledge.
  absl::StatusOr<std::optional<BatchesAcknowledged>> PrepareAcknowledge(
      uint64_t generation, absl::Span<const uint64_t> batches) const;
  // Once that is durable. FAILED_PRECONDITION if another generation has started meanwhile.
  absl::StatusOr<AcknowledgeResult> FinishAcknowledge(SessionId session, uint64_t generation,
                                                      absl::Span<const uint64_t> batches,
                                                      absl::Time now);

  // Where the epoch stands when every rank has done `steps` steps of this generation and no more,
  // whatever has been acknowledged: for checkpoints of a trainer whose ranks go in step.
  // FAILED_PRECONDITION as Acknowledge, or if the epoch is not ranked; OUT_OF_RANGE for more steps
  // than there are. O(batches).
  absl::StatusOr<std::string> CursorAtStep(uint64_t generation, uint64_t steps) const;

  size_t Expire(absl::Time now) { return table_ ? table_->Expire(now) : 0; }
  absl::Time NextExpiry() const { return table_ ? table_->NextExpiry() : absl::InfiniteFuture(); }
  void SessionGone(SessionId session) {
    if (table_) table_->SessionGone(session);
  }
  // As LeaseTable; until the worker comes again.
  void SessionEnded(SessionId session, const std::string& worker);

  const EpochIdentity& identity() const { return identity_; }
  // 0 until someone has joined.
  uint64_t generation() const;
  // Null until someone has joined.
  const LeaseTable* table() const { return table_.get(); }
  bool finished() const { return table_ && table_->finished(); }
  // Over all generations since Open().
  LeaseCounters counters() const;

 private:
  EpochDelivery(EpochIdentity identity, absl::Duration lease_duration, JobLedger* ledger,
                RecordLog* log)
      : identity_(std::move(identity)),
        lease_duration_(lease_duration),
        ledger_(ledger),
        log_(log) {}

  const EpochState* state() const { return ledger_->Find(identity_.key); }
  absl::Status CheckRequest(const JoinRequest& request) const;
  absl::Status CheckGeneration(uint64_t generation) const;
  // Whether the request is for the current generation; if not, from where a new one starts.
  absl::StatusOr<std::optional<BatchSet>> BaseOfNewGeneration(const JoinRequest& request) const;
  absl::Status Start(const JoinRequest& request, BatchSet base);
  absl::Status Commit(absl::Span<const LedgerEvent> events);
  std::string CursorOf(const BatchSet& done) const;

  const EpochIdentity identity_;
  const absl::Duration lease_duration_;
  JobLedger* const ledger_;
  RecordLog* const log_;

  // Of the current generation.
  std::unique_ptr<LeaseTable> table_;
  std::map<std::string, SessionId> ended_;  // By worker; may have gone.
  LeaseCounters earlier_;                   // Of generations before it.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_EPOCH_DELIVERY_H_
