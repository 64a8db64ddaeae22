// What a server knows of the partitions that are worked at: which wait, run and end, and whose turn
// it is. All that is decided about that is decided here.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_STATES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_STATES_H_

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/access/fair_bound.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/partition/jobs/partition_folder.h"
#include "service/wings/partition/jobs/partition_queue.h"
#include "service/wings/partition/jobs/partition_run.h"

namespace packhouse {

// One partition that was asked for, until the work at it is over.
struct PartitionWork {
  ClientId client;
  // Until the work is over: a graph that somebody has open does not expire.
  std::shared_ptr<const StoredSourceGraph> graph;
  std::shared_ptr<const PartitionFolder> folder;
  FairBound::Place place;  // While it waits.
  // The thread that has it looks at this one without a lock.
  std::atomic<bool> cancelled = false;

  // For those who ask how far it is.
  bool has_memory = false;
  RunPhase phase = RunPhase::kReading;
  double share = 0;
  // When the first progress came, and with which share: what was done before took no time.
  absl::Time began;
  double began_share = -1;
};

// A partition that was asked for waits, runs while a thread has it, ends while that thread writes
// down what came of it, and is then forgotten here:
//
//   Ask() -> waits -> Begin() -> runs -> Ending() -> ends -> End()
//              ^        GiveWay()  |                  |
//              +-------------------+                  |  Ask() meanwhile
//              +--------------------------------------+
//
// Who reads on the disk how it ended may ask for it again before the thread has let go of it: it
// then waits as soon as the thread has. So nothing that was asked for is lost, and no two threads
// have the same partition.
//
// Thread-compatible. O(partitions here) for each function at most.
class PartitionStates {
 public:
  using Key = PartitionQueue::Key;
  using Holds = absl::FunctionRef<bool(const Key&)>;
  enum class State { kWaiting, kRunning, kEnding };

  // Nothing happens to one that waits or runs. Its last failure is forgotten.
  void Ask(const Key& key, std::shared_ptr<PartitionWork> work);

  bool has_waiting() const { return !queue_.empty(); }
  struct Turn {
    Key key;
    std::shared_ptr<PartitionWork> work;
  };
  // Gives the next one to the calling thread, which must call GiveWay(), or Ending() and End().
  // Requires that one waits.
  Turn Begin();
  // Its turn took this long; it waits again, behind those of clients that had less time. Unless it
  // was cancelled: false, and the thread must end it.
  bool GiveWay(const Turn& turn, absl::Duration took);
  // Whether, if it did so now, a partition of another client would have the next turn.
  bool IsTurnOfOthers(const Turn& turn, absl::Duration took) const;
  // Before anybody can see on the disk how it ended.
  void Ending(const Turn& turn);
  // Why it failed, unless OK, is kept: it may not be on the disk.
  void End(const Turn& turn, absl::Duration took, const absl::Status& failure);

  // Those that wait are out; those that a thread has are told, and are not begun again: wait until
  // HasCancelled() is false. Until then one that runs cannot be asked for again.
  void Cancel(Holds holds);
  bool HasCancelled(Holds holds) const;
  bool HasAny(Holds holds) const;
  bool empty() const { return entries_.empty(); }

  // Null if it is not here. One that ends and was asked for again waits.
  std::shared_ptr<const PartitionWork> Find(const Key& key, State* state) const;
  // OK if it is not known to have failed.
  absl::Status failure(const Key& key) const;
  void ForgetFailures(Holds holds);

 private:
  struct Entry {
    State state = State::kWaiting;
    std::shared_ptr<PartitionWork> work;
    // Asked for while it ends.
    std::shared_ptr<PartitionWork> next;
  };

  void Wait(const Key& key, Entry& entry, std::shared_ptr<PartitionWork> work);

  absl::btree_map<Key, Entry> entries_;
  PartitionQueue queue_;
  absl::btree_map<Key, absl::Status> failures_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_STATES_H_
