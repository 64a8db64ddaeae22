#include "service/server/calls/batch_reply.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "service/server/calls/wire_graphs.h"

namespace packhouse {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

void AppendVarint(uint64_t value, std::string& out) {
  uint8_t bytes[10];
  const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

uint64_t VarintBytes(uint64_t value) { return CodedOutputStream::VarintSize64(value); }

void AppendTag(int field, WireFormatLite::WireType type, std::string& out) {
  AppendVarint(WireFormatLite::MakeTag(field, type), out);
}

// Tag and length of a field that is a message, bytes or packed.
void AppendHead(int field, uint64_t length, std::string& out) {
  AppendTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, out);
  AppendVarint(length, out);
}

uint64_t HeadBytes(int field, uint64_t length) {
  return VarintBytes(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) +
         VarintBytes(length);
}

// All fields except the data, without fields that have their default.
void AppendTensorFields(const BatchTensor& tensor, std::string& out) {
  if (!tensor.name.empty()) {
    AppendHead(v1::Tensor::kNameFieldNumber, tensor.name.size(), out);
    out += tensor.name;
  }
  if (const v1::DataType dtype = DTypeToWire(tensor.dtype); dtype != 0) {
    AppendTag(v1::Tensor::kDtypeFieldNumber, WireFormatLite::WIRETYPE_VARINT, out);
    AppendVarint(dtype, out);
  }
  if (!tensor.shape.empty()) {
    uint64_t bytes = 0;
    for (const uint64_t extent : tensor.shape) bytes += VarintBytes(extent);
    AppendHead(v1::Tensor::kShapeFieldNumber, bytes, out);
    for (const uint64_t extent : tensor.shape) AppendVarint(extent, out);
  }
  // Before the data, so that a tensor ends with them.
  if (tensor.declared_dtype) {
    AppendTag(v1::Tensor::kDeclaredDtypeFieldNumber, WireFormatLite::WIRETYPE_VARINT, out);
    AppendVarint(DTypeToWire(*tensor.declared_dtype), out);
  }
}

class FieldFraming final : public TensorFraming {
 public:
  void AppendFrame(const BatchTensor& tensor, uint64_t data_bytes,
                   std::optional<uint64_t> aligned_from, std::string& frames) const override {
    std::string fields;
    AppendTensorFields(tensor, fields);
    if (data_bytes != 0) {
      if (aligned_from) AppendGap(*aligned_from, data_bytes, fields);
      AppendHead(v1::Tensor::kDataFieldNumber, data_bytes, fields);
    }
    AppendHead(v1::Batch::kTensorsFieldNumber, fields.size() + data_bytes, frames);
    frames += fields;
  }

 private:
  // The field without which data that follows `fields` would not be aligned.
  static void AppendGap(uint64_t begin, uint64_t data_bytes, std::string& fields) {
    const uint64_t data_head = HeadBytes(v1::Tensor::kDataFieldNumber, data_bytes);
    // A gap may lengthen the tensor's own head, too, so each length is tried.
    for (uint64_t gap = 0;; ++gap) {
      const uint64_t gap_bytes =
          gap == 0 ? 0 : HeadBytes(v1::Tensor::kGapFieldNumber, gap - 1) + gap - 1;
      const uint64_t bytes = fields.size() + gap_bytes + data_head;
      if ((begin + HeadBytes(v1::Batch::kTensorsFieldNumber, bytes + data_bytes) + bytes) %
              kAlignment !=
          0) {
        continue;
      }
      if (gap == 0) return;
      AppendHead(v1::Tensor::kGapFieldNumber, gap - 1, fields);
      fields.append(gap - 1, '\0');
      return;
    }
  }
};

// For a response whose batch is a field of its own, the first one of those that are set.
template <typename Response>
MessagePieces PiecesWithBatch(const BatchReply<Response>& reply, int batch_field) {
  MessagePieces pieces;
  if (reply.framed_tensors.empty()) {
    reply.message.AppendToString(&pieces.head);
    return pieces;
  }
  const v1::Batch& batch = reply.message.batch();
  pieces.framed_tensors = reply.framed_tensors;
  pieces.buffer = reply.buffer;
  AppendHead(batch_field, batch.ByteSizeLong() + reply.framed_tensors.size(), pieces.head);
  batch.AppendToString(&pieces.head);
  return pieces;
}

// For a response with a LoadedBatch, the first one of the fields that are set.
template <typename Response>
MessagePieces PiecesWithLoadedBatch(const BatchReply<Response>& reply) {
  MessagePieces pieces;
  if (reply.framed_tensors.empty()) {
    reply.message.AppendToString(&pieces.head);
    return pieces;
  }
  const v1::LoadedBatch& loaded = reply.message.batch();
  // Fields after the batch.
  v1::LoadedBatch others;
  others.set_is_padding(loaded.is_padding());
  others.set_is_redelivered(loaded.is_redelivered());
  others.set_graphs_of_step(loaded.graphs_of_step());
  others.set_shape(loaded.shape());
  *others.mutable_drawn_smaller() = loaded.drawn_smaller();
  others.AppendToString(&pieces.tail);

  pieces.framed_tensors = reply.framed_tensors;
  pieces.buffer = reply.buffer;
  const uint64_t batch_bytes = loaded.batch().ByteSizeLong() + reply.framed_tensors.size();
  AppendHead(
      Response::kBatchFieldNumber,
      HeadBytes(v1::LoadedBatch::kBatchFieldNumber, batch_bytes) + batch_bytes + pieces.tail.size(),
      pieces.head);
  AppendHead(v1::LoadedBatch::kBatchFieldNumber, batch_bytes, pieces.head);
  loaded.batch().AppendToString(&pieces.head);
  return pieces;
}

}  // namespace

const TensorFraming& WireFraming() {
  static const FieldFraming framing;
  return framing;
}

MessagePieces PiecesOf(const BatchReply<v1::PackResponse>& reply) {
  return PiecesWithBatch(reply, v1::PackResponse::kBatchFieldNumber);
}

MessagePieces PiecesOf(const BatchReply<v1::SampleResponse>& reply) {
  MessagePieces pieces = PiecesWithBatch(reply, v1::SampleResponse::kBatchFieldNumber);
  if (!reply.framed_tensors.empty()) {
    // The field after the batch.
    v1::SampleResponse others;
    *others.mutable_drawn_smaller() = reply.message.drawn_smaller();
    others.AppendToString(&pieces.tail);
  }
  return pieces;
}

MessagePieces PiecesOf(const BatchReply<v1::LoadResponse>& reply) {
  return PiecesWithLoadedBatch(reply);
}

MessagePieces PiecesOf(const BatchReply<v1::RebuildBatchesResponse>& reply) {
  return PiecesWithLoadedBatch(reply);
}

}  // namespace packhouse
