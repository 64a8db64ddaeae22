// What is kept of a model on a device, and its name.
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_KEPT_FEEDBACK_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_KEPT_FEEDBACK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/feedback/batch_observation.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"

namespace packhouse {

// A model on a device.
struct FeedbackKey {
  std::string model;
  std::string device;

  // NOLINTNEXTLINE(modernize-use-nullptr): of the 0 that what is generated is compared with.
  friend auto operator<=>(const FeedbackKey&, const FeedbackKey&) = default;
};

// INVALID_ARGUMENT naming the model or the device, unless both are names (feedback.proto).
absl::Status CheckFeedbackKey(const FeedbackKey& key);
// "MODEL/DEVICE"; errors as CheckFeedbackKey.
absl::StatusOr<FeedbackKey> ParseMeasuredAs(absl::string_view measured_as);
// NOT_FOUND, as all stores say it.
absl::Status NoSuchModel(const FeedbackKey& key);

// What is kept of one model on one device.
struct KeptFeedback {
  // `graphs` last.
  std::vector<std::string> components;
  MeasuredShapes shapes;
  // Seconds since 1970 of the latest report.
  uint64_t last_report_seconds = 0;

  friend bool operator==(const KeptFeedback&, const KeptFeedback&) = default;
};

// Adds what was reported at `now`. FAILED_PRECONDITION for other components than the model's.
absl::Status AddReport(const FeedbackKey& key, const std::vector<std::string>& components,
                       absl::Span<const BatchObservation> observations, absl::Time now,
                       KeptFeedback& kept);
// RESOURCE_EXHAUSTED if there is no room for one model more than `num_models`.
absl::Status CheckRoomForModel(const FeedbackKey& key, size_t num_models, size_t max_models);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_KEPT_FEEDBACK_H_
