#include "client/cpp/lane_reader.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/lane_slots.h"

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
    const absl::MutexLock lock(&all.mutex);
    all.memories.insert(this);
  }
  ~Memory() {
    All& all = All::Get();
    const absl::MutexLock lock(&all.mutex);
    all.memories.erase(this);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const LaneSlots& slots() const { return *slots_; }
  bool is_forked() const { return ::getpid() != process_; }

  // So many bytes of one more slot are held; how many slots there are.
  uint32_t Hold(uint32_t slot, uint64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    held_bytes_[slot] = bytes;
    return ++num_held_;
  }
  // Several releases share a message: waking the server for one slot takes longer than filling it.
  void Release(uint32_t slot) {
    const absl::MutexLock lock(&mutex_);
    --num_held_;
    held_bytes_[slot] = 0;
    released_.push_back(slot);
    if (is_waiting_ || released_.size() >= slots_->num_slots() / 4) SendReleases();
  }
  // While the reader waits, every release is sent at once: the server may wait for it.
  void BeginWait() {
    const absl::MutexLock lock(&mutex_);
    is_waiting_ = true;
    SendReleases();
  }
  void EndWait() {
    const absl::MutexLock lock(&mutex_);
    is_waiting_ = false;
  }

 private:
  // Of this process.
  struct All {
    static All& Get() {
      static All* const all = new All;
      return *all;
    }
    All() { ::pthread_atfork(&All::BeforeFork, &All::InParent, &All::InChild); }

    static void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      Get().mutex.Lock();
      for (Memory* const memory : Get().memories) memory->BeforeFork();
    }
    static void InParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      for (Memory* const memory : Get().memories) memory->AfterFork(/*is_child=*/false);
      Get().mutex.Unlock();
    }
    static void InChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      for (Memory* const memory : Get().memories) memory->AfterFork(/*is_child=*/true);
      Get().mutex.Unlock();
    }

    absl::Mutex mutex;
    absl::flat_hash_set<Memory*> memories ABSL_GUARDED_BY(mutex);
  };

  // Around a fork, with no other thread between them.
  void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.Lock();
    // Children of a child inherit what it has.
    if (is_forked()) return;
    for (uint32_t slot = 0; slot < held_bytes_.size(); ++slot) {
      copies_.emplace_back(slots_->slot(slot), held_bytes_[slot]);
    }
  }
  void AfterFork(bool is_child) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (is_child && !copies_.empty()) {
      const void* const private_now =
          ::mmap(slots_->slot(0), slots_->num_slots() * slots_->slot_bytes(),
                 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      // Otherwise batches would change.
      if (private_now == MAP_FAILED) std::abort();
      for (uint32_t slot = 0; slot < copies_.size(); ++slot) {
        copies_[slot].copy(slots_->slot(slot), copies_[slot].size());
      }
    }
    copies_.clear();
    mutex_.Unlock();
  }

  void SendReleases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (released_.empty()) return;
    // It fails only if the server has closed the lane, or this reader has.
    (void)::send(slots_->socket(), released_.data(), released_.size() * sizeof(uint32_t),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    released_.clear();
  }

  const std::unique_ptr<LaneSlots> slots_;
  const pid_t process_ = ::getpid();

  absl::Mutex mutex_;
  uint32_t num_held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> held_bytes_ ABSL_GUARDED_BY(mutex_);  // Of each slot, from its beginning.
  std::vector<std::string> copies_ ABSL_GUARDED_BY(mutex_);   // While this process forks.
  std::vector<uint32_t> released_ ABSL_GUARDED_BY(mutex_);    // And the server does not know.
  bool is_waiting_ ABSL_GUARDED_BY(mutex_) = false;
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

LaneReader::~LaneReader() {
  if (!memory_->is_forked()) Cancel();
}

uint64_t LaneReader::num_before() const { return memory_->slots().num_before(); }

void LaneReader::Cancel() { memory_->slots().Cancel(); }

LaneMessage LaneReader::Take() {
  const LaneSlots& slots = memory_->slots();
  LaneMessage message;
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
