// Memory of a stream that a client on this host maps, so that batches lie where they are read.
//
// docs/lane.md has the protocol, and docs/architecture.md what lives how long. A lane is offered
// with a token, opened by the client that shows it (lane_door.h), and ends with its stream.
#ifndef PACKHOUSE_SERVICE_SERVER_LANES_LANE_H_
#define PACKHOUSE_SERVICE_SERVER_LANES_LANE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/base/memory_budget.h"
#include "service/base/shared_memory.h"
#include "service/server/lanes/slot_ring.h"

namespace packhouse {

class LaneDoor;

// How many slots, and their bytes: a multiple of kSlotUnit.
struct LaneSize {
  static constexpr uint64_t kSlotUnit = 4096;
  // The most bytes of a lane's slots together.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;

  // For batches of at most about this many bytes: few slots, so that they stay in the processor's
  // caches, but enough for a client that keeps some batches. Above a quarter of kMostBytes, larger
  // batches find no slot.
  static LaneSize For(uint64_t batch_bytes);

  uint64_t bytes() const { return num_slots * slot_bytes; }

  uint32_t num_slots = 0;
  uint64_t slot_bytes = 0;
};

// Who fills the slots. A lane to the server begins with all slots in the client's hands.
enum class LaneWay { kToClient, kToServer };

// Of all lanes to clients of a server, and of what came by the others. Thread-safe, as atomics are.
struct LaneCounts {
  std::atomic<uint64_t> num_offered = 0;  // That are there now.
  std::atomic<uint64_t> num_open = 0;     // Of them.
  std::atomic<uint64_t> num_slots_sent = 0;
  // Ever.
  std::atomic<uint64_t> num_refused = 0;
  std::atomic<uint64_t> num_batches = 0;
  // Batches that went over gRPC though the lane was open.
  std::atomic<uint64_t> num_too_large = 0;
  std::atomic<uint64_t> num_without_slot = 0;
  // Of graphs, which came the other way.
  std::atomic<uint64_t> num_chunks = 0;
};

// One thread at a time makes the stream's responses; another one opens the lane meanwhile.
class Lane {
 public:
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& token() const { return token_; }
  const LaneSize& size() const { return size_; }
  LaneCounts& counts() const { return *counts_; }
  // Whether the client has opened it, for those who only look at it, at any time.
  std::shared_ptr<const std::atomic<bool>> open_flag() const { return open_flag_; }
  // Where a slot begins. Nothing that the server relies on is ever read from there.
  char* slot(uint32_t number) const { return memory_.data() + number * size_.slot_bytes; }

  // Whether the client has opened it. Takes the releases that have come.
  //
  // UNAVAILABLE if the client has closed it, INVALID_ARGUMENT as SlotRing::Release(): the stream
  // has to end.
  absl::StatusOr<bool> IsOpen();

  // A slot to write a batch to, if one is free. It is then to be sent or given back.
  std::optional<uint32_t> TakeSlot();
  void GiveBack(uint32_t slot);
  // The next response is these bytes of the slot. UNAVAILABLE if the client has closed the lane, or
  // does not read.
  absl::Status Send(uint32_t slot, uint32_t offset, uint64_t size);
  // The next response is on gRPC. To be called before each of these, from the stream's first on.
  absl::Status SendByGrpc();
  // Whether the socket surely takes another message. Otherwise the client has left dozens of them.
  bool HasRoom();

  // On the way to the server. Take: the client says that it has filled the slot, which it does not
  // have from then on, though it may write there still. INVALID_ARGUMENT if it has not opened the
  // lane, or does not have the slot. Give: it is the client's again. UNAVAILABLE as Send().
  absl::Status TakeFilled(uint32_t slot);
  absl::Status GiveToFill(uint32_t slot);

  // Wakes the stream, once, when the client has released a slot, or closed the lane.
  void AwaitRelease();
  // The same when HasRoom() is true again.
  void AwaitRoom();

 private:
  friend class LaneDoor;

  // Of the lanes' part of the budget, and of all of it.
  using Holds = std::array<MemoryHold, 2>;

  Lane(LaneDoor* door, LaneCounts* counts, LaneWay way, const LaneSize& size, SharedMemory memory,
       Holds holds, std::string token, std::function<void()> wake);

  void Await(uint32_t event);
  // Waits anew for what it was woken for.
  void AwaitAgain();
  // The client has shown the token: answers it. Takes the descriptor.
  void Open(int socket, uint64_t id);
  absl::Status SendLocked(uint32_t slot, uint32_t offset, uint64_t size)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GiveToFillLocked(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadReleasesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LaneDoor* const door_;
  LaneCounts* const counts_;
  const LaneWay way_;
  const LaneSize size_;
  const std::string token_;
  const std::function<void()> wake_;
  const Holds holds_;
  const std::shared_ptr<std::atomic<bool>> open_flag_ = std::make_shared<std::atomic<bool>>(false);

  absl::Mutex mutex_;
  // Its descriptor is guarded; the mapping is not.
  SharedMemory memory_;
  SlotRing ring_ ABSL_GUARDED_BY(mutex_);
  std::vector<char> received_ ABSL_GUARDED_BY(mutex_);
  int socket_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: not open yet.
  uint64_t id_ ABSL_GUARDED_BY(mutex_) = 0;  // At the door.
  uint64_t num_by_grpc_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;  // The event of epoll, of the last wait.
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_LANES_LANE_H_
