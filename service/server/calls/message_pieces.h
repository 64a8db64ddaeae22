// The bytes of a response as they are sent.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_MESSAGE_PIECES_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_MESSAGE_PIECES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "service/base/status_macros.h"
#include "service/server/calls/batch_reply.h"

namespace packhouse {
namespace internal {

inline absl::Status CheckResponseBytes(absl::string_view type, size_t bytes, size_t max_bytes) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the response ", type, " has ", bytes,
                                                   " bytes, at most ", max_bytes, " may be sent"));
}

}  // namespace internal

// The bytes of `message`. RESOURCE_EXHAUSTED if there are more than `max_bytes`. O(bytes).
template <typename Message>
absl::StatusOr<MessagePieces> PiecesWithin(const Message& message, size_t max_bytes) {
  const size_t bytes = message.ByteSizeLong();
  PH_RETURN_IF_ERROR(internal::CheckResponseBytes(message.GetTypeName(), bytes, max_bytes));
  MessagePieces pieces;
  if (!message.SerializeToString(&pieces.head)) {
    return absl::InternalError(
        absl::StrCat("the response ", message.GetTypeName(), " cannot be serialised"));
  }
  return pieces;
}

// The same without copying tensors. O(bytes without tensors).
template <typename Response>
absl::StatusOr<MessagePieces> PiecesWithin(const BatchReply<Response>& reply, size_t max_bytes) {
  MessagePieces pieces = PiecesOf(reply);
  PH_RETURN_IF_ERROR(
      internal::CheckResponseBytes(reply.message.GetTypeName(), pieces.size(), max_bytes));
  return pieces;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_MESSAGE_PIECES_H_
