// Says in sentences why limits were chosen.
#ifndef PACKHOUSE_SERVICE_PLANNING_TUNING_TUNING_REASONS_H_
#define PACKHOUSE_SERVICE_PLANNING_TUNING_TUNING_REASONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/histograms/size_histogram.h"
#include "service/planning/device_profile.h"
#include "service/planning/oversize_graphs.h"
#include "service/planning/tuning/limit_tuner.h"
#include "service/sizes/size_schema.h"

namespace packhouse {

// What a search knows beside its result.
struct TuningFacts {
  // As in TuneProgress.
  uint64_t candidates = 0;
  uint64_t planned = 0;
  uint64_t excluded = 0;
  // No candidate was passed over for lack of steps.
  bool all_looked_at = false;
  // How much better than the best plan, at most, a candidate is that was not planned, as a share
  // of its cost (or of the inverse of its mean); if the budget ended there.
  std::optional<double> possible_gain;
  // The name of the best shape's lower bound.
  std::string bound_name;
};

// One for each thing that decided. `graphs`: those that were packed.
std::vector<std::string> TuningReasons(const TuneResult& result, const DeviceProfile& profile,
                                       const SizeSchema& schema, const SizeHistogram& graphs,
                                       const TuneOptions& options, const TuningFacts& facts);

// What was left out and what it would need.
std::string OversizeReason(const OversizeGraphs& oversize, const DeviceProfile& profile,
                           const SizeSchema& schema);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_TUNING_TUNING_REASONS_H_
