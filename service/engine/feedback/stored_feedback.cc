#include "service/engine/feedback/stored_feedback.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/checksum.h"

namespace packhouse {
namespace {

constexpr absl::string_view kFeedbackTitle = "packhouse measured models 1\n";

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

// False if it is not sound.
bool FromStored(const internal::MeasuredModel& stored, FeedbackKey& key, KeptFeedback& kept) {
  key = {stored.model(), stored.device()};
  kept.components.assign(stored.components().begin(), stored.components().end());
  kept.last_report_seconds = stored.last_report_seconds();
  const int width = stored.components_size();
  const int num_shapes = stored.num_batches_size();
  if (!CheckFeedbackKey(key).ok() || width == 0 || stored.capacities_size() != num_shapes * width ||
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

std::string Number(uint64_t number, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(number >> (8 * i));
  return text;
}
uint64_t NumberIn(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

}  // namespace

std::string EncodeFeedback(const std::map<FeedbackKey, KeptFeedback>& all) {
  std::string bytes(kFeedbackTitle);
  for (const auto& [key, kept] : all) {
    const std::string message = ToStored(key, kept).SerializeAsString();
    bytes += Number(message.size(), 8);
    bytes += message;
  }
  return bytes + Number(Crc32c(bytes), 4);
}

absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> DecodeFeedback(absl::string_view bytes) {
  const absl::Status lost = absl::DataLossError("measured models: the bytes are damaged");
  if (!absl::StartsWith(bytes, kFeedbackTitle) || bytes.size() < kFeedbackTitle.size() + 4) {
    return lost;
  }
  if (Crc32c(bytes.substr(0, bytes.size() - 4)) != NumberIn(bytes.substr(bytes.size() - 4))) {
    return lost;
  }
  bytes = bytes.substr(kFeedbackTitle.size(), bytes.size() - kFeedbackTitle.size() - 4);
  std::map<FeedbackKey, KeptFeedback> all;
  while (!bytes.empty()) {
    if (bytes.size() < 8 || NumberIn(bytes.substr(0, 8)) > bytes.size() - 8) return lost;
    const size_t length = NumberIn(bytes.substr(0, 8));
    internal::MeasuredModel stored;
    FeedbackKey key;
    KeptFeedback kept;
    if (!stored.ParseFromArray(bytes.data() + 8, static_cast<int>(length)) ||
        !FromStored(stored, key, kept) || !all.emplace(std::move(key), std::move(kept)).second) {
      return lost;
    }
    bytes.remove_prefix(8 + length);
  }
  return all;
}

}  // namespace packhouse
