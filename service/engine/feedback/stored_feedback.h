// What is kept of a model, as bytes (proto/packhouse/internal/stored.proto).
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_STORED_FEEDBACK_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_STORED_FEEDBACK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/feedback/kept_feedback.h"

namespace packhouse {

// A MeasuredModel, and the CRC-32C of its bytes (4 bytes, little-endian). Equal contents have equal
// bytes.
std::string EncodeFeedback(const FeedbackKey& key, const KeptFeedback& kept);

// DATA_LOSS if that is not what EncodeFeedback() gave for this model.
absl::StatusOr<KeptFeedback> DecodeFeedback(const FeedbackKey& key, absl::string_view bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_STORED_FEEDBACK_H_
