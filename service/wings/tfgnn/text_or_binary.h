// Files of TF-GNN that are messages in text or in binary form.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_TEXT_OR_BINARY_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_TEXT_OR_BINARY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace packhouse::tfgnn {

// Replaces `message`. Text is what parses as text; binary is what has a field that is known. `what`
// is what messages of errors call the file.
//
// INVALID_ARGUMENT, for text with line and column; for more than `max_bytes`. Thread-safe.
absl::Status ParseTextOrBinary(absl::string_view what, absl::string_view bytes, size_t max_bytes,
                               google::protobuf::Message& message);

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_TEXT_OR_BINARY_H_
