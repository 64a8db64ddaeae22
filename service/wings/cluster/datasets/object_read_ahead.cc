#include "service/wings/cluster/datasets/object_read_ahead.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Parts that are read ahead, by threads: so that one slow answer keeps no thread waiting.
constexpr size_t kSlotsOfThread = 4;

}  // namespace

ObjectReadAhead::ObjectReadAhead(const ObjectEngines& engines, std::vector<uint64_t> sizes,
                                 std::function<Part(size_t)> part_of)
    : engines_(engines), sizes_(std::move(sizes)), part_of_(std::move(part_of)) {
  uint64_t largest = 0;
  uint64_t all = 0;
  for (const uint64_t size : sizes_) {
    largest = std::max(largest, size);
    all += size;
    if (size != 0) ++num_unread_;
  }
  // A string that grows may have twice its bytes.
  most_bytes_ =
      2 * std::max(largest, std::min(all, kMaxBytes)) + sizeof(uint64_t) * sizes_.capacity();
}

ObjectReadAhead::~ObjectReadAhead() {
  is_over_ = true;
  {
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  }
  threads_.clear();
}

void ObjectReadAhead::Start() {
  const size_t wanted = std::min(engines_.reads_at_once, num_unread_);
  if (wanted <= 1) return;
  const size_t most = engines_.read_threads->Take(wanted);
  if (most == 0) return;
  try {
    absl::MutexLock lock(&mutex_);
    slots_.resize(kSlotsOfThread * most);
    next_to_read_ = next_to_take_;
    threads_.reserve(most);
    while (threads_.size() < most) {
      threads_.emplace_back([this, caller = CurrentCaller()] { Run(caller); });
    }
  } catch (const std::system_error&) {
    // Fewer do it.
  } catch (const std::bad_alloc&) {
  }
  engines_.read_threads->GiveBack(most - threads_.size());
}

bool ObjectReadAhead::MayGoOn() const {
  if (has_ended_ || next_to_read_ == sizes_.size()) return true;
  return next_to_read_ < next_to_take_ + slots_.size() &&
         (bytes_ahead_ == 0 || bytes_ahead_ + sizes_[next_to_read_] <= kMaxBytes);
}

void ObjectReadAhead::Run(const Caller* caller) {
  Reading reading(caller, &is_over_);
  const CallerScope scope(&reading);
  const absl::Cleanup give_back = [this] { engines_.read_threads->GiveBack(1); };
  while (true) {
    size_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ObjectReadAhead::MayGoOn));
      if (has_ended_ || next_to_read_ == sizes_.size()) return;
      number = next_to_read_++;
      bytes_ahead_ += sizes_[number];
    }
    absl::StatusOr<std::string> bytes = OutOfMemory();
    (void)RunWithinMemory([&] { bytes = Read(number); });
    absl::MutexLock lock(&mutex_);
    if (!bytes.ok()) has_ended_ = true;
    Slot& slot = slots_[number % slots_.size()];
    slot.bytes = std::move(bytes);
    slot.is_read = true;
  }
}

absl::StatusOr<std::string> ObjectReadAhead::Read(size_t number) const {
  if (sizes_[number] == 0) return std::string();
  const Part part = part_of_(number);
  return ReadObject(*engines_.objects, part.key, {part.begin, part.begin + sizes_[number]},
                    sizes_[number], engines_.Deadline());
}

absl::StatusOr<std::string> ObjectReadAhead::Next() {
  PH_RETURN_IF_ERROR(failure_);
  if (threads_.empty()) Start();
  absl::StatusOr<std::string> bytes;
  if (threads_.empty()) {
    size_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      number = next_to_take_++;
    }
    if (sizes_[number] != 0) --num_unread_;
    bytes = Read(number);
  } else {
    bool is_read = false;
    {
      absl::MutexLock lock(&mutex_);
      is_read = IsNextRead();
    }
    failure_ = is_read ? CheckCaller() : BeginWait();
    PH_RETURN_IF_ERROR(failure_);
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &ObjectReadAhead::IsNextRead));
    Slot& slot = slots_[next_to_take_ % slots_.size()];
    slot.is_read = false;
    bytes = std::exchange(slot.bytes, absl::StatusOr<std::string>());
    bytes_ahead_ -= sizes_[next_to_take_++];
  }
  failure_ = bytes.status();
  return bytes;
}

}  // namespace packhouse
