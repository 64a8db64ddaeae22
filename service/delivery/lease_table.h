// Who has which batch: the leases of one generation of an epoch. Forgotten when the server stops;
// what must last is in the ledger (job_ledger.h).
//
// A batch is to do, leased to a session, or done. A session is one stream of one worker, and lives
// as long as the stream; a worker that comes back has a new one.
//
// What holds:
// - A batch is done once, by the first acknowledgement, whoever sends it: also by a session whose
//   lease has expired or that is gone. Further ones are counted as duplicates and change nothing. A
//   batch that two workers have because a lease expired is thus trained on twice at most by them,
//   and counted once.
// - A batch is leased to at most one session at a time, and is never sent twice to the same
// session.
// - A batch that is given back is the next to be leased in its lane, before all that come after it:
//   a rank gets its steps in order.
// - What is leased at a place is the same batch each time, and the items of a batch are fixed
//   (epoch_batches.h): a redelivery has the same bytes.
// - Ranked: a lane belongs to its rank's latest session, which takes over what the one before has
//   not acknowledged; leases do not expire, as nobody else could do the work. Several readers may
//   share a lane; what is said of the rank then holds for each of them.
// - Dynamic: a lease expires, and then another session may get the batch. An acknowledgement shows
//   that those are alive whose batches it has, whoever sends it: it renews all leases of the
//   session that has the lease of such a batch (or, if it has expired, had it last), and of its
//   sender. What a session that has ended in good order (SessionEnded) has in flight stays leased
//   to it, as somebody still works on it.
// - Who waits is woken. A session that Next() has told to wait is in TakeWoken() as soon as Next()
//   would tell it something else, whatever brought that about: an acknowledgement, by whomever, a
//   session that goes or loses its lane, an expiry. This is the one place that decides it.
#ifndef PACKHOUSE_SERVICE_DELIVERY_LEASE_TABLE_H_
#define PACKHOUSE_SERVICE_DELIVERY_LEASE_TABLE_H_

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
#include "service/delivery/delivery_snapshot.h"
#include "service/epochs/batch_set.h"
#include "service/epochs/dealing.h"

namespace packhouse {

// Chosen by the caller; never used again for another stream.
using SessionId = uint64_t;

// Ranked: reader `number` of `count` gets the steps number, number + count, ... of its rank's lane.
struct Reader {
  uint32_t number = 0;
  uint32_t count = 1;

  friend bool operator==(const Reader&, const Reader&) = default;
};

enum class LeaseOutcome {
  kLeased,
  // The session has as many unacknowledged batches as it may have.
  kTooManyInFlight,
  // All that is not done is leased, or was sent to this session before. More may come when a
  // session goes or a lease expires.
  kAllLeased,
  // Every batch of the lane, or of the reader's share of it, is done.
  kFinished,
};

struct Lease {
  LeaseOutcome outcome = LeaseOutcome::kFinished;
  // The rest for kLeased only.
  uint64_t batch = 0;
  Place place = {};
  bool redelivered = false;
  absl::Time until = absl::InfiniteFuture();
};

// What an acknowledgement or whatever else changed, other sessions may have been told to wait for:
// after each call that is not const, TakeWoken() says whom.
//
// Thread-compatible; no clock of its own. Memory O(unacknowledged batches), besides the dealing and
// the set of what is done.
class LeaseTable {
 public:
  // `done` are batches that were done before the table was made, `sent` those that were leased
  // before: by an earlier table, of which Sent() tells. Those that `dealing` does not deal are
  // ignored.
  LeaseTable(Dealing dealing, absl::Duration lease_duration, const BatchSet& done = {},
             const BatchSet& sent = {});

  const Dealing& dealing() const { return *shared_dealing_; }
  // May outlive the table.
  const std::shared_ptr<const Dealing>& shared_dealing() const { return shared_dealing_; }

  // A session of a rank, or, dynamic, one that takes batches of a rank group. Readers of another
  // number end all sessions of the rank. INVALID_ARGUMENT for a lane or reader that is not there;
  // ALREADY_EXISTS for a session id that is in use. O(1), and O(lane) if the number of readers
  // changes.
  absl::Status Join(SessionId session, uint32_t lane, Reader reader = {});

  // Whether a session has joined and has neither gone nor lost its lane.
  bool IsPresent(SessionId session) const { return sessions_.contains(session); }

  // Leases the next batch to a session that is present. At most `max_in_flight` batches, at least
  // 1, are sent to it and not done. O(log), and O(max_in_flight) after its leases have expired.
  // Unless the outcome is kLeased or kFinished, the session waits.
  Lease Next(SessionId session, size_t max_in_flight, absl::Time now);
  // What Next() would come to, without leasing anything. Cost as Next().
  LeaseOutcome Peek(SessionId session, size_t max_in_flight) const;

  // The sessions that waited and may go on now, or have no part any more, each once until it is
  // told to wait again. O(result).
  std::vector<SessionId> TakeWoken() { return std::exchange(woken_, {}); }
  // Those that wait, as the table is about to go: they must be told.
  std::vector<SessionId> Waiting() const;

