// Whether a stream's requests are quick to answer.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_PACE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_PACE_H_

#include "absl/time/time.h"
#include "service/base/clock.h"

namespace packhouse {

// gRPC's threads serve all connections, so long work must run on a pool. But if a request takes
// less time than waking a thread of the pool, the thread that received it should answer it. The
// latest requests show which case applies.
//
// Thread-compatible.
class Pace {
 public:
  // A request that takes at most this long is quick.
  static constexpr absl::Duration kQuick = absl::Microseconds(100);
  // After this many quick requests in a row, the next is expected to be quick.
  static constexpr int kEnough = 4;

  explicit Pace(const Clock* clock) : clock_(clock) {}

  bool is_quick() const { return quick_in_a_row_ >= kEnough; }

  // To be called when work on a request begins.
  void Begin() { begun_ = clock_->Now(); }
  // To be called when the request has been answered, if Begin() was called.
  void End() {
    if (begun_ == absl::InfiniteFuture()) return;
    if (clock_->Now() - begun_ > kQuick) {
      quick_in_a_row_ = 0;
    } else if (!is_quick()) {
      ++quick_in_a_row_;
    }
    begun_ = absl::InfiniteFuture();
  }

 private:
  const Clock* const clock_;
  absl::Time begun_ = absl::InfiniteFuture();
  int quick_in_a_row_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_PACE_H_
