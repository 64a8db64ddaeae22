// What waits for a turn, the clients' turns going round.
#ifndef PACKHOUSE_SERVICE_ADMISSION_TURN_QUEUE_H_
#define PACKHOUSE_SERVICE_ADMISSION_TURN_QUEUE_H_

#include <cstddef>
#include <deque>
#include <iterator>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "service/admission/client_identity.h"

namespace packhouse {

// Clients with something queued take turns, whatever each has queued: between two turns of one of
// them every other one gets a turn. A client's own items come first in, first out: streams that
// queue again after each turn go round, too.
//
// A client that has nothing queued leaves nothing behind; one that comes (again) is last. Costs
// O(1) an item. Bounded by its users. Thread-compatible.
template <typename Item>
class TurnQueue {
 public:
  bool empty() const { return lanes_.empty(); }
  size_t num_clients() const { return lanes_.size(); }

  void Push(const ClientId& client, Item item) {
    auto found = lane_of_.find(client);
    if (found == lane_of_.end()) {
      lanes_.push_back({client, {}});
      found = lane_of_.emplace(lanes_.back().client, std::prev(lanes_.end())).first;
    }
    found->second->items.push_back(std::move(item));
  }

  // The item whose turn it is, taken out. Not if empty.
  Item Pop() {
    Lane& lane = lanes_.front();
    Item item = std::move(lane.items.front());
    lane.items.pop_front();
    if (lane.items.empty()) {
      lane_of_.erase(lane.client);
      lanes_.pop_front();
    } else {
      lanes_.splice(lanes_.end(), lanes_, lanes_.begin());
    }
    return item;
  }

 private:
  struct Lane {
    ClientId client;
    std::deque<Item> items;  // Never empty.
  };

  std::list<Lane> lanes_;  // The first one's turn is next.
  // Keys are the lanes' names, which stay where they are.
  absl::flat_hash_map<absl::string_view, typename std::list<Lane>::iterator> lane_of_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_TURN_QUEUE_H_
