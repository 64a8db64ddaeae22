// Where clients of this host open lanes.
#ifndef PACKHOUSE_SERVICE_SERVER_LANES_LANE_DOOR_H_
#define PACKHOUSE_SERVICE_SERVER_LANES_LANE_DOOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/base/execution.h"
#include "service/base/listening_sockets.h"
#include "service/base/memory_budget.h"
#include "service/server/lanes/lane.h"

namespace packhouse {

// Listens at a unix socket on a thread of its own. Who connects shows a token first; a connection
// without a good one is closed. The same thread wakes streams that wait for a slot. It never waits
// for a client, and reads nothing but tokens.
//
// Thread-safe.
class LaneDoor {
 public:
  // The most connections that have shown no token yet; for one more, the oldest is closed.
  static constexpr size_t kMostSilent = 64;
  static constexpr size_t kTokenBytes = 16;

  // Listens at "unix:/path". UNAVAILABLE as ListeningSockets::Open(); RESOURCE_EXHAUSTED if there
  // are no descriptors for it. `memory`, which may be null, must outlive it.
  static absl::StatusOr<std::unique_ptr<LaneDoor>> Open(const std::string& address,
                                                        MemoryBudget* memory);
  // Every lane must be gone.
  ~LaneDoor();
  // Takes no connection any more, and removes the socket's file. No open lane hears of a release
  // then. Idempotent.
  void Stop();
  LaneDoor(const LaneDoor&) = delete;
  LaneDoor& operator=(const LaneDoor&) = delete;

  // "unix:/path", and the path.
  const std::string& address() const { return sockets_.address(); }
  const std::string& path() const { return path_; }
  // Of lanes to clients.
  LaneCounts& counts() { return counts_; }

  // A lane that waits to be opened. `wake` makes the stream go on; any thread may call it at any
  // time, and it must not block. RESOURCE_EXHAUSTED if there is no room for it in the budget, of
  // which all lanes have three quarters at most, or the system has no memory or descriptor.
  absl::StatusOr<std::shared_ptr<Lane>> Offer(const LaneSize& size, std::function<void()> wake,
                                              LaneWay way = LaneWay::kToClient);

 private:
  friend class Lane;

  LaneDoor(ListeningSockets sockets, MemoryBudget* memory);

  // Called by lanes. Leave: the lane is gone, and its number and connection, if it has one, are
  // nobody's. To be called before the connection is closed: while the door's thread looks at one, a
  // system may put off its end until that thread has something else to do.
  void Leave(const std::string& token, uint64_t id, int socket);
  // Arm: wakes the lane's stream once, at the event of epoll.
  void Arm(int socket, uint64_t id, uint32_t event);

  // The thread's.
  void Run();
  void AcceptAll();
  void ReadToken(uint64_t id, int socket);
  // The lane of a token, which is good no more; null if there is none.
  std::shared_ptr<Lane> Claim(absl::string_view token, uint64_t id);
  void WakeLane(uint64_t id);

  ListeningSockets sockets_;
  const std::string path_;
  MemoryBudget* const memory_;
  // The part of it that lanes may have: other calls always have a quarter.
  MemoryBudget lanes_memory_;
  LaneCounts counts_;
  LaneCounts counts_to_server_;
  int poll_ = -1;
  int stop_ = -1;  // An eventfd: readable once the thread should stop.
  Thread thread_;

  // Used by the thread alone: connections without a token, by number, so the oldest is first.
  std::map<uint64_t, int> silent_;
  uint64_t next_id_ = 0;

  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<Lane>> by_token_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::weak_ptr<Lane>> by_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_LANES_LANE_DOOR_H_
