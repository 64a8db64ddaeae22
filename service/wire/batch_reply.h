// A response that may carry a batch, whose tensors stay where they were built.
//
// Serialising a batch by protobuf would copy all of its tensors. Instead, the message is laid out
// by hand: the collator leaves tag and length before each tensor's data, so that all tensors are
// one run of bytes, which is sent as it is, between small fields before and after. The bytes are
// those that protobuf would write; any client parses them.
#ifndef PACKHOUSE_SERVICE_WIRE_BATCH_REPLY_H_
#define PACKHOUSE_SERVICE_WIRE_BATCH_REPLY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "service/collation/batch.h"
#include "service/collation/tensor_framing.h"

namespace packhouse {

// As field `tensors` of v1::Batch, for batches that are to leave in a BatchReply.
const TensorFraming& WireFraming();

template <typename Response>
struct BatchReply {
  // A batch in it has no tensors.
  Response message;
  absl::string_view framed_tensors;
  // Holds them.
  std::shared_ptr<const void> buffer;

  // Of a batch that was collated with WireFraming().
  void TakeTensors(Batch batch) {
    framed_tensors = batch.framed;
    buffer = std::move(batch.buffer);
  }
};

// The bytes of a message: `head`, `framed_tensors`, `tail`. What has no tensors is all in `head`.
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

// The whole message, for those who do not send it. Copies the tensors.
template <typename Response>
Response ToMessage(const BatchReply<Response>& reply) {
  Response message;
  message.ParseFromString(PiecesOf(reply).Join());
  return message;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_BATCH_REPLY_H_
