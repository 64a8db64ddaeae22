// The responses of a call that the connection has not taken yet.
#ifndef PACKHOUSE_SERVICE_RPC_OUTBOX_H_
#define PACKHOUSE_SERVICE_RPC_OUTBOX_H_

#include <cstddef>
#include <deque>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/admission/call_context.h"
#include "service/admission/rpc_observer.h"
#include "service/admission/unsent_count.h"
#include "service/base/status_macros.h"

namespace packhouse::rpc {

// Waking a thread, here or at the client, costs as much as making a small response. So small ones
// are made, and begin to be sent, many at a time.
//
// gRPC takes one response at a time: Begin() gives it, End() takes note that it has gone.
// Thread-compatible.
class Outbox {
 public:
  // No more are made until the half of it has been sent. Two responses at least, however large, so
  // that one is made while one is sent.
  static constexpr size_t kFullBytes = size_t{512} << 10;
  static constexpr size_t kFullResponses = 2;
  // Fewer bytes are not begun with while more are being made.
  static constexpr size_t kBeginBytes = kFullBytes / 4;

  // Who makes more, now.
  enum class Making {
    kNobody,
    kSender,  // The thread that would send.
    kOther,   // Another one: with two to send, it makes the next while the second is sent.
  };

  Outbox(const CallContext& context, Method method)
      : count_(context.observer, method, context.unsent_budget) {}

  bool is_sending() const { return is_sending_; }
  bool is_idle() const { return !is_sending_ && waiting_.empty(); }
  // Whether another response may be made. There is always room for one.
  bool has_room() const { return !Holds(kFullBytes) && count_.has_room(); }
  bool is_half_full() const { return Holds(kFullBytes / 2); }

  // Takes the bytes out of `response`. RESOURCE_EXHAUSTED as UnsentCount; then it is left alone.
  absl::Status Add(grpc::ByteBuffer* response) {
    const size_t bytes = response->Length();
    PH_RETURN_IF_ERROR(count_.Reserve(bytes));
    count_.Add(bytes);
    bytes_ += bytes;
    waiting_.emplace_back().Swap(response);
    return absl::OkStatus();
  }

  // In place of all that wait.
  absl::Status Replace(grpc::ByteBuffer* response) {
    for (const grpc::ByteBuffer& old : waiting_) count_.Remove(old.Length());
    waiting_.clear();
    bytes_ = 0;
    return Add(response);
  }

  // What is to be sent now, gRPC's until End(); null if nothing is, or something is on its way.
  grpc::ByteBuffer* Begin(Making making) {
    if (is_sending_ || waiting_.empty()) return nullptr;
    if (making != Making::kNobody && bytes_ < kBeginBytes) return nullptr;
    if (making == Making::kOther && waiting_.size() < kFullResponses) return nullptr;
    sending_.Swap(&waiting_.front());
    waiting_.pop_front();
    bytes_ -= sending_.Length();
    is_sending_ = true;
    return &sending_;
  }

  void End() {
    count_.Remove(sending_.Length());
    sending_.Clear();
    is_sending_ = false;
  }

  // What is left will not be sent.
  void Abandon() { count_.RemoveAll(); }

 private:
  bool Holds(size_t bytes) const { return waiting_.size() >= kFullResponses && bytes_ >= bytes; }

  grpc::ByteBuffer sending_;
  bool is_sending_ = false;
  std::deque<grpc::ByteBuffer> waiting_;
  size_t bytes_ = 0;  // Of those that wait.
  UnsentCount count_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_OUTBOX_H_
