// Partitions that wait, in the order in which they run.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_QUEUE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_QUEUE_H_

#include <cstddef>
#include <list>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"

namespace packhouse {

// Clients take turns: the next partition is that of the client whose partitions have taken the
// least time, and of one client the first. A client counts from when its first partition comes
// until none of its partitions waits or runs; it begins with the time of the client that is served
// least. So a client that asks for many does not hold up others, and one that was away has no
// claim.
//
// TurnQueue (access/turn_queue.h) is the same for calls; here anything that waits can be taken
// out. O(waiting) for each function. Thread-compatible.
class PartitionQueue {
 public:
  using Key = std::pair<std::string, std::string>;  // Graph and name.

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

  void Push(const Key& key, const ClientId& client);
  // Whether it waited.
  bool Remove(const Key& key);

  struct Next {
    Key key;
    ClientId client;
  };
  // Takes out the next one, which then has its turn. Requires that one waits.
  Next Pop();
  // Whether somebody else's waits, who has had less time than `client` with `took` more.
  bool IsTurnOfOthers(const ClientId& client, absl::Duration took) const;
  // To be called when the turn is over.
  void Done(const ClientId& client, absl::Duration time);

 private:
  struct Client {
    absl::Duration time;
    size_t partitions = 0;  // That wait or run.
  };

  void Leave(const ClientId& client);

  std::list<Next> waiting_;  // As they came.
  absl::btree_map<ClientId, Client> clients_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_QUEUE_H_
