// Drives a StreamHandler by gRPC's callback API.
//
// Back-pressure: kMinUnsent responses wait to be written or, if they are small, kUnsentBytes, and
// at most one request waits to be accepted; the handler makes no response while so many wait, and
// the next request is not read while one waits. So a peer that stops reading stops its own stream,
// and nothing else.
//
// Work runs on the pool, never on gRPC's threads. `advancing_` makes sure that one thread at a time
// is in the handler; whatever happens meanwhile sets `again_`.
#ifndef PACKHOUSE_SERVICE_RPC_STREAM_REACTOR_H_
#define PACKHOUSE_SERVICE_RPC_STREAM_REACTOR_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/rpc/call_context.h"
#include "service/rpc/gate.h"
#include "service/rpc/status_mapping.h"
#include "service/rpc/stream_handler.h"
#include "service/rpc/unsent_count.h"
#include "service/rpc/wire_bytes.h"

namespace packhouse::rpc {

template <typename Request, typename Response>
class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public Abortable,
                            public std::enable_shared_from_this<StreamReactor<Request, Response>> {
 public:
  using Handler = StreamHandler<Request, Response>;
  static constexpr size_t kMinUnsent = 2;
  static constexpr size_t kUnsentBytes = size_t{256} << 10;
  static constexpr int kStepsPerTurn = 64;

  // Starts a stream, or refuses it if the gate does. The result belongs to gRPC.
  static StreamReactor* Start(const CallContext& context, Method method,
                              std::unique_ptr<Handler> handler) {
    auto reactor =
        std::shared_ptr<StreamReactor>(new StreamReactor(context, method, std::move(handler)));
    reactor->self_ = reactor;
    const absl::Status admitted = context.gate->EnterStream(reactor);
    if (admitted.ok()) {
      reactor->StartRead(&reactor->read_buffer_);
    } else {
      absl::MutexLock lock(&reactor->mutex_);
      reactor->finished_ = true;
      reactor->final_ = admitted;
      reactor->Finish(ToGrpc(admitted));
    }
    return reactor.get();
  }

  void Abort(const absl::Status& status) override {
    {
      absl::MutexLock lock(&mutex_);
      if (!stop_) stop_ = status;
    }
    Kick();
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      if (ok) {
        has_request_ = true;
      } else {
        peer_done_ = true;
      }
    }
    Kick();
  }

