// The leases of one generation of an epoch: which session has which batch. Leases are forgotten
// when the server stops; what must last is in the ledger (job_ledger.h).
//
// A batch is waiting, leased to a session, or done. A session is one stream of one worker, and
// lives as long as the stream; a worker that comes back has a new one.
//
// What holds:
// - A batch is done once, by the first acknowledgement from any sender, even from a session whose
//   lease has expired or that is gone. Further acknowledgements are counted as duplicates and
//   change nothing. If two workers have a batch because a lease expired, it may be trained on
//   twice, but counts once.
// - A batch is leased to at most one session at a time, and is never sent twice to the same
// session.
// - A batch that is given back is leased next in its queue, before all later ones: a rank gets its
//   steps in order.
// - A place always has the same batch, and the items of a batch are fixed (epoch_batches.h), so a
//   redelivery has the same bytes.
// - Ranked: a queue belongs to its rank's latest session, which takes over the batches that the
//   previous session has not acknowledged. Leases do not expire, since no other worker could do the
//   work. Several readers may share a queue; then the same holds for each of them.
// - Dynamic: a lease may expire; then another session may get the batch. An acknowledgement shows
//   that the owners of its batches and its sender are alive. It renews all leases of its sender,
//   and of the sessions that have the leases of its batches (or had them last, if they have
//   expired). Batches in flight of a session that ended in good order (SessionEnded) stay leased to
//   it, since they are still being worked on.
// - Waiting sessions are woken. A session that Next() has told to wait is in TakeWoken() as soon as
//   Next() would tell it something else, for any reason: an acknowledgement, a session that goes or
//   loses its queue, an expiry. This is the one place that decides it.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LEASE_TABLE_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LEASE_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/epoch_watch.h"

namespace packhouse {

// Chosen by the caller; never used again for another stream.
using SessionId = uint64_t;

// Ranked: reader `number` of `count` gets the steps number, number + count, ... of its rank's
// queue.
struct Reader {
  uint32_t number = 0;
  uint32_t count = 1;

  friend bool operator==(const Reader&, const Reader&) = default;
};

enum class LeaseOutcome {
  kLeased,
  // The session has its most unacknowledged batches.
  kTooManyInFlight,
  // All batches that are not done are leased, or were sent to this session before. More may come
  // when a session goes or a lease expires.
  kAllLeased,
  // All batches that are known are done or leased; which others there are will be known.
  kNotKnown,
  // Every batch of the queue, or of the reader's share of it, is done.
  kFinished,
};

struct Lease {
  LeaseOutcome outcome = LeaseOutcome::kFinished;
  // The fields below are for kLeased only.
  uint64_t batch = 0;
  Place place = {};
  bool redelivered = false;
  absl::Time until = absl::InfiniteFuture();
};

// A change, such as an acknowledgement, may be what other sessions wait for. After each call that
// is not const, TakeWoken() has these sessions.
//
// Thread-compatible; no clock of its own. Memory O(unacknowledged batches), besides the dealing and
// the set of done batches.
class LeaseTable {
 public:
  // `done` are batches that were done before the table was made. `sent` are those that an earlier
  // table had leased (its Sent()). Batches that `dealing` does not deal are ignored.
  LeaseTable(Dealing dealing, absl::Duration lease_duration, const BatchSet& done = {},
             const BatchSet& sent = {});

  const Dealing& dealing() const { return *shared_dealing_; }
  // May outlive the table. If it grows, only the table's owner may use it.
  std::shared_ptr<const Dealing> shared_dealing() const { return shared_dealing_; }
  // By rank group, how many of its first batches were leased, or come before one that was.
  absl::Span<const uint64_t> leased_ends() const { return leased_ends_; }

  // Adds a session of a rank or, if dynamic, one that takes batches of a rank group. If the number
  // of readers changes, all sessions of the rank end. INVALID_ARGUMENT for a queue or reader that
  // does not exist; ALREADY_EXISTS for a session id that is in use. O(1), and O(queue) if the
  // number of readers changes.
  absl::Status Join(SessionId session, uint32_t queue, Reader reader = {});

  // Whether a session has joined, and has not gone or lost its queue.
  bool IsPresent(SessionId session) const { return sessions_.contains(session); }

  // Leases the next batch to a session that is present. At most `max_in_flight` batches, at least
  // 1, are sent to it and not done. O(log), and O(max_in_flight) after its leases have expired.
  // Unless the outcome is kLeased or kFinished, the session waits.
  Lease Next(SessionId session, size_t max_in_flight, absl::Time now);
  // What Next() would come to, without leasing anything. Cost as Next().
  LeaseOutcome Peek(SessionId session, size_t max_in_flight) const;

  // The sessions that waited and may go on now, or have no part any more. Each is given once, until
  // it is told to wait again. O(result).
  std::vector<SessionId> TakeWoken() { return std::exchange(woken_, {}); }
  // The waiting sessions, for a table that is about to be destroyed: they must be told.
  std::vector<SessionId> Waiting() const;

  // For a dealing that grows (Dealing::Grow()); otherwise it does nothing. O(new batches).
  void Grow(absl::Span<const uint64_t> num_batches, bool is_all);

  // INVALID_ARGUMENT naming the first batch that this table does not deal.
  absl::Status CheckDealt(absl::Span<const uint64_t> batches) const;

  // Makes dealt batches done, and renews leases. The sender, `session`, need not be present.
  // Returns how many batches were not done before. O(log) for each batch and each lease renewed.
  uint64_t Acknowledge(SessionId session, absl::Span<const uint64_t> batches, absl::Time now);

  // Gives back batches whose leases ended at `now` or earlier; returns how many.
  size_t Expire(absl::Time now);
  // The next time at which Expire() has something to do.
  absl::Time NextExpiry() const;

