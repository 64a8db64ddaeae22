// Memory that all streams of a server share.
#ifndef PACKHOUSE_SERVICE_STREAMS_BYTE_QUOTA_H_
#define PACKHOUSE_SERVICE_STREAMS_BYTE_QUOTA_H_

#include <atomic>
#include <cstdint>

namespace packhouse {

// Counts bytes that are held, up to a bound. Thread-safe, without locks.
class ByteQuota {
 public:
  explicit ByteQuota(uint64_t bound) : bound_(bound) {}

  // Takes nothing and returns false if the bound would be exceeded.
  bool TryTake(uint64_t bytes) {
    uint64_t held = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > bound_ - held) return false;
    } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
    return true;
  }
  // Gives back bytes that were taken.
  void Give(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bound() const { return bound_; }

 private:
  const uint64_t bound_;
  std::atomic<uint64_t> held_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STREAMS_BYTE_QUOTA_H_
