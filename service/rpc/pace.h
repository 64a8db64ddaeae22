// Whether a call's responses are quick to make, or its requests to take.
#ifndef PACKHOUSE_SERVICE_RPC_PACE_H_
#define PACKHOUSE_SERVICE_RPC_PACE_H_

#include "absl/time/time.h"
#include "service/base/clock.h"

namespace packhouse::rpc {

// gRPC's threads serve all connections: what takes long belongs on a pool. But a response that is
// made sooner than a pool's thread wakes up is better made where the one before it was sent. Which
// it is, the latest ones tell: a batch is small or large, its rows are in memory or on the disk.
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

  void Begin() { begun_ = clock_->Now(); }
  void End() {
    if (clock_->Now() - begun_ > kQuick) {
      quick_in_a_row_ = 0;
    } else if (!is_quick()) {
      ++quick_in_a_row_;
    }
  }

 private:
  const Clock* const clock_;
  absl::Time begun_;
  int quick_in_a_row_ = 0;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_PACE_H_
