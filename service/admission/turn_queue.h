// What waits for a turn, the clients' turns going round.
#ifndef PACKHOUSE_SERVICE_ADMISSION_TURN_QUEUE_H_
#define PACKHOUSE_SERVICE_ADMISSION_TURN_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "service/admission/client_identity.h"

namespace packhouse {

// Clients with something queued take turns, whatever each has queued. Turns that take equally long
// go round: between two of one client every other one has one. A client whose turns take longer has
// fewer, so that all have the same time. A client's own items come first in, first out: streams
// that queue again after each turn go round, too.
//
// Flow: Push(), Pop(), and Done() when what was popped has had its turn.
//
// Implementation: as start-time fair queueing (Goyal et al. 1996). A client's clock counts the time
// that its turns took; the client whose clock is behind is next. Nothing is known any more of one
// that comes again: it starts as if it had just had a turn before whoever is next, or else it would
// be next each time.
//
// A client with nothing queued or having its turn leaves nothing behind. Costs O(log clients) an
// item. Bounded by its users. Thread-compatible.
template <typename Item>
class TurnQueue {
 public:
  // What a turn costs at least; so much is counted before it is done.
  static constexpr absl::Duration kLeastTurn = absl::Microseconds(50);

  struct Turn {
    ClientId client;
    Item item;
  };

  bool empty() const { return order_.empty(); }
  // With something queued or having a turn.
  size_t num_clients() const { return lanes_.size(); }

  void Push(const ClientId& client, Item item) {
    const auto [lane, is_new] = lanes_.try_emplace(client);
    lane->second.items.push_back(std::move(item));
    if (lane->second.items.size() > 1) return;
    absl::Duration start = now_;
    if (is_new) {
      if (!order_.empty()) start = std::max(start, order_.begin()->clock);
      start += kLeastTurn;
    }
    lane->second.clock = std::max(lane->second.clock, start);
    Enqueue(lane->first, lane->second);
  }

  // The item whose turn it is, taken out. Not if empty.
  Turn Pop() {
    const auto next = order_.begin();
    const ClientId& client = *next->client;
    Lane& lane = lanes_.find(client)->second;
    now_ = std::max(now_, lane.clock);
    order_.erase(next);
    Turn turn = {client, std::move(lane.items.front())};
    lane.items.pop_front();
    ++lane.num_having_turns;
    lane.clock += kLeastTurn;
    if (!lane.items.empty()) Enqueue(client, lane);
    return turn;
  }

  // A turn of the client's has taken so long.
  void Done(const ClientId& client, absl::Duration time) {
    const auto found = lanes_.find(client);
    Lane& lane = found->second;
    --lane.num_having_turns;
    if (lane.items.empty() && lane.num_having_turns == 0) {
      lanes_.erase(found);
      return;
    }
    if (time <= kLeastTurn) return;
    if (!lane.items.empty()) order_.erase({lane.clock, lane.number, &found->first});
    lane.clock += time - kLeastTurn;
    if (!lane.items.empty()) Enqueue(found->first, lane);
  }

 private:
  struct Lane {
    std::deque<Item> items;
    size_t num_having_turns = 0;
    absl::Duration clock;
    uint64_t number = 0;  // When it was enqueued last: the first of those whose clocks are equal.
  };
  struct Place {
    absl::Duration clock;
    uint64_t number;
    const ClientId* client;  // The lane's key.

    bool operator<(const Place& other) const {
      return std::pair(clock, number) < std::pair(other.clock, other.number);
    }
  };

  void Enqueue(const ClientId& client, Lane& lane) {
    lane.number = ++last_number_;
    order_.insert({lane.clock, lane.number, &client});
  }

  absl::node_hash_map<ClientId, Lane> lanes_;
  std::set<Place> order_;  // Of clients with items.
  absl::Duration now_;     // The clock of the client that was served last.
  uint64_t last_number_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_TURN_QUEUE_H_
