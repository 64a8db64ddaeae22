#include "client/cpp/batch_slices.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/status.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace packhouse::client {
namespace {

using Parse = absl::StatusOr<std::optional<BatchView>>(absl::Span<const absl::string_view> pieces,
                                                       std::shared_ptr<const void> owner);

absl::StatusOr<std::optional<BatchView>> View(const grpc::ByteBuffer& buffer, Parse* parse) {
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (const grpc::Status status = buffer.Dump(slices.get()); !status.ok()) {
    return ToAbslStatus(status);
  }
  absl::InlinedVector<absl::string_view, 8> pieces;
  pieces.reserve(slices->size());
  // Short slices hold their bytes themselves, so viewed slices must not move any more.
  for (const grpc::Slice& slice : *slices) {
    pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return parse(pieces, slices);
}

}  // namespace

absl::StatusOr<std::optional<BatchView>> ViewPackResponse(const grpc::ByteBuffer& buffer) {
  return View(buffer, BatchView::OfPackResponse);
}

absl::StatusOr<std::optional<BatchView>> ViewLoadResponse(const grpc::ByteBuffer& buffer) {
  return View(buffer, BatchView::OfLoadResponse);
}

absl::Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::Message& message) {
  grpc::ByteBuffer copy(buffer);
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) return ToAbslStatus(reader.status());
  if (!message.ParseFromZeroCopyStream(&reader)) {
    return absl::InvalidArgumentError(
        absl::StrCat("what was received is no ", message.GetTypeName()));
  }
  return absl::OkStatus();
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace packhouse::client
