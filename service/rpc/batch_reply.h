// A response that may carry a batch, whose tensors stay where they were built.
//
// Serialising a batch by protobuf would copy all of its tensors. Instead, the message is laid out
// by hand: small fields serialised, then tag, length and a view for each tensor. The bytes are
// those that protobuf would write; any client parses them.
#ifndef PACKHOUSE_SERVICE_RPC_BATCH_REPLY_H_
#define PACKHOUSE_SERVICE_RPC_BATCH_REPLY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "service/collation/batch.h"

namespace packhouse::rpc {

template <typename Response>
struct BatchReply {
  // A batch in it has no tensors.
  Response message;
  std::vector<BatchTensor> tensors;
  // Holds their data.
  std::shared_ptr<const void> buffer;

  void TakeTensors(Batch batch) {
    tensors = std::move(batch.tensors);
    buffer = std::move(batch.buffer);
  }
};

// The bytes of a message, some of them elsewhere.
struct MessagePieces {
  // A run of bytes elsewhere that comes before own[at].
  struct View {
    size_t at;
    absl::string_view bytes;
  };

  std::string own;
  std::vector<View> views;  // Ascending.

  size_t size() const;
  std::string Join() const;
};

// Tensors of fewer bytes are copied: a view costs more.
inline constexpr size_t kMinViewBytes = 1024;

// O(bytes without views).
MessagePieces PiecesOf(const BatchReply<v1::PackResponse>& reply);
MessagePieces PiecesOf(const BatchReply<v1::LoadResponse>& reply);

// The whole message, for those who do not send it. Copies the tensors.
template <typename Response>
Response ToMessage(const BatchReply<Response>& reply) {
  Response message;
  message.ParseFromString(PiecesOf(reply).Join());
  return message;
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_BATCH_REPLY_H_
