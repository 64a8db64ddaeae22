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

#include <algorithm>
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
#include "service/admission/call_context.h"
#include "service/base/status_macros.h"
#include "service/rpc/allocation_failure.h"
#include "service/rpc/pace.h"
#include "service/rpc/turn_taking_call.h"
#include "service/rpc/wire_bytes.h"
#include "service/wire/stream_handler.h"

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
    const absl::StatusOr<bool> made = EndOnAllocationFailure([&] { return Make(here); });
    if (!made.ok()) {
      EndWith(made.status());
    } else if (*made) {
      return Progress::kMore;
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

  // The next response of the handler. False if it gives none.
  absl::StatusOr<bool> Make(bool here) {
    PH_ASSIGN_OR_RETURN(const std::optional<Response> response, handler_->Next());
    if (response) PH_RETURN_IF_ERROR(Add(*response, here));
    return response.has_value();
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
    bool reads_next = false;
    {
      absl::MutexLock lock(&mutex_);
      WriteLocked(Making::kNobody);
      if (parked_.Valid()) {
        bytes.Swap(&parked_);
        reads_next = true;
      } else if (has_request_) {
        has_request_ = false;
        bytes.Swap(&read_buffer_);
        // The next one may arrive while this one is at work. On gRPC's thread it would only wake
        // another thread, to find this one busy.
        reads_next = !here;
        if (reads_next) StartRead(&read_buffer_);
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
    bool is_broken = false;
    const absl::Status accepted =
        EndOnAllocationFailure([&] { return AcceptBytes(&bytes); }, &is_broken);
    if (is_broken) {
      EndWith(accepted);
    } else if (!accepted.ok()) {
      end_ = accepted;
      handler_->HalfClose();
    }
    request_pace_.End();
    if (!reads_next) StartRead(&read_buffer_);
    if (!parked_.Valid()) return true;
    KickAt(context_.clock->Now() + kParkedRetry);
    return false;
  }

  // Leaves a request for which there is no room now in `parked_`: the stream goes on once others
  // have finished theirs, and ends only if none did for long.
  absl::Status AcceptBytes(grpc::ByteBuffer* bytes) {
    auto request = std::make_unique<Request>();
    const absl::StatusOr<MemoryHold> hold = ParseBytes(bytes, context_.working, request.get());
    if (absl::IsResourceExhausted(hold.status())) {
      const absl::Time now = context_.clock->Now();
      parked_since_ = std::min(parked_since_, now);
      if (now - parked_since_ < kLongestParked) {
        parked_.Swap(bytes);
        return absl::OkStatus();
      }
    }
    parked_since_ = absl::InfiniteFuture();
    PH_RETURN_IF_ERROR(hold.status());
    return handler_->Accept(std::move(request));
  }

  void KickAt(absl::Time time) {
    context_.clock->CallAt(time, [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) static_cast<StreamReactor&>(*self).Kick();
    });
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

  // How often, and for how long, a request is tried for which there is no room.
  static constexpr absl::Duration kParkedRetry = absl::Milliseconds(10);
  static constexpr absl::Duration kLongestParked = absl::Seconds(10);

  // Touched only by the thread that advances.
  std::unique_ptr<Handler> handler_;
  grpc::ByteBuffer parked_;  // A request that waits for room; the next one is being read.
  absl::Time parked_since_ = absl::InfiniteFuture();
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
