// Views batches in the ByteBuffers of a generic stub, without a copy.
//
//   grpc::GenericStub stub(channel);
//   stub.PrepareBidiStreamingCall(&context, kLoadMethod, {}, reactor);   // reads ByteBuffers
//   ...
//   absl::StatusOr<std::optional<BatchView>> batch = ViewLoadResponse(buffer);
//   if (batch.ok() && batch->has_value()) Train((*batch)->tensors());
//   else status = ParseMessage(buffer, response);   // opened, end_of_epoch
//
// A view holds the received slices until it is destroyed, so memory grows with the views that are
// kept.
#ifndef PACKHOUSE_CLIENT_CPP_BATCH_SLICES_H_
#define PACKHOUSE_CLIENT_CPP_BATCH_SLICES_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/batch_view.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace packhouse::client {

// The names of the calls for a generic stub.
inline constexpr char kPackMethod[] = "/packhouse.v1.PackingService/Pack";
inline constexpr char kLoadMethod[] = "/packhouse.v1.LoaderService/Load";

// As BatchView::OfPackResponse and OfLoadResponse, for a received message. `buffer` may be
// destroyed afterwards. Thread-safe.
absl::StatusOr<std::optional<BatchView>> ViewPackResponse(const grpc::ByteBuffer& buffer);
absl::StatusOr<std::optional<BatchView>> ViewLoadResponse(const grpc::ByteBuffer& buffer);

// Parses any message with protobuf. `buffer` keeps its content. Errors: INVALID_ARGUMENT.
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);

// The bytes of `message`, to be written by a generic stub.
grpc::ByteBuffer ToByteBuffer(const google::protobuf::Message& message);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_BATCH_SLICES_H_
