#include "client/cpp/lane_reader.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "client/cpp/lane_slots.h"
#include "client/cpp/own_process.h"

namespace packhouse::client {
namespace {

// Instead of a slot.
constexpr uint32_t kByGrpc = UINT32_MAX;
constexpr uint64_t kAlignment = 64;

}  // namespace

// The slots, as long as the reader or any of them lives, and which are held.
//
// What is held when this process forks is copied before. In the child the copies take the slots'
// places, where neither the parent nor the server changes them; nothing else of the slots is there.
class LaneReader::Memory {
 public:
  explicit Memory(std::unique_ptr<LaneSlots> slots)
      : slots_(std::move(slots)), held_bytes_(slots_->num_slots()) {
    All& all = All::Get();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.memories.insert(this);
  }
  ~Memory() {
    All& all = All::Get();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.memories.erase(this);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const LaneSlots& slots() const { return *slots_; }
  bool is_forked() const { return process_.is_forked(); }

  // So many bytes of one more slot are held; how many slots there are.
  uint32_t Hold(uint32_t slot, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_bytes_[slot] = bytes;
    return ++num_held_;
  }
  // Several releases share a message: waking the server for one slot takes longer than filling it.
  void Release(uint32_t slot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --num_held_;
    held_bytes_[slot] = 0;
    released_.push_back(slot);
    if (is_waiting_ || released_.size() >= slots_->num_slots() / 4) SendReleases();
  }
  // While the reader waits, every release is sent at once: the server may wait for it.
  void BeginWait() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_waiting_ = true;
    SendReleases();
  }
  void EndWait() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_waiting_ = false;
  }

 private:
  // Of this process. Its mutex, and the memories', are held across a fork, so they are no
  // absl::Mutex: unlocking that takes the graph by which it finds deadlocks, which another thread
  // may have had at the fork, and wakes waiters, which the child has not.
  struct All {
    static All& Get() {
      static All* const all = new All;
      return *all;
    }
    All() { ::pthread_atfork(&All::BeforeFork, &All::InParent, &All::InChild); }

    // They allocate nothing, and throw nothing.
    static void BeforeFork() {
      Get().mutex.lock();
      for (Memory* const memory : Get().memories) memory->BeforeFork();
    }
    static void InParent() {
      for (Memory* const memory : Get().memories) memory->AfterFork(/*is_child=*/false);
      Get().mutex.unlock();
    }
    static void InChild() {
      for (Memory* const memory : Get().memories) memory->AfterFork(/*is_child=*/true);
      Get().mutex.unlock();
    }

    std::mutex mutex;
    std::set<Memory*> memories;  // Guarded by the mutex, and locked in this order.
  };

  // Around a fork, with no other thread between them.
  void BeforeFork() {
    mutex_.lock();
    // Children of a child inherit what it has.
    if (is_forked()) return;
    copies_ = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copies_ == MAP_FAILED) return;
    for (uint32_t slot = 0; slot < held_bytes_.size(); ++slot) {
      std::memcpy(static_cast<char*>(copies_) + slot * slots_->slot_bytes(), slots_->slot(slot),
                  held_bytes_[slot]);
    }
  }
  void AfterFork(bool is_child) {
    if (copies_ != nullptr && is_child) {
      // Otherwise batches would change. A child that had no memory for them may go on without.
      void* const places = slots_->slot(0);
      const void* const now =
          copies_ == MAP_FAILED
              ? ::mmap(places, bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
              : ::mremap(copies_, bytes(), bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, places);
      if (now == MAP_FAILED) std::abort();
    } else if (copies_ != nullptr && copies_ != MAP_FAILED) {
      ::munmap(copies_, bytes());
    }
    copies_ = nullptr;
    mutex_.unlock();
  }
  size_t bytes() const { return slots_->num_slots() * slots_->slot_bytes(); }

  // With the mutex.
  void SendReleases() {
    if (released_.empty()) return;
    // It fails only if the server has closed the lane, or this reader has.
    (void)::send(slots_->socket(), released_.data(), released_.size() * sizeof(uint32_t),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    released_.clear();
  }

  const std::unique_ptr<LaneSlots> slots_;
  const OwnProcess process_;

  std::mutex mutex_;  // Guards what follows.
  uint32_t num_held_ = 0;
  std::vector<uint64_t> held_bytes_;  // Of each slot, from its beginning.
  void* copies_ = nullptr;            // Of the slots, while this process forks.
  std::vector<uint32_t> released_;    // And the server does not know.
  bool is_waiting_ = false;
};

class LaneReader::Slot {
 public:
  Slot(std::shared_ptr<Memory> memory, uint32_t number)
      : memory_(std::move(memory)), number_(number) {}
  ~Slot() {
    if (!memory_->is_forked()) memory_->Release(number_);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  const std::shared_ptr<Memory> memory_;
  const uint32_t number_;
};

absl::StatusOr<std::unique_ptr<LaneReader>> LaneReader::Open(const v1::Lane& offer,
                                                             absl::Duration quiet) {
  auto slots = LaneSlots::Open(offer, quiet);
  if (!slots.ok()) return slots.status();
  return std::unique_ptr<LaneReader>(new LaneReader(std::make_shared<Memory>(*std::move(slots))));
}

LaneReader::~LaneReader() { Cancel(); }

uint64_t LaneReader::num_before() const { return memory_->slots().num_before(); }

void LaneReader::Cancel() {
  if (!memory_->is_forked()) memory_->slots().Cancel();
}

LaneMessage LaneReader::Take() {
  const LaneSlots& slots = memory_->slots();
  LaneMessage message;
  if (memory_->is_forked()) return message;
  auto place = slots.Receive(/*waits=*/false);
  // ECONNRESET: a server that was killed, and had not read all releases. It is said once, before
  // messages that are there still.
  if (!place && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) {
    memory_->BeginWait();
    do {
      place = slots.Receive(/*waits=*/true);
    } while (!place && (errno == EINTR || errno == ECONNRESET));
    const int why_none = errno;
    memory_->EndWait();
    if (!place && why_none == EAGAIN) message.kind = LaneMessage::Kind::kQuiet;
  }
  if (!place) return message;
  const auto [number, offset, size] = *place;
  if (number == kByGrpc) {
    message.kind = LaneMessage::Kind::kByGrpc;
    return message;
  }
  if (number >= slots.num_slots() || offset > slots.slot_bytes() ||
      size > slots.slot_bytes() - offset) {
    return message;
  }
  message.kind = LaneMessage::Kind::kBatch;
  message.response = absl::string_view(slots.slot(number) + offset, size);
  const uint32_t num_held = memory_->Hold(number, offset + size);
  auto slot = std::make_shared<const Slot>(memory_, number);
  if (num_held + 2 <= slots.num_slots()) {
    message.owner = std::move(slot);
    return message;
  }
  // At the same place of a cache line, so that tensors stay aligned.
  const auto copy = std::make_shared_for_overwrite<char[]>(size + 2 * kAlignment);
  char* begin = copy.get();
  begin += (kAlignment - reinterpret_cast<uintptr_t>(begin) % kAlignment) % kAlignment;
  begin += offset % kAlignment;
  std::memcpy(begin, message.response.data(), size);
  message.response = absl::string_view(begin, size);
  message.owner = copy;
  return message;
}

}  // namespace packhouse::client
