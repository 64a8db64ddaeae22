#include "client/cpp/lane_reader.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/lane_slots.h"

namespace packhouse::client {
namespace {

// Instead of a slot.
constexpr uint32_t kByGrpc = UINT32_MAX;
constexpr uint64_t kAlignment = 64;

}  // namespace

// The slots, as long as the reader or any of them lives, and which are held.
class LaneReader::Memory {
 public:
  explicit Memory(std::unique_ptr<LaneSlots> slots) : slots_(std::move(slots)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const LaneSlots& slots() const { return *slots_; }
  bool is_forked() const { return ::getpid() != process_; }

  // One more slot is held; how many there are.
  uint32_t Hold() {
    const absl::MutexLock lock(&mutex_);
    return ++num_held_;
  }
  // Several releases share a message: waking the server for one slot takes longer than filling it.
  void Release(uint32_t slot) {
    const absl::MutexLock lock(&mutex_);
    --num_held_;
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
  std::vector<uint32_t> released_ ABSL_GUARDED_BY(mutex_);  // And the server does not know.
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
  const uint32_t num_held = memory_->Hold();
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