  // INVALID_ARGUMENT naming the first batch that this table does not deal.
  absl::Status CheckDealt(absl::Span<const uint64_t> batches) const;

  // Makes batches done that are dealt, and renews leases; the sender, `session`, need not be
  // present. Returns how many were not done before. O(log) for each batch and each lease renewed.
  uint64_t Acknowledge(SessionId session, absl::Span<const uint64_t> batches, absl::Time now);

  // Gives back what was leased until `now` or earlier; returns how many batches that were.
  size_t Expire(absl::Time now);
  // When Expire() will next have something to do.
  absl::Time NextExpiry() const;

  // Gives back what a session has not acknowledged. Nothing happens if it is not present.
  void SessionGone(SessionId session);

  // Will take no more, but what it has not acknowledged is being worked on: that comes back only
  // when its leases expire, or with SessionGone. Ranked: as SessionGone.
  void SessionEnded(SessionId session);

  // Not done of a lane.
  uint64_t NumLeft(uint32_t lane) const {
    return dealing_.lane_length(lane) - lanes_[lane].num_done;
  }
  // Steps of a reader of the lane, if it has as many readers now, and those of them not done.
  uint64_t NumStepsOf(uint32_t lane, Reader reader) const {
    const uint64_t length = dealing_.lane_length(lane);
    return length <= reader.number ? 0 : (length - reader.number - 1) / reader.count + 1;
  }
  uint64_t NumLeftOf(uint32_t lane, Reader reader) const {
    return lanes_[lane].shares[reader.number].num_left;
  }

  // Sent to the session and not done.
  std::vector<uint64_t> InFlight(SessionId session) const;

  // Leased at any time and not done: all that a new table need know of this one. O(result).
  BatchSet Sent() const;

  bool finished() const { return num_done_ == dealing_.num_places(); }
  uint64_t num_done() const { return num_done_; }
  uint64_t num_leased() const { return num_leased_; }
  size_t num_sessions() const { return sessions_.size(); }
  // Since the table was made.
  const LeaseCounters& counters() const { return counters_; }

 private:
  struct Session {
    uint32_t lane;
    Reader reader;
    bool ended = false;
    // Sent to it and not done, whether its lease still holds or not.
    absl::btree_set<uint64_t> in_flight;
    // What Next() told it last, if it waits.
    std::optional<LeaseOutcome> waits_for = std::nullopt;
  };
  // Of a lane's positions those that are `number` modulo the number of readers.
  struct Share {
    // Positions from here on have not been leased since the readers became so many.
    uint64_t next = 0;
    uint64_t num_left = 0;
    // Ranked: whose it is.
    std::optional<SessionId> owner;
    // Sessions that wait for a batch of it, or for its end.
    absl::btree_set<SessionId> waiting;
  };
  struct Lane {
    uint64_t num_done = 0;
    // Positions that were leased and are to do.
    absl::btree_set<uint64_t> given_back;
    std::vector<Share> shares;
  };
  // Of a batch that was leased and is not done.
  struct Delivery {
    Place place;
    std::optional<SessionId> holder;
    absl::Time until;
    std::vector<SessionId> sent_to;  // Sessions that are present, in the order of sending.
  };
  using Deliveries = absl::btree_map<uint64_t, Delivery>;

  // Deals the lane's positions to so many readers.
  void ShareLane(uint32_t lane, uint32_t num_readers);
  Lease LeaseTo(SessionId session, const Place& place, bool redelivered, absl::Time now);
  void MarkDone(uint64_t batch, const Place& place);
  void EndLease(uint64_t batch, Delivery& delivery);
  void GiveBack(uint64_t batch, Delivery& delivery);
  void Renew(SessionId session, absl::Time now);
  Share& ShareOf(const Session& session) {
    return lanes_[session.lane].shares[session.reader.number];
  }
  // Of those who read this place.
  Share& ShareAt(const Place& place) {
    Lane& lane = lanes_[place.lane];
    return lane.shares[place.position % lane.shares.size()];
  }
  // Where the next batch for a session is, or why there is none.
  struct Found {
    LeaseOutcome outcome = LeaseOutcome::kFinished;
    uint64_t position = 0;
    bool redelivered = false;
    // For Share::next: what is before it need not be looked at again.
    uint64_t next = 0;
  };
  Found FindNext(const Session& session, size_t max_in_flight) const;
  void StopWaiting(SessionId id, Session& session);
  void Wake(SessionId session);
  // Those that wait for a batch of it, or all.
  void WakeShare(const Share& share, bool all);

  const std::shared_ptr<const Dealing> shared_dealing_;
  const Dealing& dealing_ = *shared_dealing_;
  const absl::Duration lease_duration_;

  BatchSet done_;
  uint64_t num_done_ = 0;  // Of those that are dealt.
  uint64_t num_leased_ = 0;
  std::vector<Lane> lanes_;
  absl::btree_map<SessionId, Session> sessions_;
  Deliveries deliveries_;
  absl::btree_set<std::pair<absl::Time, uint64_t>> expiries_;
  LeaseCounters counters_;
  std::vector<SessionId> woken_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_LEASE_TABLE_H_
