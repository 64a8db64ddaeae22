#include "service/rpc/batch_reply.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "service/rpc/wire_graphs.h"

namespace packhouse::rpc {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

void AppendVarint(uint64_t value, std::string& out) {
  uint8_t bytes[10];
  const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

// Tag and length of a field that is a message or bytes.
void AppendHead(int field, uint64_t length, std::string& out) {
  AppendVarint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), out);
  AppendVarint(length, out);
}

uint64_t HeadBytes(int field, uint64_t length) {
  return CodedOutputStream::VarintSize64(
             WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) +
         CodedOutputStream::VarintSize64(length);
}

// A batch whose fields but `tensors`, the last one, are in `message`.
class BatchWriter {
 public:
  BatchWriter(const v1::Batch& message, const std::vector<BatchTensor>& tensors)
      : message_(message), tensors_(tensors), num_bytes_(message.ByteSizeLong()) {
    heads_.reserve(tensors.size());
    for (const BatchTensor& tensor : tensors) {
      v1::Tensor wire;
      TensorToWire(tensor, wire);
      std::string head = wire.SerializeAsString();
      uint64_t length = head.size();
      if (!tensor.data.empty()) {
        AppendHead(v1::Tensor::kDataFieldNumber, tensor.data.size(), head);
        length = head.size() + tensor.data.size();
      }
      lengths_.push_back(length);
      heads_.push_back(std::move(head));
      num_bytes_ += HeadBytes(v1::Batch::kTensorsFieldNumber, length) + length;
    }
  }

  uint64_t num_bytes() const { return num_bytes_; }

  void Append(MessagePieces& pieces) const {
    message_.AppendToString(&pieces.own);
    for (size_t t = 0; t < tensors_.size(); ++t) {
      AppendHead(v1::Batch::kTensorsFieldNumber, lengths_[t], pieces.own);
      pieces.own += heads_[t];
      const absl::string_view data = tensors_[t].data;
      if (data.size() < kMinViewBytes) {
        pieces.own.append(data.data(), data.size());
      } else {
        pieces.views.push_back({pieces.own.size(), data});
      }
    }
  }

 private:
  const v1::Batch& message_;
  const std::vector<BatchTensor>& tensors_;
  // Of each tensor: all but the data, and how many bytes it has with them.
  std::vector<std::string> heads_;
  std::vector<uint64_t> lengths_;
  uint64_t num_bytes_;
};

}  // namespace

size_t MessagePieces::size() const {
  size_t sum = own.size();
  for (const View& view : views) sum += view.bytes.size();
  return sum;
}

std::string MessagePieces::Join() const {
  std::string joined;
  joined.reserve(size());
  size_t done = 0;
  for (const View& view : views) {
    joined.append(own, done, view.at - done);
    joined.append(view.bytes.data(), view.bytes.size());
    done = view.at;
  }
  return joined.append(own, done, std::string::npos);
}

MessagePieces PiecesOf(const BatchReply<v1::PackResponse>& reply) {
  MessagePieces pieces;
  if (reply.tensors.empty()) {
    reply.message.AppendToString(&pieces.own);
    return pieces;
  }
  const BatchWriter batch(reply.message.batch(), reply.tensors);
  AppendHead(v1::PackResponse::kBatchFieldNumber, batch.num_bytes(), pieces.own);
  batch.Append(pieces);
  return pieces;
}

MessagePieces PiecesOf(const BatchReply<v1::LoadResponse>& reply) {
  MessagePieces pieces;
  if (reply.tensors.empty()) {
    reply.message.AppendToString(&pieces.own);
    return pieces;
  }
  const v1::LoadedBatch& loaded = reply.message.batch();
  const BatchWriter batch(loaded.batch(), reply.tensors);
  // Fields after the batch.
  v1::LoadedBatch others;
  others.set_is_padding(loaded.is_padding());
  others.set_is_redelivered(loaded.is_redelivered());
  others.set_graphs_of_step(loaded.graphs_of_step());
  others.set_shape(loaded.shape());
  const std::string tail = others.SerializeAsString();
  const uint64_t head = HeadBytes(v1::LoadedBatch::kBatchFieldNumber, batch.num_bytes());
  AppendHead(v1::LoadResponse::kBatchFieldNumber, head + batch.num_bytes() + tail.size(),
             pieces.own);
  AppendHead(v1::LoadedBatch::kBatchFieldNumber, batch.num_bytes(), pieces.own);
  batch.Append(pieces);
  pieces.own += tail;
  return pieces;
}

}  // namespace packhouse::rpc
