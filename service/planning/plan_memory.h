// The memory that planners take, for callers that reserve it.
#ifndef PACKHOUSE_SERVICE_PLANNING_PLAN_MEMORY_H_
#define PACKHOUSE_SERVICE_PLANNING_PLAN_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/types/span.h"
#include "service/planning/plan.h"

namespace packhouse {

// What a pattern takes in a list that grows: of the list, which has up to twice the room that it
// needs and exists twice for a moment, and of its entries.
inline uint64_t BytesInList(const Pattern& pattern) {
  constexpr uint64_t kBlock = 16;  // What the allocator needs for a block of its own.
  return 3 * sizeof(Pattern) + kBlock + pattern.entries.capacity() * sizeof(PatternEntry);
}
uint64_t BytesOfPatterns(absl::Span<const Pattern> patterns);

// What planning asks before it takes more than PlannerBytes() (planning/optimizer/planner_bytes.h):
// how many patterns there will be is not known before. Who is refused once gives up, as if the
// caller had. Thread-compatible.
class PlanMemory {
 public:
  // Lists of patterns that exist at a time, of about the same length: the best one, those of
  // first-fit decreasing twice, one that is being made, and what is made better or into a program.
  static constexpr uint64_t kLists = 7;

  // `hold(bytes)` says whether there is room for so many bytes more, and keeps it until planning
  // has ended.
  explicit PlanMemory(std::function<bool(uint64_t)> hold) : hold_(std::move(hold)) {}
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  // Whether a list of patterns may grow to so many bytes; false for ever after the first time.
  bool HoldList(uint64_t bytes) {
    if (bytes <= longest_list_) return !refused_;
    // By steps: a pattern asks for nothing mostly.
    const uint64_t longest = bytes + bytes / 8 + kLeastBytes;
    return HoldMore(kLists * (longest - std::exchange(longest_list_, longest)));
  }
  // Whether there may be so many bytes more besides, until planning ends.
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

#endif  // PACKHOUSE_SERVICE_PLANNING_PLAN_MEMORY_H_
