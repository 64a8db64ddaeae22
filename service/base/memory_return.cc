#include "service/base/memory_return.h"

namespace packhouse {

std::optional<uint64_t> MemoryReturn::Tick(absl::Time now) {
  const Reading reading = read_();
  const uint64_t unheld = UnheldBytes(reading);
  if (!last_) {
    floor_bytes_ = unheld;
    idle_since_ = now;
  } else if (reading.cpu_time - last_->cpu_time > kIdleLoad * (now - last_time_)) {
    idle_since_ = now;
  }
  last_ = reading;
  last_time_ = now;
  floor_bytes_ = std::min(floor_bytes_, unheld);
  if (now - idle_since_ < kIdleFor || unheld - floor_bytes_ < kLeastBytes) return std::nullopt;
  trim_();
  last_ = read_();
  // The memory that is left is in use. It is not looked at again until it grows.
  floor_bytes_ = UnheldBytes(*last_);
  idle_since_ = now;
  return reading.resident_bytes - std::min(reading.resident_bytes, last_->resident_bytes);
}

}  // namespace packhouse
