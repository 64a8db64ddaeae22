// When memory that nobody uses any more goes back to the system.
#ifndef PACKHOUSE_SERVICE_ADMISSION_MEMORY_RETURN_H_
#define PACKHOUSE_SERVICE_ADMISSION_MEMORY_RETURN_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace packhouse {

// Under load freed memory is kept: the next batch takes it without the kernel's help. Once the load
// has gone nobody takes it, and it is given back: after a few seconds in which the process did next
// to nothing, if it has clearly more than it had when it was idle before.
//
// Giving back stops every thread that allocates meanwhile: so never while there is work.
// Thread-compatible.
class MemoryReturn {
 public:
  struct Reading {
    // The process's own memory in RAM.
    uint64_t resident_bytes = 0;
    // What calls hold now: of this nothing can be given back.
    uint64_t held_bytes = 0;
    // What all its threads have worked since the start.
    absl::Duration cpu_time;
  };

  // How often Tick() wants to be called.
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  // The process is idle if for so long it worked less than this part of the time.
  static constexpr absl::Duration kIdleFor = absl::Seconds(5);
  static constexpr double kIdleLoad = 0.1;
  // Less is not worth the trouble.
  static constexpr uint64_t kLeastBytes = uint64_t{16} << 20;

  // `trim` gives back what it can.
  MemoryReturn(std::function<Reading()> read, std::function<void()> trim)
      : read_(std::move(read)), trim_(std::move(trim)) {}

  // Gives memory back if now is the time. Returns how much, if it did. What the process has at the
  // first call, it is taken to need: to be called once before there is any load.
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
  // Least memory beyond what calls held, since the start or the last return.
  uint64_t floor_bytes_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_MEMORY_RETURN_H_
