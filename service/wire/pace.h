// Whether a stream's requests are quick to answer.
#ifndef PACKHOUSE_SERVICE_WIRE_PACE_H_
#define PACKHOUSE_SERVICE_WIRE_PACE_H_

#include "absl/time/time.h"
#include "service/base/clock.h"

namespace packhouse {

// gRPC's threads serve all connections: what takes long belongs on a pool. But a request that is
// answered sooner than a pool's thread wakes up is better answered by the thread that received it.
// Which it is, the latest ones tell.
//
// Thread-compatible.
class Pace {
 public:
  // At most so long is quick.
  static constexpr absl::Duration kQuick = absl::Microseconds(100);
  // So many in a row are believed.
  static constexpr int kEnough = 4;

  explicit Pace(const Clock* clock) : clock_(clock) {}

  bool is_quick() const { return quick_in_a_row_ >= kEnough; }

  // A request is begun with.
  void Begin() { begun_ = clock_->Now(); }
  // It has been answered, if one was begun with.
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

#endif  // PACKHOUSE_SERVICE_WIRE_PACE_H_
