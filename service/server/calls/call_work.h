// The work of a streaming call: makes responses, and takes requests if there are any.
//
// StreamWork works with a StreamHandler, SourceWork with a ResponseSource. They turn messages into
// bytes and back, so that streaming_call.h, which decides what runs when, knows nothing of
// messages.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_WORK_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_WORK_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/message_pieces.h"
#include "service/server/calls/request_bytes.h"
#include "service/server/calls/request_rights.h"
#include "service/server/calls/response_source.h"
#include "service/server/calls/stream_handler.h"

namespace packhouse {

// Called by one thread at a time. Every function may throw std::bad_alloc.
class CallWork {
 public:
  // What the work needs before it can give more, after Next() has given nothing.
  enum class Need {
    kTurn,     // To be asked again; it stopped to let others have their turn.
    kRequest,  // A request, the time NextDeadline(), or Close().
    kWake,     // The call's Waker. Without requests: or Close().
    kNothing,  // Nothing: it has given everything.
  };

  virtual ~CallWork() = default;

  // Whether requests must be read for it.
  virtual bool takes_requests() const = 0;

  // Whether Next() or Accept() may wait, for example for the disk. Then they are never called on
  // gRPC's threads.
  virtual bool MayBlock() const { return false; }

  // Whether Next() is about to wait for another machine: then it is called on the opening pool.
  virtual bool IsOpening() const { return false; }

  // An error ends the call once all earlier responses have been sent.
  virtual absl::StatusOr<std::optional<MessagePieces>> Next() = 0;
  virtual Need need() const = 0;
  virtual absl::Time NextDeadline() const { return absl::InfiniteFuture(); }

  // Takes the request out. An error ends the call, after Close() and the responses that were owed
  // before. RESOURCE_EXHAUSTED with the request left in place: there is no room for it now.
  virtual absl::Status Accept(std::unique_ptr<RequestBytes>& /*request*/) {
    return absl::OkStatus();
  }

  // No request will follow: Next() gives what the work still owes. When it gives nothing the work
  // is over, unless its need is kTurn or kWake. May be called once.
  virtual void Close() = 0;
};

template <typename Request, typename Response>
class StreamWork final : public CallWork {
 public:
  using Handler = StreamHandler<Request, Response>;

  // The context's pointees must outlive it. `lacks`: why no request can be taken
  // (MethodRow::lacks).
  StreamWork(const CallContext& context, std::unique_ptr<Handler> handler,
             absl::Status lacks = absl::OkStatus())
      : context_(context), handler_(std::move(handler)), lacks_(std::move(lacks)) {}

  bool takes_requests() const override { return true; }
  bool MayBlock() const override { return handler_->MayBlock() || IsOpening(); }
  bool IsOpening() const override { return opening_.request != nullptr; }

  absl::StatusOr<std::optional<MessagePieces>> Next() override {
    if (IsOpening()) {
      Parsed opening = std::exchange(opening_, Parsed());
      PH_RETURN_IF_ERROR(handler_->Accept(std::move(opening.request)));
    }
    PH_ASSIGN_OR_RETURN(const std::optional<Response> response, handler_->Next());
    if (!response) return std::nullopt;
    return PiecesWithin(*response, context_.max_response_bytes);
  }
  Need need() const override {
    if (IsOpening() || handler_->IsBusy()) return Need::kTurn;
    return handler_->IsWaiting() ? Need::kWake : Need::kRequest;
  }
  absl::Time NextDeadline() const override { return handler_->NextDeadline(); }

  absl::Status Accept(std::unique_ptr<RequestBytes>& bytes) override {
    auto request = std::make_unique<Request>();
    absl::StatusOr<MemoryHold> hold = ParseRequest(*bytes, context_.working, request.get());
    if (absl::IsResourceExhausted(hold.status())) return hold.status();
    bytes.reset();
    PH_RETURN_IF_ERROR(hold.status());
    PH_RETURN_IF_ERROR(Authorize(
        context_, *request,
        std::exchange(is_first_, false) ? RequestKind::kBeginsStream : RequestKind::kGoesOn));
    PH_RETURN_IF_ERROR(lacks_);
    if (context_.opening_pool != nullptr && handler_->OpensOnStore(*request)) {
      opening_ = {*std::move(hold), std::move(request)};
      return absl::OkStatus();
    }
    return handler_->Accept(std::move(request));
  }

  void Close() override { handler_->HalfClose(); }

 private:
  // A request, and its memory.
  struct Parsed {
    MemoryHold memory;
    std::unique_ptr<Request> request;
  };

  const CallContext context_;
  const std::unique_ptr<Handler> handler_;
  const absl::Status lacks_;
  bool is_first_ = true;
  Parsed opening_;  // To be accepted on the opening pool.
};

template <typename Response>
class SourceWork final : public CallWork {
 public:
  using Source = ResponseSource<Response>;

  SourceWork(const CallContext& context, std::unique_ptr<Source> source)
      : max_response_bytes_(context.max_response_bytes), source_(std::move(source)) {}

  bool takes_requests() const override { return false; }

  absl::StatusOr<std::optional<MessagePieces>> Next() override {
    if (is_closed_) return std::nullopt;
    PH_ASSIGN_OR_RETURN(const std::optional<Response> response, source_->Next());
    if (!response) return std::nullopt;
    return PiecesWithin(*response, max_response_bytes_);
  }
  Need need() const override {
    if (is_closed_) return Need::kNothing;
    if (source_->IsBusy()) return Need::kTurn;
    return source_->IsWaiting() ? Need::kWake : Need::kNothing;
  }

  void Close() override { is_closed_ = true; }

 private:
  const size_t max_response_bytes_;
  const std::unique_ptr<Source> source_;
  bool is_closed_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_WORK_H_
