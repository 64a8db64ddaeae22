#include "service/engine/jobs/lease_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace packhouse {

LeaseTable::LeaseTable(Dealing dealing, absl::Duration lease_duration, const BatchSet& done,
                       const BatchSet& sent)
    : shared_dealing_(std::make_shared<Dealing>(std::move(dealing))),
      lease_duration_(dealing_.sharing().ranked() ? absl::InfiniteDuration() : lease_duration),
      leased_ends_(dealing_.first_batches().size() - 1),
      queues_(dealing_.num_queues()) {
  for (uint32_t queue = 0; queue < queues_.size(); ++queue) ShareQueue(queue, 1);
  for (const BatchRun& run : done.Runs()) {
    for (uint64_t batch = run.begin; batch < run.end; ++batch) {
      if (const auto place = dealing_.PlaceOf(batch)) MarkDone(batch, *place);
    }
  }
  for (const BatchRun& run : sent.Runs()) {
    for (uint64_t batch = run.begin; batch < run.end; ++batch) {
      if (done_.Contains(batch)) continue;
      if (const auto place = dealing_.PlaceOf(batch)) {
        queues_[place->queue].given_back.insert(place->position);
      }
    }
  }
}

BatchSet LeaseTable::Sent() const {
  BatchSet sent;
  for (const auto& [batch, delivery] : deliveries_) sent.Insert(batch);
  for (uint32_t queue = 0; queue < queues_.size(); ++queue) {
    for (const uint64_t position : queues_[queue].given_back) {
      sent.Insert(dealing_.BatchAt({queue, position}));
    }
  }
  return sent;
}

void LeaseTable::ShareQueue(uint32_t queue, uint32_t num_readers) {
  std::vector<Share>& shares = queues_[queue].shares;
  shares.assign(num_readers, {});
  for (uint32_t reader = 0; reader < num_readers; ++reader) shares[reader].next = reader;
  for (uint64_t position = 0; position < dealing_.queue_length(queue); ++position) {
    if (!done_.Contains(dealing_.BatchAt({queue, position}))) {
      ++shares[position % num_readers].num_left;
    }
  }
}

absl::Status LeaseTable::Join(SessionId session, uint32_t queue, Reader reader) {
  if (queue >= queues_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(dealing_.sharing().ranked() ? "rank " : "rank group ", queue, ": there are ",
                     queues_.size()));
  }
  if (sessions_.contains(session)) {
    return absl::AlreadyExistsError(absl::StrCat("session ", session, ": has joined"));
  }
  if (reader.number >= reader.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("reader ", reader.number, ": there are ", reader.count));
  }
  if (dealing_.sharing().ranked()) {
    std::vector<Share>& shares = queues_[queue].shares;
    const bool other_number = shares.size() != reader.count;
    for (uint32_t i = 0; i < shares.size(); ++i) {
      if ((other_number || i == reader.number) && shares[i].owner) SessionGone(*shares[i].owner);
    }
    if (other_number) ShareQueue(queue, reader.count);
    shares[reader.number].owner = session;
  } else {
    reader = {};
  }
  sessions_.emplace(session, Session{queue, reader, false, {}, std::nullopt});
  return absl::OkStatus();
}

LeaseTable::Found LeaseTable::FindNext(const Session& session, size_t max_in_flight) const {
  const Queue& queue = queues_[session.queue];
  const Share& share = queue.shares[session.reader.number];
  const uint64_t length = dealing_.queue_length(session.queue);
  Found found;
  found.next = share.next;
  if (share.num_left == 0 && dealing_.is_complete()) return found;
  if (session.in_flight.size() >= max_in_flight) {
    found.outcome = LeaseOutcome::kTooManyInFlight;
    return found;
  }
  uint64_t given_back = length;
  for (const uint64_t position : queue.given_back) {
    if (position % session.reader.count != session.reader.number) continue;
    if (session.in_flight.contains(dealing_.BatchAt({session.queue, position}))) continue;
    given_back = position;
    break;
  }
  while (found.next < length && (done_.Contains(dealing_.BatchAt({session.queue, found.next})) ||
                                 queue.given_back.contains(found.next))) {
    found.next += session.reader.count;
  }
  // A batch that was given back comes first, unless other readers had come further than this one.
  found.position = std::min(given_back, found.next);
  found.redelivered = found.position == given_back;
  found.outcome = found.position < length  ? LeaseOutcome::kLeased
                  : dealing_.is_complete() ? LeaseOutcome::kAllLeased
                                           : LeaseOutcome::kNotKnown;
  return found;
}