  // Gives back the batches that a session has not acknowledged. Does nothing if the session is not
  // present.
  void SessionGone(SessionId session);

  // The session takes no more batches, but those that it has not acknowledged are being worked on:
  // they come back only when their leases expire, or with SessionGone. Ranked: as SessionGone.
  void SessionEnded(SessionId session);

  // Batches of a queue that are not done.
  uint64_t NumLeft(uint32_t queue) const {
    return dealing_.queue_length(queue) - queues_[queue].num_done;
  }
  // Steps of a reader of the queue, for its present number of readers; and those of them that are
  // not done.
  uint64_t NumStepsOf(uint32_t queue, Reader reader) const {
    const uint64_t length = dealing_.queue_length(queue);
    return length <= reader.number ? 0 : (length - reader.number - 1) / reader.count + 1;
  }
  uint64_t NumLeftOf(uint32_t queue, Reader reader) const {
    return queues_[queue].shares[reader.number].num_left;
  }

  // Adds what is done of a queue, whose other figures are known.
  void AddTo(EpochShare& share, uint32_t queue) const {
    const uint64_t length = dealing_.queue_length(queue);
    share.num_steps = std::max(share.num_steps, length);
    share.num_steps_done = length - NumLeft(queue);
  }

  // Batches that were sent to the session and are not done.
  std::vector<uint64_t> InFlight(SessionId session) const;

  // Adds its queues, leases and sessions to a watch; the names of workers are not known here.
  // `sessions` has the numbers of the listed workers. O(EpochWatch::kMostListed).
  void AddTo(EpochWatch& watch, std::vector<SessionId>& sessions) const;

  // Batches that were leased at any time and are not done: all that a new table needs to know of
  // this one. O(result).
  BatchSet Sent() const;

  bool finished() const { return dealing_.is_complete() && num_done_ == dealing_.num_places(); }
  uint64_t num_done() const { return num_done_; }
  uint64_t num_leased() const { return num_leased_; }
  size_t num_sessions() const { return sessions_.size(); }
  // Batches that the worker does not work on, although they are in flight, do not count: with
  // `is_making`, the one that was leased last and has not been sent, and as many as it is
  // acknowledging. A session waits for nobody if all batches are leased to others, or none is left
  // for it; nor does one that is not present. O(1).
  SessionWait WaitOf(SessionId session, bool is_making, size_t num_acknowledging = 0) const;
  // Counts since the table was made.
  const LeaseCounters& counters() const { return counters_; }

 private:
  struct Session {
    uint32_t queue;
    Reader reader;
    bool ended = false;
    // Batches that were sent to it and are not done, with or without a valid lease.
    absl::btree_set<uint64_t> in_flight;
    // What Next() last told it, if it waits.
    std::optional<LeaseOutcome> waits_for = std::nullopt;
    // Batches that it made done; as WorkerWatch.
    uint64_t num_acknowledged = 0;
    absl::Time last_heard = absl::InfinitePast();
  };
  // The positions of a queue that are `number` modulo the number of readers.
  struct Share {
    // Positions from here on have not been leased with the present number of readers.
    uint64_t next = 0;
    uint64_t num_left = 0;
    // Ranked: its session.
    std::optional<SessionId> owner;
    // Sessions that wait for one of its batches, or for its end.
    absl::btree_set<SessionId> waiting;
  };
  struct Queue {
    uint64_t num_done = 0;
    // Positions that were leased and must be leased again.
    absl::btree_set<uint64_t> given_back;
    std::vector<Share> shares;
  };
  // The state of a batch that was leased and is not done.
  struct Delivery {
    Place place;
    std::optional<SessionId> holder;
    absl::Time until;
    std::vector<SessionId> sent_to;  // Sessions that are present, in the order of sending.
  };
  using Deliveries = absl::btree_map<uint64_t, Delivery>;

  // Deals the queue's positions to this many readers.
  void ShareQueue(uint32_t queue, uint32_t num_readers);
  Lease LeaseTo(SessionId session, const Place& place, bool redelivered, absl::Time now);
  void MarkDone(uint64_t batch, const Place& place);
  void EndLease(uint64_t batch, Delivery& delivery);
  void GiveBack(uint64_t batch, Delivery& delivery);
  void Renew(SessionId session, absl::Time now);
  Share& ShareOf(const Session& session) {
    return queues_[session.queue].shares[session.reader.number];
  }
  // The share that has this place.
  Share& ShareAt(const Place& place) {
    Queue& queue = queues_[place.queue];
    return queue.shares[place.position % queue.shares.size()];
  }
  // The place of the next batch for a session, or why there is none.
  struct Found {
    LeaseOutcome outcome = LeaseOutcome::kFinished;
    uint64_t position = 0;
    bool redelivered = false;
    // For Share::next: earlier positions need not be looked at again.
    uint64_t next = 0;
  };
  Found FindNext(const Session& session, size_t max_in_flight) const;
  void StopWaiting(SessionId id, Session& session);
  void Wake(SessionId session);
  // Wakes the sessions that wait for one of its batches, or all.
  void WakeShare(const Share& share, bool all);

  const std::shared_ptr<Dealing> shared_dealing_;
  const Dealing& dealing_ = *shared_dealing_;
  const absl::Duration lease_duration_;

  BatchSet done_;
  uint64_t num_done_ = 0;  // How many of the dealt batches are done.
  uint64_t num_leased_ = 0;
  std::vector<uint64_t> leased_ends_;
  std::vector<Queue> queues_;
  absl::btree_map<SessionId, Session> sessions_;
  Deliveries deliveries_;
  absl::btree_set<std::pair<absl::Time, uint64_t>> expiries_;
  LeaseCounters counters_;
  std::vector<SessionId> woken_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LEASE_TABLE_H_
