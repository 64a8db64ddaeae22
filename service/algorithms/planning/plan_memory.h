// The memory of planners, for callers that reserve it.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PLAN_MEMORY_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PLAN_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/types/span.h"
#include "service/algorithms/planning/plan.h"

namespace packhouse {

// The memory of a pattern in a list that grows. It is that of the list, which has room for up to
// twice its patterns and exists twice for a moment, and of the pattern's entries.
inline uint64_t BytesInList(const Pattern& pattern) {
  constexpr uint64_t kBlock = 16;  // The allocator's own bytes for each block.
  return 3 * sizeof(Pattern) + kBlock + pattern.entries.capacity() * sizeof(PatternEntry);
}
uint64_t BytesOfPatterns(absl::Span<const Pattern> patterns);

// Planning asks it before it takes more memory than PlannerBytes()
// (algorithms/planning/optimizer/planner_bytes.h), since the number of patterns is not known
// before. A planner that is refused once gives up, as if the caller had given up.
// Thread-compatible.
class PlanMemory {
 public:
  // Lists of patterns, of about the same length, that exist at one time: the best one, two of
  // first-fit decreasing, one that is being made, and those that are being improved or put into a
  // program.
  static constexpr uint64_t kLists = 7;

  // `hold(bytes)` reserves this many bytes more until planning has ended, and says whether there
  // was room.
  explicit PlanMemory(std::function<bool(uint64_t)> hold) : hold_(std::move(hold)) {}
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  // Whether a list of patterns may grow to this many bytes. After the first refusal, always false.
  bool HoldList(uint64_t bytes) {
    if (bytes <= longest_list_) return !refused_;
    // Grows in large steps, so that most patterns reserve nothing.
    const uint64_t longest = bytes + bytes / 8 + kLeastBytes;
    return HoldMore(kLists * (longest - std::exchange(longest_list_, longest)));
  }
  // Whether there is room for this many bytes more, until planning ends.
  bool HoldMore(uint64_t bytes) {
    if (!refused_ && bytes > spare_) {
      const uint64_t more = std::max(bytes, kLeastBytes);
      refused_ = !hold_(more);
      spare_ += more;
    }
    if (refused_) return false;
    spare_ -= bytes;
    return true;
  }

  bool refused() const { return refused_; }

 private:
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 14;

  const std::function<bool(uint64_t)> hold_;
  uint64_t longest_list_ = 0;
  uint64_t spare_ = 0;
  bool refused_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PLAN_MEMORY_H_