LeaseOutcome LeaseTable::Peek(SessionId session, size_t max_in_flight) const {
  return FindNext(sessions_.at(session), max_in_flight).outcome;
}

Lease LeaseTable::Next(SessionId session, size_t max_in_flight, absl::Time now) {
  Session& own = sessions_.at(session);
  StopWaiting(session, own);
  const Found found = FindNext(own, max_in_flight);
  Share& share = ShareOf(own);
  share.next = found.next;
  if (found.outcome == LeaseOutcome::kLeased) {
    if (found.position == share.next) share.next += own.reader.count;
    return LeaseTo(session, {own.queue, found.position}, found.redelivered, now);
  }
  if (found.outcome != LeaseOutcome::kFinished) {
    own.waits_for = found.outcome;
    share.waiting.insert(session);
  }
  return {found.outcome};
}

std::vector<SessionId> LeaseTable::Waiting() const {
  std::vector<SessionId> waiting;
  for (const Queue& queue : queues_) {
    for (const Share& share : queue.shares) {
      waiting.insert(waiting.end(), share.waiting.begin(), share.waiting.end());
    }
  }
  return waiting;
}

void LeaseTable::Grow(absl::Span<const uint64_t> num_batches, bool is_all) {
  if (dealing_.is_complete()) return;
  std::vector<uint64_t> lengths;
  for (uint32_t queue = 0; queue < queues_.size(); ++queue) {
    lengths.push_back(dealing_.queue_length(queue));
  }
  shared_dealing_->Grow(num_batches, is_all);
  for (uint32_t queue = 0; queue < queues_.size(); ++queue) {
    std::vector<Share>& shares = queues_[queue].shares;
    // None of the new batches is done: nobody knew of them.
    for (uint64_t at = lengths[queue]; at < dealing_.queue_length(queue); ++at) {
      ++shares[at % shares.size()].num_left;
    }
    for (const Share& share : shares) WakeShare(share, /*all=*/is_all);
  }
}

void LeaseTable::StopWaiting(SessionId id, Session& session) {
  if (!std::exchange(session.waits_for, std::nullopt)) return;
  ShareOf(session).waiting.erase(id);
}

void LeaseTable::Wake(SessionId session) {
  Session& own = sessions_.at(session);
  if (!own.waits_for) return;
  StopWaiting(session, own);
  woken_.push_back(session);
}

void LeaseTable::WakeShare(const Share& share, bool all) {
  std::vector<SessionId> sessions;
  for (const SessionId session : share.waiting) {
    if (all || sessions_.at(session).waits_for != LeaseOutcome::kTooManyInFlight) {
      sessions.push_back(session);
    }
  }
  for (const SessionId session : sessions) Wake(session);
}

