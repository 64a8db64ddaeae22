// Protobuf messages and gRPC's raw bytes.
//
// The services are raw on both ends: gRPC would turn a request that does not parse into the end of
// a stream, or into UNIMPLEMENTED for a unary call; here it becomes INVALID_ARGUMENT.
#ifndef PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_
#define PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"

namespace packhouse::rpc {

// INVALID_ARGUMENT if the bytes are not a message of this type. Empties the buffer.
template <typename Message>
absl::Status ParseBytes(grpc::ByteBuffer* bytes, Message* message) {
  const size_t size = bytes->Length();
  if (grpc::SerializationTraits<Message>::Deserialize(bytes, message).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the request of ", size, " bytes is not a ",
                                                 message->GetTypeName(),
                                                 ": truncated or malformed"));
}

// RESOURCE_EXHAUSTED if the message has more than `max_bytes`.
template <typename Message>
absl::Status WriteBytes(const Message& message, size_t max_bytes, grpc::ByteBuffer* bytes) {
  const size_t size = message.ByteSizeLong();
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the response ", message.GetTypeName(),
                                                     " has ", size, " bytes, at most ", max_bytes,
                                                     " may be sent"));
  }
  bool owned = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, bytes, &owned);
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the response ", message.GetTypeName(), " cannot be serialised"));
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_
