#include "service/engine/feedback/stored_feedback.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "packhouse/internal/stored.pb.h"
#include "service/base/checksum.h"

namespace packhouse {
namespace {

internal::MeasuredModel ToStored(const FeedbackKey& key, const KeptFeedback& kept) {
  internal::MeasuredModel stored;
  stored.set_model(key.model);
  stored.set_device(key.device);
  for (const std::string& component : kept.components) stored.add_components(component);
  stored.set_num_reports(kept.shapes.num_reports());
  stored.set_num_out_of_memory(kept.shapes.num_out_of_memory());
  stored.set_last_report_seconds(kept.last_report_seconds);
  for (const MeasuredShape& shape : kept.shapes.shapes()) {
    for (const uint64_t capacity : shape.capacities) stored.add_capacities(capacity);
    stored.add_num_batches(shape.num_batches);
    stored.add_shape_out_of_memory(shape.num_out_of_memory);
    stored.add_peak_bytes(shape.peak_bytes);
    stored.add_last_report(shape.last_report);
    stored.add_num_samples(static_cast<uint32_t>(shape.seconds.size()));
    for (const double seconds : shape.seconds) stored.add_seconds(seconds);
  }
  return stored;
}

// False if it is not sound, or another model.
bool FromStored(const internal::MeasuredModel& stored, const FeedbackKey& key, KeptFeedback& kept) {
  kept.components.assign(stored.components().begin(), stored.components().end());
  kept.last_report_seconds = stored.last_report_seconds();
  const int width = stored.components_size();
  const int num_shapes = stored.num_batches_size();
  if (key != FeedbackKey{stored.model(), stored.device()} || width == 0 ||
      stored.capacities_size() != num_shapes * width ||
      stored.shape_out_of_memory_size() != num_shapes || stored.peak_bytes_size() != num_shapes ||
      stored.last_report_size() != num_shapes || stored.num_samples_size() != num_shapes ||
      num_shapes > static_cast<int>(MeasuredShapes::kMaxShapes)) {
    return false;
  }
  std::vector<MeasuredShape> shapes;
  int sample = 0;
  for (int i = 0; i < num_shapes; ++i) {
    MeasuredShape shape;
    for (int k = 0; k < width; ++k) shape.capacities.push_back(stored.capacities(i * width + k));
    shape.num_batches = stored.num_batches(i);
    shape.num_out_of_memory = stored.shape_out_of_memory(i);
    shape.peak_bytes = stored.peak_bytes(i);
    shape.last_report = stored.last_report(i);
    if (stored.num_samples(i) > MeasuredShape::kMaxSamples) return false;
    for (uint32_t n = 0; n < stored.num_samples(i); ++n, ++sample) {
      if (sample >= stored.seconds_size() || !std::isfinite(stored.seconds(sample))) return false;
      shape.seconds.push_back(stored.seconds(sample));
    }
    if (!shapes.empty() && shapes.back().capacities >= shape.capacities) return false;
    shapes.push_back(std::move(shape));
  }
  kept.shapes =
      MeasuredShapes::Restore(std::move(shapes), stored.num_reports(), stored.num_out_of_memory());
  return sample == stored.seconds_size();
}

std::string ChecksumOf(absl::string_view bytes) {
  const uint32_t checksum = Crc32c(bytes);
  std::string text;
  for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(checksum >> (8 * i)));
  return text;
}

}  // namespace

std::string EncodeFeedback(const FeedbackKey& key, const KeptFeedback& kept) {
  std::string bytes = ToStored(key, kept).SerializeAsString();
  return bytes + ChecksumOf(bytes);
}

absl::StatusOr<KeptFeedback> DecodeFeedback(const FeedbackKey& key, absl::string_view bytes) {
  const absl::string_view message =
      bytes.substr(0, bytes.size() - std::min<size_t>(4, bytes.size()));
  internal::MeasuredModel stored;
  KeptFeedback kept;
  if (bytes.substr(message.size()) == ChecksumOf(message) &&
      stored.ParseFromArray(message.data(), static_cast<int>(message.size())) &&
      FromStored(stored, key, kept)) {
    return kept;
  }
  return absl::DataLossError("measured model: the bytes are damaged");
}

}  // namespace packhouse
