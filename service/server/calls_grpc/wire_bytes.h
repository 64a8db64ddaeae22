// Converts gRPC's raw bytes to those of server/calls, and back.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_WIRE_BYTES_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_WIRE_BYTES_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "service/base/status_macros.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/message_pieces.h"
#include "service/server/calls/request_bytes.h"

namespace packhouse::rpc {

class ReceivedBytes final : public RequestBytes {
 public:
  // Shares the bytes: gRPC may drop its own.
  explicit ReceivedBytes(const grpc::ByteBuffer& bytes) : bytes_(bytes) {}
  // Takes the bytes.
  explicit ReceivedBytes(grpc::ByteBuffer* bytes) { bytes_.Swap(bytes); }

  size_t size() const override { return bytes_.Length(); }
  void Read(absl::FunctionRef<void(google::protobuf::io::ZeroCopyInputStream& stream)> read)
      const override {
    grpc::ProtoBufferReader reader(&bytes_);
    read(reader);
  }

 private:
  mutable grpc::ByteBuffer bytes_;  // Reading does not change the bytes.
};

// Takes the string over.
inline grpc::Slice OwningSlice(std::string bytes) {
  auto* const own = new std::string(std::move(bytes));
  return grpc::Slice(
      own->data(), own->size(), [](void* string) { delete static_cast<std::string*>(string); },
      own);
}

// Without copying tensors: the bytes hold their buffer until they are sent.
inline void ToBytes(MessagePieces pieces, grpc::ByteBuffer* bytes) {
  std::array<grpc::Slice, 3> slices;
  size_t n = 0;
  slices[n++] = OwningSlice(std::move(pieces.head));
  if (!pieces.framed_tensors.empty()) {
    using Holder = std::shared_ptr<const void>;
    slices[n++] = grpc::Slice(
        const_cast<char*>(pieces.framed_tensors.data()), pieces.framed_tensors.size(),
        [](void* holder) { delete static_cast<Holder*>(holder); },
        new Holder(std::move(pieces.buffer)));
  }
  if (!pieces.tail.empty()) slices[n++] = grpc::Slice(pieces.tail);
  grpc::ByteBuffer filled(slices.data(), n);
  bytes->Swap(&filled);
}

// Errors as PiecesWithin.
template <typename Message>
absl::Status WriteBytes(const Message& message, size_t max_bytes, grpc::ByteBuffer* bytes) {
  PH_ASSIGN_OR_RETURN(MessagePieces pieces, PiecesWithin(message, max_bytes));
  ToBytes(std::move(pieces), bytes);
  return absl::OkStatus();
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_WIRE_BYTES_H_
