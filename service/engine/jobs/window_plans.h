// Which windows of an epoch (EpochWindows), or which of its segments, are being planned for the
// sessions that load it, and why planning failed.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_WINDOW_PLANS_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_WINDOW_PLANS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace packhouse {

// What a session waits for; its own.
using AwaitedWindow = std::optional<uint64_t>;

// A failure is told to the sessions that waited for the window. One that may pass (MayPass()) is
// told once each, and to nobody else: whoever needs the window next has it planned again, and those
// who were not told yet then wait for that attempt. Another stays until a worker joins. Neither is
// told to sessions that need other windows.
// Thread-compatible.
class WindowPlans {
 public:
  // Whether the same may succeed a moment later: engines are out of reach, memory or room in a
  // cache is short, or planning was given up.
  static bool MayPass(const absl::Status& status);

  // A session cannot go on without the window. True if the caller must have it planned, false if it
  // is being planned already. The session asks again when it is woken. An error is why planning
  // failed; its stream must end.
  absl::StatusOr<bool> Need(uint64_t window, AwaitedWindow& awaited);
  // It will be needed soon. True if the caller must have it planned; false also if it has failed.
  bool BeginAhead(uint64_t window);
  void Ended(uint64_t window, const absl::Status& status);
  // A worker joined.
  void ForgetFailures() { failures_.clear(); }

 private:
  std::set<uint64_t> under_way_;
  std::map<uint64_t, absl::Status> failures_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_WINDOW_PLANS_H_
