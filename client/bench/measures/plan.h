// The time of a plan.
#ifndef PACKHOUSE_CLIENT_BENCH_MEASURES_PLAN_H_
#define PACKHOUSE_CLIENT_BENCH_MEASURES_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/bench_setup.h"

namespace packhouse::client {

// Milliseconds of each call.
struct PlanFigures {
  std::string name;
  std::vector<double> milliseconds;
};

// Plans of the graphs' histogram by each planner, with limits that the largest graph fills. Errors:
// those of the server.
absl::StatusOr<std::vector<PlanFigures>> MeasurePlan(const BenchSetup& setup);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_MEASURES_PLAN_H_
