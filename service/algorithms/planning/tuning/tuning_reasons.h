// Explains in sentences why limits were chosen.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_TUNING_REASONS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_TUNING_REASONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// Facts that a search knows besides its result.
struct TuningFacts {
  // As in TuneProgress.
  uint64_t candidates = 0;
  uint64_t planned = 0;
  uint64_t excluded = 0;
  // No candidate was passed over for lack of steps.
  bool all_looked_at = false;
  // Set if the budget ended: the most that an unplanned candidate can be better than the best plan,
  // as a share of its cost (or of the inverse of its mean).
  std::optional<double> possible_gain;
  // The name of the best shape's lower bound.
  std::string bound_name;
};

// One sentence for each deciding fact. `graphs`: those that were packed.
std::vector<std::string> TuningReasons(const TuneResult& result, const DeviceProfile& profile,
                                       const SizeSchema& schema, const SizeHistogram& graphs,
                                       const TuneOptions& options, const TuningFacts& facts);

// What shapes the groups of sizes have that no one shape takes together, and what they cost. The
// reasons of the first group by itself are to follow.
std::vector<std::string> GroupReasons(const TuneResult& result, const SizeSchema& schema);

// Which graphs were left out, and what they would need.
std::string OversizeReason(const OversizeGraphs& oversize, const DeviceProfile& profile,
                           const SizeSchema& schema);
// That, and that more shapes would take more, if they would.
std::vector<std::string> OversizeReasons(const OversizeGraphs& oversize,
                                         const DeviceProfile& profile, const SizeSchema& schema);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_TUNING_REASONS_H_