Lease LeaseTable::LeaseTo(SessionId session, const Place& place, bool redelivered, absl::Time now) {
  const uint64_t batch = dealing_.BatchAt(place);
  queues_[place.queue].given_back.erase(place.position);
  Delivery& delivery = deliveries_[batch];
  delivery.place = place;
  delivery.holder = session;
  delivery.until = now + lease_duration_;
  delivery.sent_to.push_back(session);
  if (delivery.until != absl::InfiniteFuture()) expiries_.emplace(delivery.until, batch);
  Session& own = sessions_.at(session);
  own.in_flight.insert(batch);
  if (own.last_heard == absl::InfinitePast()) own.last_heard = now;
  if (!dealing_.IsPadding(batch)) {
    const size_t rank_group = dealing_.RankGroupOf(batch);
    leased_ends_[rank_group] =
        std::max(leased_ends_[rank_group], batch + 1 - dealing_.first_batches()[rank_group]);
  }
  ++num_leased_;
  ++counters_.leased;
  if (redelivered) ++counters_.redelivered;
  return {LeaseOutcome::kLeased, batch, place, redelivered, delivery.until};
}

absl::Status LeaseTable::CheckDealt(absl::Span<const uint64_t> batches) const {
  for (const uint64_t batch : batches) {
    if (!dealing_.PlaceOf(batch)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch ", batch, ": is not dealt in this generation of the epoch, which has ",
          dealing_.num_places(), " places"));
    }
  }
  return absl::OkStatus();
}

uint64_t LeaseTable::Acknowledge(SessionId session, absl::Span<const uint64_t> batches,
                                 absl::Time now) {
  if (const auto own = sessions_.find(session); own != sessions_.end()) {
    own->second.last_heard = now;
  }
  uint64_t news = 0;
  absl::btree_set<SessionId> alive = {session};
  for (const uint64_t batch : batches) {
    const auto place = dealing_.PlaceOf(batch);
    if (!place) continue;
    if (done_.Contains(batch)) {
      ++counters_.duplicates;
      continue;
    }
    // If it was sent to several sessions, at most the last still has its lease.
    const auto delivery = deliveries_.find(batch);
    if (delivery != deliveries_.end() && !delivery->second.sent_to.empty()) {
      alive.insert(delivery->second.sent_to.back());
    }
    // MarkDone() may end the session.
    if (const auto own = sessions_.find(session); own != sessions_.end()) {
      ++own->second.num_acknowledged;
    }
    MarkDone(batch, *place);
    ++counters_.acknowledged;
    ++news;
  }
  if (lease_duration_ == absl::InfiniteDuration()) return news;
  for (const SessionId one : alive) Renew(one, now);
  return news;
}

void LeaseTable::Renew(SessionId session, absl::Time now) {
  const auto own = sessions_.find(session);
  if (own == sessions_.end()) return;
  for (const uint64_t batch : own->second.in_flight) {
    Delivery& delivery = deliveries_.at(batch);
    if (delivery.holder != session) continue;
    expiries_.erase({delivery.until, batch});
    delivery.until = now + lease_duration_;
    expiries_.emplace(delivery.until, batch);
  }
}

void LeaseTable::MarkDone(uint64_t batch, const Place& place) {
  Queue& queue = queues_[place.queue];
  done_.Insert(batch);
  ++num_done_;
  ++queue.num_done;
  Share& share = ShareAt(place);
  --share.num_left;
  queue.given_back.erase(place.position);
  if (share.num_left == 0 && dealing_.is_complete()) WakeShare(share, /*all=*/true);
  const auto found = deliveries_.find(batch);
  if (found == deliveries_.end()) return;
  EndLease(batch, found->second);
  for (const SessionId id : found->second.sent_to) {
    Session& session = sessions_.at(id);
    session.in_flight.erase(batch);
    // It has room for one more.
    if (session.waits_for == LeaseOutcome::kTooManyInFlight) Wake(id);
    if (session.ended && session.in_flight.empty()) sessions_.erase(id);
  }
  deliveries_.erase(found);
}

void LeaseTable::EndLease(uint64_t batch, Delivery& delivery) {
  if (!delivery.holder) return;
  expiries_.erase({delivery.until, batch});
  delivery.holder.reset();
  --num_leased_;
}

