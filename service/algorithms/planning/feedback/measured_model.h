// What batches of a model cost on a device, as far as it was measured: seconds and bytes as a
// function of capacities.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_MEASURED_MODEL_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_MEASURED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/feedback/cost_fit.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"
#include "service/algorithms/planning/measured_bytes.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// Immutable; thread-safe.
struct MeasuredModel {
  // `graphs` last.
  std::vector<std::string> components;
  // Empty per_row: no seconds, or no bytes, were told.
  CostFit seconds;
  // A law that no batch that was seen exceeds: the constant is as large as that takes. For people;
  // limits are chosen by `bounds`.
  CostFit bytes;
  // In the order of `components`.
  MeasuredBytes bounds;
};

// Fits both laws and the bounds of bytes. `components` name those of the shapes, `graphs` last.
// Same shapes, same model. Cost as FitCost.
MeasuredModel FitModel(const std::vector<std::string>& components, const MeasuredShapes& shapes);

// The profile with the model's costs (in seconds) and bytes instead of its own, as far as they were
// measured. Components that a profile gives a limit and a cost keep a cost above 0, since others
// would grow without need. nullopt if the model tells nothing, or knows nothing of a component that
// has a limit in the profile. The profile need not be checked; its capacities stay.
std::optional<DeviceProfile> WithMeasured(const DeviceProfile& profile, const SizeSchema& schema,
                                          const MeasuredModel& model);

// Models by name, "MODEL/DEVICE". Thread-safe.
class MeasuredModels {
 public:
  virtual ~MeasuredModels() = default;
  // Null if nothing was reported. O(1), or the fit's cost if there are new reports.
  virtual std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_MEASURED_MODEL_H_
