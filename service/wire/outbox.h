// The responses of a call that the connection has not taken yet.
#ifndef PACKHOUSE_SERVICE_WIRE_OUTBOX_H_
#define PACKHOUSE_SERVICE_WIRE_OUTBOX_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "service/admission/call_context.h"
#include "service/admission/rpc_observer.h"
#include "service/admission/unsent_count.h"
#include "service/base/status_macros.h"
#include "service/wire/batch_reply.h"

namespace packhouse {

// Waking a thread, here or at the client, costs as much as making a small response. So small ones
// are made, and begin to be sent, many at a time.
//
// A connection takes one response at a time: Begin() gives it, End() takes note that it has gone.
// Thread-compatible.
class Outbox {
 public:
  // No more are made until the half of it has been sent. Two responses at least, however large, so
  // that one is made while one is sent.
  static constexpr size_t kFullBytes = size_t{512} << 10;
  static constexpr size_t kFullResponses = 2;
  // Fewer bytes are not begun with while more are being made.
  static constexpr size_t kBeginBytes = kFullBytes / 4;

  // Whether more are being made now, beside what waits.
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

  // In place of all that wait.
  absl::Status Replace(MessagePieces response) {
    for (const MessagePieces& old : waiting_) count_.Remove(old.size());
    waiting_.clear();
    bytes_ = 0;
    return Add(std::move(response));
  }

  // What is to be sent now, on its way until End(); nothing if something is, or if more is to be
  // waited for: with two to send, the next is made while the second is sent.
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

  // What is left will not be sent.
  void Abandon() {
    waiting_.clear();
    count_.RemoveAll();
  }

 private:
  bool Holds(size_t bytes) const { return waiting_.size() >= kFullResponses && bytes_ >= bytes; }

  bool is_sending_ = false;
  size_t sending_bytes_ = 0;
  std::deque<MessagePieces> waiting_;
  size_t bytes_ = 0;  // Of those that wait.
  UnsentCount count_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_OUTBOX_H_
