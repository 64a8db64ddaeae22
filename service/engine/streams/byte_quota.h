// Memory that all streams of a server share, and that those of a namespace share.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_BYTE_QUOTA_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_BYTE_QUOTA_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace packhouse {

// Counts bytes that are held, up to a bound. Thread-safe, without locks.
class ByteQuota {
 public:
  explicit ByteQuota(uint64_t bound) : bound_(bound) {}
  // A part of `all`, which must outlive it: what is taken here is taken there too. `what` is
  // counted, for messages.
  ByteQuota(uint64_t bound, ByteQuota* all, std::string what)
      : bound_(bound), all_(all), what_(std::move(what)) {}

  // Takes nothing and returns false if a bound would be exceeded.
  bool TryTake(uint64_t bytes) {
    uint64_t held = held_.load(std::memory_order_relaxed);
    do {
      const uint64_t bound = this->bound();
      if (held > bound || bytes > bound - held) return false;
    } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
    if (all_ == nullptr || all_->TryTake(bytes)) return true;
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  // Gives back bytes that were taken.
  void Give(uint64_t bytes) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    if (all_ != nullptr) all_->Give(bytes);
  }

  // What is held stays, even if it is more.
  void set_bound(uint64_t bound) { bound_.store(bound, std::memory_order_relaxed); }

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bound() const { return bound_.load(std::memory_order_relaxed); }
  const std::string& what() const { return what_; }

  // The one that has no room for `bytes` now, for messages: this, or what it is a part of.
  const ByteQuota& FullFor(uint64_t bytes) const {
    const bool has_room = held() <= bound() && bytes <= bound() - held();
    return has_room && all_ != nullptr ? *all_ : *this;
  }

 private:
  std::atomic<uint64_t> bound_;
  ByteQuota* const all_ = nullptr;
  const std::string what_ = "pending in all streams";
  std::atomic<uint64_t> held_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_BYTE_QUOTA_H_
