// Gives unused memory back to the system at the right time.
#ifndef PACKHOUSE_SERVICE_BASE_MEMORY_RETURN_H_
#define PACKHOUSE_SERVICE_BASE_MEMORY_RETURN_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace packhouse {

// Under load, freed memory is kept: the next batch takes it without the kernel's help. Once the
// load has gone, it is given back: after a few seconds in which the process was almost idle, if the
// process has clearly more memory than when it was idle before.
//
// Giving memory back stops every thread that allocates meanwhile, so it never happens while there
// is work. Thread-compatible.
class MemoryReturn {
 public:
  struct Reading {
    // The process's own memory in RAM.
    uint64_t resident_bytes = 0;
    // Bytes that calls hold now; these cannot be given back.
    uint64_t held_bytes = 0;
    // Processor time of all its threads since the start.
    absl::Duration cpu_time;
  };

  // How often to call Tick().
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  // The process is idle if it worked less than kIdleLoad of the time for this long.
  static constexpr absl::Duration kIdleFor = absl::Seconds(5);
  static constexpr double kIdleLoad = 0.1;
  // Less memory is not given back.
  static constexpr uint64_t kLeastBytes = uint64_t{16} << 20;

  // `trim` gives back what is possible.
  MemoryReturn(std::function<Reading()> read, std::function<void()> trim)
      : read_(std::move(read)), trim_(std::move(trim)) {}

  // Gives memory back if now is the time; then returns how much. The memory of the process at the
  // first call counts as needed, so call it once before there is any load.
  std::optional<uint64_t> Tick(absl::Time now);

 private:
  static uint64_t UnheldBytes(const Reading& reading) {
    return reading.resident_bytes - std::min(reading.resident_bytes, reading.held_bytes);
  }

  const std::function<Reading()> read_;
  const std::function<void()> trim_;
  std::optional<Reading> last_;
  absl::Time last_time_;
  absl::Time idle_since_;
  // The least memory beyond what calls held, since the start or the last return.
  uint64_t floor_bytes_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_MEMORY_RETURN_H_
