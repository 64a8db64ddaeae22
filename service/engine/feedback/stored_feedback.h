// What is kept of models, as the bytes of a file (proto/packhouse/internal/stored.proto).
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_STORED_FEEDBACK_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_STORED_FEEDBACK_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/feedback/feedback_store.h"

namespace packhouse {

// A title with the format's number; then for each model the length of its message (8 bytes,
// little-endian) and a MeasuredModel; then the CRC-32C of all before it (4 bytes). Equal contents
// have equal bytes.
std::string EncodeFeedback(const std::map<FeedbackKey, KeptFeedback>& all);

// DATA_LOSS if that is not what EncodeFeedback() gave.
absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> DecodeFeedback(absl::string_view bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_STORED_FEEDBACK_H_
