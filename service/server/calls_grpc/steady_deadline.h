// Deadlines for gRPC that a step of the machine's wall clock does not touch.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STEADY_DEADLINE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STEADY_DEADLINE_H_

#include "absl/time/time.h"
#include "grpc/support/time.h"

namespace packhouse {

// So long from now; less than zero counts as zero.
inline gpr_timespec SteadyDeadline(absl::Duration left) {
  if (left == absl::InfiniteDuration()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(absl::ToInt64Microseconds(left), GPR_TIMESPAN));
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_STEADY_DEADLINE_H_