void LeaseTable::GiveBack(uint64_t batch, Delivery& delivery) {
  EndLease(batch, delivery);
  queues_[delivery.place.queue].given_back.insert(delivery.place.position);
  WakeShare(ShareAt(delivery.place), /*all=*/false);
}

size_t LeaseTable::Expire(absl::Time now) {
  size_t expired = 0;
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const uint64_t batch = expiries_.begin()->second;
    GiveBack(batch, deliveries_.at(batch));
    ++expired;
  }
  counters_.expired += expired;
  return expired;
}

absl::Time LeaseTable::NextExpiry() const {
  return expiries_.empty() ? absl::InfiniteFuture() : expiries_.begin()->first;
}

void LeaseTable::SessionGone(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  // If its rank has a newer stream, the session must learn that; if it is gone, the wake-up has no
  // effect.
  Wake(session);
  for (const uint64_t batch : found->second.in_flight) {
    Delivery& delivery = deliveries_.at(batch);
    delivery.sent_to.erase(std::find(delivery.sent_to.begin(), delivery.sent_to.end(), session));
    if (delivery.holder != session) continue;
    GiveBack(batch, delivery);
    ++counters_.given_back;
  }
  Share& share = queues_[found->second.queue].shares[found->second.reader.number];
  if (share.owner == session) share.owner.reset();
  sessions_.erase(found);
}

void LeaseTable::SessionEnded(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  if (dealing_.sharing().ranked() || found->second.in_flight.empty()) return SessionGone(session);
  StopWaiting(session, found->second);
  found->second.ended = true;
}

SessionWait LeaseTable::WaitOf(SessionId session, bool is_making, size_t num_acknowledging) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.ended) return SessionWait::kNobody;
  const Session& own = found->second;
  // Another worker may have acknowledged the batch that is being made.
  const bool has_batches = own.in_flight.size() > num_acknowledging + (is_making ? 1 : 0);
  if (has_batches) {
    const bool waits = !own.waits_for || own.waits_for == LeaseOutcome::kTooManyInFlight;
    return !is_making && waits ? SessionWait::kServer : SessionWait::kNobody;
  }
  if (own.waits_for == LeaseOutcome::kAllLeased) return SessionWait::kNobody;
  const Share& share = queues_[own.queue].shares[own.reader.number];
  const bool is_over = share.num_left == 0 && dealing_.is_complete();
  return is_over ? SessionWait::kNobody : SessionWait::kWorker;
}

void LeaseTable::AddTo(EpochWatch& watch, std::vector<SessionId>& sessions) const {
  watch.is_ranked = dealing_.sharing().ranked();
  watch.num_leased = num_leased_;
  watch.num_sessions = sessions_.size();
  watch.counters = watch.counters + counters_;
  const size_t num_queues = std::min(queues_.size(), EpochWatch::kMostListed);
  for (uint32_t queue = 0; queue < num_queues; ++queue) {
    watch.queues.push_back(
        {dealing_.queue_length(queue), queues_[queue].num_done, queues_[queue].given_back.size()});
  }
  for (const auto& [id, session] : sessions_) {
    if (watch.workers.size() == EpochWatch::kMostListed) break;
    WorkerWatch worker;
    worker.queue = session.queue;
    worker.reader = session.reader.number;
    worker.num_readers = session.reader.count;
    if (watch.is_ranked) {
      worker.num_steps = NumStepsOf(session.queue, session.reader);
      worker.num_done = worker.num_steps - NumLeftOf(session.queue, session.reader);
    }
    worker.num_acknowledged = session.num_acknowledged;
    worker.num_in_flight = session.in_flight.size();
    worker.last_heard = session.last_heard;
    worker.has_ended = session.ended;
    watch.workers.push_back(std::move(worker));
    sessions.push_back(id);
  }
}

std::vector<uint64_t> LeaseTable::InFlight(SessionId session) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  return {found->second.in_flight.begin(), found->second.in_flight.end()};
}

}  // namespace packhouse
