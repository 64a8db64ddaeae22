#include "service/server/wire/wire_feedback.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr int kMaxReports = 1024;
constexpr double kMaxSeconds = 1e6;
constexpr uint64_t kMaxPeakBytes = uint64_t{1} << 50;
constexpr uint64_t kMaxFeedbackRows = uint64_t{1} << 48;
constexpr uint64_t kMaxBatches = uint64_t{1} << 40;

absl::Status Malformed(int number, const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("batches[", number, "]: ", parts...));
}

// Ascending, `graphs` last.
bool ComesBefore(const std::string& a, const std::string& b) {
  if ((a == kGraphs) != (b == kGraphs)) return b == kGraphs;
  return a < b;
}

// The names, each once, with `graphs`.
absl::StatusOr<std::vector<std::string>> ComponentsOf(const v1::BatchFeedback& batch) {
  std::vector<std::string> components;
  for (const v1::Capacity& capacity : batch.capacities().capacities()) {
    if (capacity.component() != kGraphs &&
        !IsValidName(capacity.component(), kMaxComponentNameLength, kNamePunctuation)) {
      return Malformed(0, "component ", Quoted(capacity.component()), " is no name");
    }
    components.push_back(capacity.component());
  }
  std::sort(components.begin(), components.end(), ComesBefore);
  if (std::adjacent_find(components.begin(), components.end()) != components.end()) {
    return Malformed(0, "capacities: a component is listed twice");
  }
  if (components.empty() || components.back() != kGraphs ||
      components.size() > kMaxComponents + 1) {
    return Malformed(0, "capacities: must have `graphs` and at most ", kMaxComponents,
                     " other components");
  }
  return components;
}

absl::StatusOr<BatchObservation> ObservationFromWire(const v1::BatchFeedback& wire, int number,
                                                     const std::vector<std::string>& components) {
  BatchObservation observation;
  observation.capacities.assign(components.size(), 0);
  std::vector<bool> listed(components.size(), false);
  for (const v1::Capacity& capacity : wire.capacities().capacities()) {
    const auto place =
        std::lower_bound(components.begin(), components.end(), capacity.component(), ComesBefore);
    if (place == components.end() || *place != capacity.component()) {
      return Malformed(number, "component ", Quoted(capacity.component()),
                       " is none of the first batch's");
    }
    const auto k = static_cast<size_t>(place - components.begin());
    if (listed[k]) return Malformed(number, "component '", *place, "' is listed twice");
    if (capacity.rows() > kMaxFeedbackRows) {
      return Malformed(number, "component '", *place, "': ", capacity.rows(), " rows, at most ",
                       kMaxFeedbackRows);
    }
    listed[k] = true;
    observation.capacities[k] = capacity.rows();
  }
  for (size_t k = 0; k < components.size(); ++k) {
    if (!listed[k]) return Malformed(number, "component '", components[k], "' is missing");
  }
  observation.num_batches = std::max<uint64_t>(wire.num_batches(), 1);
  if (observation.num_batches > kMaxBatches) {
    return Malformed(number, "num_batches ", wire.num_batches(), ", at most ", kMaxBatches);
  }
  // Negated, because of NaN.
  if (!(wire.seconds() >= 0 && wire.seconds() <= kMaxSeconds)) {
    return Malformed(number, "seconds ", wire.seconds(), ", must be in [0, ", kMaxSeconds, "]");
  }
  if (wire.peak_bytes() > kMaxPeakBytes) {
    return Malformed(number, "peak_bytes ", wire.peak_bytes(), ", at most ", kMaxPeakBytes);
  }
  if (wire.out_of_memory() && (wire.seconds() != 0 || wire.peak_bytes() != 0)) {
    return Malformed(number, "out_of_memory with seconds or peak_bytes");
  }
  if (!wire.out_of_memory() && wire.seconds() == 0 && wire.peak_bytes() == 0) {
    return Malformed(number, "tells nothing: seconds, peak_bytes and out_of_memory are unset");
  }
  observation.seconds = wire.seconds();
  observation.peak_bytes = wire.peak_bytes();
  observation.out_of_memory = wire.out_of_memory();
  return observation;
}

}  // namespace

absl::StatusOr<FeedbackReport> FeedbackReportFromWire(const v1::ReportRequest& request) {
  FeedbackReport report;
  report.key = {request.model(), request.device()};
  PH_RETURN_IF_ERROR(CheckFeedbackKey(report.key));
  if (request.batches().empty() || request.batches_size() > kMaxReports) {
    return absl::InvalidArgumentError(
        absl::StrCat("batches: ", request.batches_size(), ", must be 1 to ", kMaxReports));
  }
  PH_ASSIGN_OR_RETURN(report.components, ComponentsOf(request.batches(0)));
  for (int i = 0; i < request.batches_size(); ++i) {
    PH_ASSIGN_OR_RETURN(BatchObservation observation,
                        ObservationFromWire(request.batches(i), i, report.components));
    report.observations.push_back(std::move(observation));
  }
  return report;
}

void DeviceModelToWire(const FeedbackKey& key, const KeptFeedback& kept, const MeasuredModel& model,
                       bool with_shapes, v1::DeviceModel& wire) {
  wire.set_model(key.model);
  wire.set_device(key.device);
  for (size_t k = 0; k < kept.components.size(); ++k) {
    v1::DeviceModel::Component& component = *wire.add_components();
    component.set_component(kept.components[k]);
    if (!model.seconds.per_row.empty()) component.set_seconds_per_row(model.seconds.per_row[k]);
    if (!model.bytes.per_row.empty()) component.set_bytes_per_row(model.bytes.per_row[k]);
  }
  wire.set_fixed_seconds(model.seconds.fixed);
  wire.set_least_seconds(model.seconds.least);
  wire.set_spread(model.seconds.spread);
  wire.set_fixed_bytes(model.bytes.fixed);
  if (model.bounds.most_bytes != UINT64_MAX) wire.set_most_bytes(model.bounds.most_bytes);
  wire.set_num_reports(kept.shapes.num_reports());
  wire.set_num_out_of_memory(kept.shapes.num_out_of_memory());
  wire.mutable_last_report()->set_seconds(static_cast<int64_t>(kept.last_report_seconds));
  if (!with_shapes) return;
  for (const MeasuredShape& seen : kept.shapes.shapes()) {
    v1::DeviceModel::Shape& shape = *wire.add_shapes();
    for (size_t k = 0; k < kept.components.size(); ++k) {
      v1::Capacity& capacity = *shape.mutable_capacities()->add_capacities();
      capacity.set_component(kept.components[k]);
      capacity.set_rows(seen.capacities[k]);
    }
    shape.set_num_batches(seen.num_batches);
    shape.set_seconds(seen.MedianSeconds());
    if (!model.seconds.per_row.empty()) {
      shape.set_expected_seconds(model.seconds.ValueOf(seen.capacities));
    }
    shape.set_peak_bytes(seen.peak_bytes);
    shape.set_num_out_of_memory(seen.num_out_of_memory);
  }
}

}  // namespace packhouse
