// Workers of a job that come at about the same time.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOIN_BURST_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOIN_BURST_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace packhouse {

// Tells whether a commit should wait for more joins. Workers that come together come one after the
// other: their client opens one stream after another, each in some tenths of a millisecond, and on
// a busy machine in more. A fast disk would commit each alone.
//
// A burst ends when nobody comes for `longest`, or when its group is complete. The first worker of
// a burst may be the only one, so nobody waits for others as long as it is alone. Nor are workers
// waited for that are opened one after the other, each when the one before it has been answered:
// once nobody has come while others were waited for, nobody is waited for until workers have met
// each other, or none has come for kQuiet times `longest`.
// Thread-compatible.
class JoinBurst {
 public:
  explicit JoinBurst(absl::Duration longest) : longest_(longest) {}

  static constexpr int kQuiet = 20;

  // A worker has come. `group` is the number of workers that come together; 0: not known. `meets`:
  // an earlier one has not been answered.
  void Came(absl::Time now, uint64_t group, bool meets) {
    if (meets || now - last_ > kQuiet * longest_) was_in_vain_ = false;
    if (is_complete() || now - last_ > longest_) num_ = 0;
    last_ = num_ == 0 ? now : std::max(last_, now);
    group_ = group;
    ++num_;
  }

  // Whether others are expected to follow the ones that have come.
  bool ExpectsMore() const { return num_ > 1 && !is_complete() && !was_in_vain_; }
  // Others were waited for, and nobody came.
  void WaitedInVain() { was_in_vain_ = true; }
  // Whether it is known how many these are.
  bool knows_group() const { return group_ != 0; }
  // Those that have come.
  uint64_t num() const { return num_; }

 private:
  bool is_complete() const { return group_ != 0 && num_ >= group_; }

  const absl::Duration longest_;
  uint64_t num_ = 0;
  uint64_t group_ = 0;
  bool was_in_vain_ = false;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOIN_BURST_H_
