// A response that may carry a batch, whose tensors stay where they were built.
//
// Protobuf would copy all tensors of a batch when it serialises it. Instead, the message is laid
// out by hand: the collator writes tag and length before each tensor's data, so that all tensors
// are one run of bytes. This run is sent as it is, between small fields before and after it. The
// bytes are those that protobuf would write, so any client can parse them; but a tensor's data
// always come last.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_BATCH_REPLY_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_BATCH_REPLY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/receipts.pb.h"
#include "packhouse/v1/sampling.pb.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/collation/tensor_framing.h"

namespace packhouse {

// Frames tensors as field `tensors` of v1::Batch, for batches that leave in a BatchReply.
const TensorFraming& WireFraming();

template <typename Response>
struct BatchReply {
  // A batch in the message has no tensors.
  Response message;
  absl::string_view framed_tensors;
  // Holds them.
  std::shared_ptr<const void> buffer;

  // Takes the tensors of a batch that was collated with WireFraming().
  void TakeTensors(Batch batch) {
    framed_tensors = batch.framed;
    buffer = std::move(batch.buffer);
  }
};

// The bytes of a message: `head`, `framed_tensors`, `tail`. A message without tensors is entirely
// in `head`.
struct MessagePieces {
  std::string head;
  absl::string_view framed_tensors;
  std::string tail;
  // Holds framed_tensors.
  std::shared_ptr<const void> buffer;

  size_t size() const { return head.size() + framed_tensors.size() + tail.size(); }
  std::string Join() const { return absl::StrCat(head, framed_tensors, tail); }
};

// O(bytes without tensors).
MessagePieces PiecesOf(const BatchReply<v1::PackResponse>& reply);
MessagePieces PiecesOf(const BatchReply<v1::LoadResponse>& reply);
MessagePieces PiecesOf(const BatchReply<v1::SampleResponse>& reply);
MessagePieces PiecesOf(const BatchReply<v1::RebuildBatchesResponse>& reply);

// The whole message, for callers that do not send it. Copies the tensors.
template <typename Response>
Response ToMessage(const BatchReply<Response>& reply) {
  Response message;
  message.ParseFromString(PiecesOf(reply).Join());
  return message;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_BATCH_REPLY_H_