  void OnWriteDone(bool ok) override {
    bool enough = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      unsent_count_.Remove(unsent_.front().Length());
      unsent_bytes_ -= unsent_.front().Length();
      unsent_.pop_front();
      if (!ok && !stop_) stop_ = absl::CancelledError("the client is gone");
      if (!stop_) WriteLocked();
      enough = !stop_ && unsent_.size() >= kMinUnsent && unsent_bytes_ >= kUnsentBytes / 2;
    }
    // Small responses are made many at a time.
    if (!enough) Kick();
  }

  void OnCancel() override {
    {
      absl::MutexLock lock(&mutex_);
      if (!stop_) stop_ = absl::CancelledError("the client cancelled or is gone");
    }
    Kick();
  }

  void OnDone() override {
    // The thread that called Finish() is about to leave the handler. A job or a timer may hold the
    // reactor for a moment longer; the handler must go now, while what it points to is sure to be
    // there.
    absl::StatusCode code;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &StreamReactor::IsIdle));
      handler_.reset();
      unsent_count_.RemoveAll();
      code = final_->code();
    }
    context_.observer->OnFinished(method_, code, context_.clock->Now() - started_);
    context_.gate->LeaveStream(this);
    self_.reset();
  }

 private:
  StreamReactor(const CallContext& context, Method method, std::unique_ptr<Handler> handler)
      : context_(context),
        method_(method),
        started_(context.clock->Now()),
        handler_(std::move(handler)),
        unsent_count_(context.observer, method) {
    context_.observer->OnStarted(method_);
  }

  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !advancing_; }

  // Lets the stream go on as far as it can, soon.
  void Kick() {
    {
      absl::MutexLock lock(&mutex_);
      if (finished_) return;
      if (advancing_) {
        again_ = true;
        return;
      }
      advancing_ = true;
    }
    context_.stream_pool->Submit([self = this->shared_from_this()] { self->Advance(); });
  }

  // Runs until there is nothing to do without news, or until it is another stream's turn.
  void Advance() {
    for (;;) {
      for (int steps = 0; Step(); ++steps) {
        if (steps < kStepsPerTurn) continue;
        context_.stream_pool->Submit([self = this->shared_from_this()] { self->Advance(); });
        return;
      }
      absl::MutexLock lock(&mutex_);
      if (!again_ || finished_) {
        advancing_ = false;
        return;
      }
      again_ = false;
    }
  }

  // One thing; false if there is nothing to do.
  bool Step() {
    {
      absl::MutexLock lock(&mutex_);
      if (finished_) return false;
      if (stop_) {
        // Nothing more is owed; only a write in flight must come back first.
        if (writing_) return false;
        final_ = *stop_;
        return FinishLocked();
      }
      if (WriteLocked()) return true;
      if (unsent_.size() >= kMinUnsent && unsent_bytes_ >= kUnsentBytes) return false;
    }
    if (!drained_) {
      absl::StatusOr<std::optional<Response>> response = handler_->Next();
      if (!response.ok()) {
        end_ = response.status();
        drained_ = true;
        return true;
      }
      if (*response) return Enqueue(**response);
      // Everything that could be made has been made.
      if (end_) {
        drained_ = true;
        return true;
      }
      return TakeRequest();
    }
    absl::MutexLock lock(&mutex_);
    if (writing_ || !unsent_.empty()) return false;
    final_ = *end_;
    return FinishLocked();
  }

  bool Enqueue(const Response& response) {
    grpc::ByteBuffer bytes;
    if (absl::Status written = WriteBytes(response, context_.max_response_bytes, &bytes);
        !written.ok()) {
      end_ = written;
      drained_ = true;
      return true;
    }
    absl::MutexLock lock(&mutex_);
    unsent_count_.Add(bytes.Length());
    unsent_bytes_ += bytes.Length();
    unsent_.push_back(std::move(bytes));
    WriteLocked();
    return true;
  }

  // Accepts the request that waits, or takes note that none will come. False if neither.
  bool TakeRequest() {
    grpc::ByteBuffer bytes;
    bool ended = false;
    {
      absl::MutexLock lock(&mutex_);
      if (has_request_) {
        has_request_ = false;
        bytes.Swap(&read_buffer_);
        // The next one may arrive while this one is at work.
        StartRead(&read_buffer_);
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
    auto request = std::make_unique<Request>();
    absl::Status accepted = ParseBytes(&bytes, request.get());
    if (accepted.ok()) accepted = handler_->Accept(std::move(request));
    if (!accepted.ok()) {
      end_ = accepted;
      handler_->HalfClose();
    }
    return true;
  }

  // Starts a write if one is due.
  bool WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || unsent_.empty()) return false;
    writing_ = true;
    StartWrite(&unsent_.front());
    return true;
  }

  bool FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    Finish(ToGrpc(*final_));
    return false;
  }

  void ArmTimerLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time deadline = handler_->NextDeadline();
    if (deadline >= armed_for_) return;
    armed_for_ = deadline;
    context_.clock->CallAt(deadline, [weak = this->weak_from_this(), deadline] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      {
        absl::MutexLock lock(&self->mutex_);
        if (self->armed_for_ == deadline) self->armed_for_ = absl::InfiniteFuture();
      }
      self->Kick();
    });
  }

  const CallContext context_;
  const Method method_;
  const absl::Time started_;
  std::shared_ptr<StreamReactor> self_;  // Until OnDone.

  // Touched only by the thread that advances.
  std::unique_ptr<Handler> handler_;
  std::optional<absl::Status> end_;  // How the stream ends once the handler has given all it owes.
  bool drained_ = false;             // It has.

  absl::Mutex mutex_;
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
  bool again_ ABSL_GUARDED_BY(mutex_) = false;
  // Written by gRPC while a read is outstanding, otherwise guarded by mutex_.
  grpc::ByteBuffer read_buffer_;
  bool has_request_ ABSL_GUARDED_BY(mutex_) = false;
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<grpc::ByteBuffer> unsent_ ABSL_GUARDED_BY(mutex_);  // The first may be in flight.
  size_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  UnsentCount unsent_count_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> stop_ ABSL_GUARDED_BY(mutex_);   // Ends it at once.
  std::optional<absl::Status> final_ ABSL_GUARDED_BY(mutex_);  // What it ended with.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time armed_for_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_STREAM_REACTOR_H_
