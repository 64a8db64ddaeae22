// Drives a StreamHandler by gRPC's callback API.
//
// Back-pressure: responses wait to be written until the outbox is full, and at most one request
// waits to be accepted; the handler makes no response while the outbox is full, and the next
// request is not read while one waits. So a peer that stops reading stops its own stream, and
// nothing else.
//
// Requests are accepted and responses made on the stream pool or, if they are quick (pace.h), on
// gRPC's own threads.
#ifndef PACKHOUSE_SERVICE_RPC_STREAM_REACTOR_H_
#define PACKHOUSE_SERVICE_RPC_STREAM_REACTOR_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/rpc/call_context.h"
#include "service/rpc/pace.h"
#include "service/rpc/stream_handler.h"
#include "service/rpc/turn_taking_call.h"
#include "service/rpc/wire_bytes.h"
#include "service/sizes/status_macros.h"

namespace packhouse::rpc {

template <typename Request, typename Response>
class StreamReactor final
    : public TurnTakingCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  using Handler = StreamHandler<Request, Response>;

  // Starts a stream, or refuses it if the gate does. The result belongs to gRPC.
  static StreamReactor* Start(const CallContext& server, grpc::CallbackServerContext& call,
                              Method method, std::unique_ptr<Handler> handler) {
    auto reactor =
        std::shared_ptr<StreamReactor>(new StreamReactor(server, call, method, std::move(handler)));
    if (reactor->Enter(reactor)) {
      reactor->StartRead(&reactor->read_buffer_);
      reactor->Leave();
    }
    return reactor.get();
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      MovedLocked();
      if (ok) {
        has_request_ = true;
      } else {
        peer_done_ = true;
      }
      if (!MayAdvanceHere() || !request_pace_.is_quick()) {
        KickLocked();
        return;
      }
      advancing_ = true;
    }
    AdvanceHere();
  }

 private:
  StreamReactor(const CallContext& server, grpc::CallbackServerContext& call, Method method,
                std::unique_ptr<Handler> handler)
      : TurnTakingCall(server, call, method),
        handler_(std::move(handler)),
        request_pace_(server.clock) {}

  Progress Step(bool here) override {
    {
      absl::MutexLock lock(&mutex_);
      if (IsStoppedLocked()) return Progress::kNone;
      if (drained_ && outbox_.is_idle()) FinishLocked(*end_);
      if (drained_ || !outbox_.has_room()) {
        return MoreIf(WriteLocked(Making::kNobody));
      }
    }
    if (here && handler_->MayBlock()) return Progress::kPool;
    pace_.Begin();
    const absl::StatusOr<std::optional<Response>> response = handler_->Next();
    if (!response.ok()) {
      EndWith(response.status());
    } else if (*response) {
      if (absl::Status added = Add(**response, here); !added.ok()) EndWith(added);
    } else if (handler_->IsBusy()) {
      if (here) return Progress::kPool;
    } else if (end_) {
      // Everything that could be made has been made.
      drained_ = true;
    } else {
      if (here && !request_pace_.is_quick()) return Progress::kPool;
      return MoreIf(TakeRequest(here));
    }
    return Progress::kMore;
  }

  // Ends the stream once everything that was made has been sent.
  void EndWith(const absl::Status& status) {
    end_ = status;
    drained_ = true;
  }

  absl::Status Add(const Response& response, bool here) {
    grpc::ByteBuffer bytes;
    PH_RETURN_IF_ERROR(WriteBytes(response, context_.max_response_bytes, &bytes));
    pace_.End();
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(outbox_.Add(&bytes));
    WriteLocked(here ? Making::kSender : Making::kOther);
    return absl::OkStatus();
  }

  // Accepts the request that waits, or takes note that none will come. False if neither. `here`: on
  // gRPC's thread.
  bool TakeRequest(bool here) {
    grpc::ByteBuffer bytes;
    bool ended = false;
    {
      absl::MutexLock lock(&mutex_);
      WriteLocked(Making::kNobody);
      if (has_request_) {
        has_request_ = false;
        bytes.Swap(&read_buffer_);
        // The next one may arrive while this one is at work. On gRPC's thread it would only wake
        // another thread, to find this one busy.
        if (!here) StartRead(&read_buffer_);
      } else if (peer_done_) {
        ended = true;
      } else {
        ArmTimerLocked();
        return false;
      }
    }
    if (ended) {
      end_ = absl::OkStatus();
      handler_->HalfClose();
      return true;
    }
    request_pace_.Begin();
    auto request = std::make_unique<Request>();
    absl::Status accepted = ParseBytes(&bytes, request.get());
    if (accepted.ok()) accepted = handler_->Accept(std::move(request));
    if (!accepted.ok()) {
      end_ = accepted;
      handler_->HalfClose();
    }
    request_pace_.End();
    if (here) StartRead(&read_buffer_);
    return true;
  }

  void ArmTimerLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time deadline = handler_->NextDeadline();
    if (deadline >= armed_for_) return;
    armed_for_ = deadline;
    context_.clock->CallAt(deadline, [weak = this->weak_from_this(), deadline] {
      if (const auto self = weak.lock()) static_cast<StreamReactor&>(*self).OnTimer(deadline);
    });
  }

  void OnTimer(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    if (armed_for_ == deadline) armed_for_ = absl::InfiniteFuture();
    KickLocked();
  }

  // As after a request that is refused: what was accepted comes out first.
  void EndIdle(const absl::Status& status) override {
    if (end_) return;
    end_ = status;
    handler_->HalfClose();
  }

  void Release() override { handler_.reset(); }

  // Touched only by the thread that advances.
  std::unique_ptr<Handler> handler_;
  Pace request_pace_;                // Of accepting requests.
  std::optional<absl::Status> end_;  // How the stream ends once the handler has given all it owes.
  bool drained_ = false;             // It has.

  // Written by gRPC while a read is outstanding, otherwise guarded by mutex_.
  grpc::ByteBuffer read_buffer_;
  bool has_request_ ABSL_GUARDED_BY(mutex_) = false;
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time armed_for_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_STREAM_REACTOR_H_
