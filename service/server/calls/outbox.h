// The responses of a call that the connection has not taken yet.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_OUTBOX_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_OUTBOX_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "service/base/status_macros.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/calls/unsent_count.h"

namespace packhouse {

// Waking a thread, here or at the client, costs as much as making a small response. So small
// responses are made, and begin to be sent, many at a time.
//
// A connection takes one response at a time: Begin() gives it, End() notes that it has been sent.
// Thread-compatible.
class Outbox {
 public:
  // When it holds this much, no more responses are made until half of it has been sent. It holds at
  // least two responses of any size, so that one is made while another is sent.
  static constexpr size_t kFullBytes = size_t{512} << 10;
  static constexpr size_t kFullResponses = 2;
  // Sending does not begin with fewer bytes while more responses are being made.
  static constexpr size_t kBeginBytes = kFullBytes / 4;

  // Whether more responses are being made now.
  enum class More { kNone, kComing };

  Outbox(const CallContext& context, Method method)
      : count_(context.observer, method, context.unsent_budget) {}

  bool is_sending() const { return is_sending_; }
  bool is_idle() const { return !is_sending_ && waiting_.empty(); }
  // Whether another response may be made. There is always room for one.
  bool has_room() const { return !Holds(kFullBytes) && count_.has_room(); }
  bool is_half_full() const { return Holds(kFullBytes / 2); }

  // RESOURCE_EXHAUSTED as UnsentCount; then the response is dropped.
  absl::Status Add(MessagePieces response) {
    const size_t bytes = response.size();
    PH_RETURN_IF_ERROR(count_.Reserve(bytes));
    waiting_.push_back(std::move(response));
    bytes_ += bytes;
    count_.Add(bytes);
    return absl::OkStatus();
  }

  // Replaces all waiting responses.
  absl::Status Replace(MessagePieces response) {
    for (const MessagePieces& old : waiting_) count_.Remove(old.size());
    waiting_.clear();
    bytes_ = 0;
    return Add(std::move(response));
  }

  // The response to send now; it is on its way until End(). nullopt if another one is on its way,
  // or if it should wait for more: with two to send, the next is made while the second is sent.
  std::optional<MessagePieces> Begin(More more) {
    if (is_sending_ || waiting_.empty()) return std::nullopt;
    if (more == More::kComing && !Holds(kBeginBytes)) return std::nullopt;
    std::optional<MessagePieces> response(std::move(waiting_.front()));
    waiting_.pop_front();
    sending_bytes_ = response->size();
    bytes_ -= sending_bytes_;
    is_sending_ = true;
    return response;
  }

  void End() {
    count_.Remove(sending_bytes_);
    sending_bytes_ = 0;
    is_sending_ = false;
  }

  // Drops the responses that are left.
  void Abandon() {
    waiting_.clear();
    count_.RemoveAll();
  }

 private:
  bool Holds(size_t bytes) const { return waiting_.size() >= kFullResponses && bytes_ >= bytes; }

  bool is_sending_ = false;
  size_t sending_bytes_ = 0;
  std::deque<MessagePieces> waiting_;
  size_t bytes_ = 0;  // Bytes of the waiting responses.
  UnsentCount count_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_OUTBOX_H_
