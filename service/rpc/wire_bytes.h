// Protobuf messages and gRPC's raw bytes.
//
// The services are raw on both ends: gRPC would turn a request that does not parse into the end of
// a stream, or into UNIMPLEMENTED for a unary call; here it becomes INVALID_ARGUMENT.
#ifndef PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_
#define PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "service/rpc/batch_reply.h"

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

// Takes the string over.
inline grpc::Slice OwningSlice(std::string bytes) {
  auto* const own = new std::string(std::move(bytes));
  return grpc::Slice(
      own->data(), own->size(), [](void* string) { delete static_cast<std::string*>(string); },
      own);
}

// The same without copying tensors: the bytes hold their buffer until they are sent.
template <typename Response>
absl::Status WriteBytes(const BatchReply<Response>& reply, size_t max_bytes,
                        grpc::ByteBuffer* bytes) {
  MessagePieces pieces = PiecesOf(reply);
  if (pieces.size() > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the response ", reply.message.GetTypeName(),
                                                     " has ", pieces.size(), " bytes, at most ",
                                                     max_bytes, " may be sent"));
  }
  std::array<grpc::Slice, 3> slices;
  size_t n = 0;
  slices[n++] = OwningSlice(std::move(pieces.head));
  if (!pieces.framed_tensors.empty()) {
    using Holder = std::shared_ptr<const void>;
    slices[n++] = grpc::Slice(
        const_cast<char*>(pieces.framed_tensors.data()), pieces.framed_tensors.size(),
        [](void* holder) { delete static_cast<Holder*>(holder); }, new Holder(reply.buffer));
  }
  if (!pieces.tail.empty()) slices[n++] = grpc::Slice(pieces.tail);
  *bytes = grpc::ByteBuffer(slices.data(), n);
  return absl::OkStatus();
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_
