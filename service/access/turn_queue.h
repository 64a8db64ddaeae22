// A queue in which clients take turns.
#ifndef PACKHOUSE_SERVICE_ACCESS_TURN_QUEUE_H_
#define PACKHOUSE_SERVICE_ACCESS_TURN_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"

namespace packhouse {

// Clients with queued items take turns, however many items each has. If turns take equally long,
// every other client has one turn between two turns of a client. A client whose turns take longer
// has fewer of them, so that all have the same time. A client's own items are first in, first out:
// streams that queue again after each turn take turns, too.
//
// Flow: Push(), Pop(), and Done() when the popped item has had its turn.
//
// Implementation: as start-time fair queueing (Goyal et al. 1996). A client's clock counts the time
// that its turns took; the client with the lowest clock is next. A client without queued items is
// remembered until its clock is below that of the client that is served, or until no client is
// served. So a client that queues one item after another is charged their time, too. A new client
// starts as if it had just had a turn before the next client; otherwise it would be next each time.
//
// Once all have been served, nothing is left behind. O(log clients) for each item. Its users bound
// the items; at most kMaxRemembered clients are remembered. Thread-compatible. If there is no
// memory (std::bad_alloc), Push() and Pop() change nothing; Done() takes none.
template <typename Item>
class TurnQueue {
 public:
  // The least cost of a turn; it is charged before the turn is done.
  static constexpr absl::Duration kLeastTurn = absl::Microseconds(50);

  struct Turn {
    ClientId client;
    Item item;
  };

  // The most clients that are remembered without queued items.
  static constexpr size_t kMaxRemembered = 1024;

  bool empty() const { return order_.empty(); }
  // Clients with queued items or a turn.
  size_t num_clients() const { return lanes_.size() - remembered_.size(); }
  // Remembered clients without either.
  size_t num_remembered() const { return remembered_.size(); }

  void Push(const ClientId& client, Item item) {
    const auto [found, is_new] = lanes_.try_emplace(client);
    Lane& lane = found->second;
    const ClientId& key = found->first;
    try {
      lane.items.push_back(std::move(item));
      if (lane.items.size() > 1) return;
      // Each lane that has items, or that is remembered without items, has one place. The lane
      // keeps it while the client only has turns.
      if (lane.place.empty() && !lane.is_remembered) {
        std::set<Place> place;
        lane.place = place.extract(place.insert({absl::ZeroDuration(), 0, &key}).first);
      }
    } catch (...) {
      if (is_new) lanes_.erase(found);
      throw;
    }
    if (lane.is_remembered) Recall(key, lane);
    absl::Duration start = now_;
    if (is_new) {
      if (!order_.empty()) start = std::max(start, order_.begin()->clock);
      start += kLeastTurn;
    }
    lane.clock = std::max(lane.clock, start);
    Enqueue(key, lane);
  }

  // Takes out the item whose turn it is. Requires that the queue is not empty.
  Turn Pop() {
    const auto next = order_.begin();
    const ClientId& client = *next->client;
    Lane& lane = lanes_.find(client)->second;
    Turn turn = {client, std::move(lane.items.front())};
    now_ = std::max(now_, lane.clock);
    lane.place = order_.extract(next);
    lane.items.pop_front();
    ++lane.num_having_turns;
    ++num_having_turns_;
    lane.clock += kLeastTurn;
    if (!lane.items.empty()) Enqueue(client, lane);
    ForgetBehind();
    return turn;
  }

  // To be called when a turn of the client has taken `time`.
  void Done(const ClientId& client, absl::Duration time) {
    const auto found = lanes_.find(client);
    Lane& lane = found->second;
    --lane.num_having_turns;
    --num_having_turns_;
    if (!lane.items.empty()) lane.place = order_.extract({lane.clock, lane.number, &found->first});
    lane.clock += std::max(time, kLeastTurn) - kLeastTurn;
    if (!lane.items.empty()) {
      Enqueue(found->first, lane);
    } else if (lane.num_having_turns == 0) {
      Remember(found->first, lane);
    }
    ForgetBehind();
  }

 private:
  struct Place {
    absl::Duration clock;
    uint64_t number;
    const ClientId* client;  // The lane's key.

    bool operator<(const Place& other) const {
      return std::pair(clock, number) < std::pair(other.clock, other.number);
    }
  };
  struct Lane {
    std::deque<Item> items;
    size_t num_having_turns = 0;
    absl::Duration clock;
    bool is_remembered = false;
    // Its place while it is in neither of the two orders. Moving it takes no memory.
    typename std::set<Place>::node_type place;
    uint64_t number = 0;  // When it was last enqueued: of equal clocks, the first is next.
  };

  void Enqueue(const ClientId& client, Lane& lane) {
    lane.number = ++last_number_;
    lane.place.value() = {lane.clock, lane.number, &client};
    order_.insert(std::move(lane.place));
  }

  void Remember(const ClientId& client, Lane& lane) {
    lane.is_remembered = true;
    lane.place.value() = {lane.clock, lane.number, &client};
    remembered_.insert(std::move(lane.place));
  }
  void Recall(const ClientId& client, Lane& lane) {
    lane.is_remembered = false;
    lane.place = remembered_.extract({lane.clock, lane.number, &client});
  }

  void ForgetBehind() {
    const bool is_idle = order_.empty() && num_having_turns_ == 0;
    while (!remembered_.empty() &&
           (is_idle || remembered_.begin()->clock <= now_ || remembered_.size() > kMaxRemembered)) {
      const ClientId* const client = remembered_.begin()->client;
      remembered_.erase(remembered_.begin());
      lanes_.erase(lanes_.find(*client));
    }
  }

  absl::node_hash_map<ClientId, Lane> lanes_;
  std::set<Place> order_;       // Clients with items.
  std::set<Place> remembered_;  // Clients without items and turns.
  size_t num_having_turns_ = 0;
  absl::Duration now_;  // The clock of the client that was served last.
  uint64_t last_number_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_TURN_QUEUE_H_
