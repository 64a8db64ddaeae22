// Protobuf messages and gRPC's raw bytes.
//
// The services are raw on both ends: gRPC would turn a request that does not parse into the end of
// a stream, or into UNIMPLEMENTED for a unary call; here it becomes INVALID_ARGUMENT.
#ifndef PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_
#define PACKHOUSE_SERVICE_RPC_WIRE_BYTES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "service/admission/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/wire/batch_reply.h"
#include "service/wire/wire_footprint.h"

namespace packhouse::rpc {

// Parses the bytes into `message`, which is empty, and empties them. The result holds what the
// message takes of `working` (null: nothing is counted), and is to be kept as long as the message.
// Fields that the service does not know are dropped.
//
// INVALID_ARGUMENT if the bytes are not a message of this type, or one that would take more than
// MostFootprint() in memory, naming the field that takes most; RESOURCE_EXHAUSTED if there is no
// room for it now. Then nothing was parsed. A message alone in the budget always has room.
template <typename Message>
absl::StatusOr<MemoryHold> ParseBytes(grpc::ByteBuffer* bytes, MemoryBudget* working,
                                      Message* message) {
  const size_t size = bytes->Length();
  const FootprintTable& table = FootprintTableOf<Message>();
  const uint64_t most = MostFootprint(size, kFootprintTimesOf<Message>);
  const auto malformed = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the request of ", size, " bytes is not a ",
                                                   message->GetTypeName(),
                                                   ": truncated or malformed"));
  };
  const auto measured = [&] {
    grpc::ProtoBufferReader reader(bytes);
    return table.Measure(&reader, size, most);
  }();
  if (!measured.ok()) return malformed();
  if (measured->bytes > most) {
    grpc::ProtoBufferReader reader(bytes);
    return absl::InvalidArgumentError(absl::StrCat(
        "the request ", message->GetTypeName(), " of ", size, " bytes would take more than the ",
        most, " bytes of memory that it may: ", table.LargestField(&reader, size, most)));
  }
  MemoryHold hold;
  if (working != nullptr) {
    const bool is_usual = measured->bytes <= MostFootprint(size);
    PH_ASSIGN_OR_RETURN(hold, working->Hold("a request while it is at work",
                                            is_usual ? std::min(measured->bytes, working->bound())
                                                     : measured->bytes));
  }
  {
    grpc::ProtoBufferReader reader(bytes);
    if (!message->ParseFromZeroCopyStream(&reader)) return malformed();
  }
  bytes->Clear();
  if (measured->unknown_bytes != 0) {
    message->DiscardUnknownFields();
    hold.ShrinkTo(measured->bytes - measured->unknown_bytes);
  }
  return hold;
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
