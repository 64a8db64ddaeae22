// What batches cost on devices: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_FEEDBACK_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_FEEDBACK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "packhouse/v1/feedback.pb.h"
#include "service/algorithms/planning/feedback/batch_observation.h"
#include "service/engine/feedback/feedback_store.h"

namespace packhouse {

struct FeedbackReport {
  FeedbackKey key;
  // Ascending, `graphs` last: clients may name them in any order.
  std::vector<std::string> components;
  std::vector<BatchObservation> observations;
};

// INVALID_ARGUMENT naming the field, the value and the bound.
absl::StatusOr<FeedbackReport> FeedbackReportFromWire(const v1::ReportRequest& request);

// Without shapes unless `with_shapes`.
void DeviceModelToWire(const FeedbackKey& key, const KeptFeedback& kept, const MeasuredModel& model,
                       bool with_shapes, v1::DeviceModel& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_FEEDBACK_H_
