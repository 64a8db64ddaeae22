// Drives a call with one request and a stream of responses by gRPC's callback API.
//
// Flow: the request is parsed and worked on by one job on the call pool, which may report progress;
// then a ResponseSource is emptied, in turns on the stream pool, as fast as the client reads.
//
// Back-pressure: one response is being written; beside it wait the latest progress, and responses
// of the source up to kMinUnsent or, if they are small, kUnsentBytes. The source is asked for no
// more while so many wait: a peer that stops reading stops its own call, holds no thread, and takes
// no memory beyond that and what the source holds. Nor does a call whose source waits.
#ifndef PACKHOUSE_SERVICE_RPC_SERVER_STREAMING_CALL_H_
#define PACKHOUSE_SERVICE_RPC_SERVER_STREAMING_CALL_H_

#include <cstddef>
#include <deque>
#include <functional>
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
#include "service/rpc/gate.h"
#include "service/rpc/response_source.h"
#include "service/rpc/status_mapping.h"
#include "service/rpc/unsent_count.h"
#include "service/rpc/wire_bytes.h"
#include "service/sizes/status_macros.h"

namespace packhouse::rpc {

template <typename Request, typename Response>
class ServerStreamingCall final
    : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
      public Abortable,
      public ProgressSink<Response>,
      public std::enable_shared_from_this<ServerStreamingCall<Request, Response>> {
 public:
  using Source = ResponseSource<Response>;
  // What is done with the request; the sink lives until it returns.
  using Work = std::function<absl::StatusOr<std::unique_ptr<Source>>(const Request&,
                                                                     ProgressSink<Response>&)>;
  static constexpr size_t kMinUnsent = 2;
  static constexpr size_t kUnsentBytes = size_t{256} << 10;
  static constexpr int kStepsPerTurn = 64;

  // Starts a call, or refuses it if the gate does: it counts as a stream. `bytes` is gRPC's and
  // lives as long as the call. The result belongs to gRPC.
  static ServerStreamingCall* Start(const CallContext& context, Method method,
                                    const grpc::ByteBuffer* bytes, Work work) {
    auto call = std::shared_ptr<ServerStreamingCall>(
        new ServerStreamingCall(context, method, bytes, std::move(work)));
    call->self_ = call;
    const absl::Status admitted = context.gate->EnterStream(call);
    if (admitted.ok()) {
      context.call_pool->Submit([call] { call->DoWork(); });
    } else {
      absl::MutexLock lock(&call->mutex_);
      call->working_ = false;
      call->FinishLocked(admitted);
    }
    return call.get();
  }

  void Report(const Response& response) override {
    grpc::ByteBuffer bytes;
    // Progress that is too large to be sent is left out like any that comes too fast.
    if (!WriteBytes(response, context_.max_response_bytes, &bytes).ok()) return;
    absl::MutexLock lock(&mutex_);
    if (progress_) unsent_count_.Remove(progress_->Length());
    unsent_count_.Add(bytes.Length());
    progress_ = std::move(bytes);
    WriteLocked();
  }

  bool given_up() const override {
    absl::MutexLock lock(&mutex_);
    return stop_.has_value();
  }

  std::function<void()> Waker() override {
    return [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) self->Kick();
    };
  }

  void Abort(const absl::Status& status) override { Stop(status); }

  void OnCancel() override { Stop(absl::CancelledError("the client cancelled or is gone")); }

  void OnWriteDone(bool ok) override {
    bool enough = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      unsent_count_.Remove(in_flight_.Length());
      in_flight_.Clear();
      if (!ok && !stop_) stop_ = absl::CancelledError("the client is gone");
      WriteLocked();
      enough = !stop_ && unsent_.size() >= kMinUnsent && unsent_bytes_ >= kUnsentBytes / 2;
    }
    // Small responses are made many at a time.
    if (!enough) Kick();
  }

  void OnDone() override {
    absl::StatusCode code;
    std::unique_ptr<Source> source;
    {
      // The thread that called Finish() is about to leave the source.
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ServerStreamingCall::IsIdle));
      source = std::move(source_);
      unsent_count_.RemoveAll();
      code = final_->code();
    }
    // Goes now, while what it points to is sure to be there, and without the lock: it may wake
    // other calls.
    source.reset();
    context_.observer->OnFinished(method_, code, context_.clock->Now() - started_);
    context_.gate->LeaveStream(this);
    self_.reset();
  }

 private:
  ServerStreamingCall(const CallContext& context, Method method, const grpc::ByteBuffer* bytes,
                      Work work)
      : context_(context),
        method_(method),
        started_(context.clock->Now()),
        bytes_(bytes),
        work_(std::move(work)),
        unsent_count_(context.observer, method) {
    context_.observer->OnStarted(method_);
  }

  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !advancing_; }

  // Ends the call as soon as nobody is at work on it.
  void Stop(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!stop_) stop_ = status;
    }
    Kick();
  }

  void DoWork() {
    absl::StatusOr<std::unique_ptr<Source>> source = Answer();
    work_ = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (source.ok()) {
        source_ = *std::move(source);
      } else {
        end_ = source.status();
      }
      working_ = false;
    }
    Kick();
  }

  absl::StatusOr<std::unique_ptr<Source>> Answer() {
    if (given_up()) return absl::CancelledError("given up before it was begun");
    Request request;
    grpc::ByteBuffer copy(*bytes_);
    PH_RETURN_IF_ERROR(ParseBytes(&copy, &request));
    return work_(request, *this);
  }

  // Lets the call go on as far as it can, soon.
  void Kick() {
    {
      absl::MutexLock lock(&mutex_);
      if (working_ || finished_) return;
      if (advancing_) {
        again_ = true;
        return;
      }
      advancing_ = true;
    }
    context_.stream_pool->Submit([self = this->shared_from_this()] { self->Advance(); });
  }

  // Runs until there is nothing to do without news, or until it is another call's turn.
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
        if (!writing_) FinishLocked(*stop_);
        return false;
      }
      if (end_) {
        if (!writing_ && !progress_ && unsent_.empty()) FinishLocked(*end_);
        return WriteLocked();
      }
      if (unsent_.size() >= kMinUnsent && unsent_bytes_ >= kUnsentBytes) return false;
    }
    absl::StatusOr<std::optional<Response>> response = source_->Next();
    grpc::ByteBuffer bytes;
    absl::Status status = response.status();
    const bool has_response = status.ok() && response->has_value();
    if (has_response) status = WriteBytes(**response, context_.max_response_bytes, &bytes);
    if (status.ok() && !has_response && source_->IsWaiting()) return false;
    absl::MutexLock lock(&mutex_);
    if (!has_response || !status.ok()) {
      end_ = status;
      return true;
    }
    unsent_bytes_ += bytes.Length();
    unsent_count_.Add(bytes.Length());
    unsent_.push_back(std::move(bytes));
    WriteLocked();
    return true;
  }

  // Starts a write if one is due.
  bool WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || stop_ || finished_) return false;
    if (progress_) {
      in_flight_.Swap(&*progress_);
      progress_.reset();
    } else if (!unsent_.empty()) {
      in_flight_.Swap(&unsent_.front());
      unsent_.pop_front();
      unsent_bytes_ -= in_flight_.Length();
    } else {
      return false;
    }
    writing_ = true;
    StartWrite(&in_flight_);
    return true;
  }

  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    final_ = status;
    Finish(ToGrpc(status));
  }

  const CallContext context_;
  const Method method_;
  const absl::Time started_;
  const grpc::ByteBuffer* const bytes_;
  std::shared_ptr<ServerStreamingCall> self_;  // Until OnDone.

  Work work_;  // Touched only by the job that does it.
  // Set by that job, then touched only by the thread that advances.
  std::unique_ptr<Source> source_;

  mutable absl::Mutex mutex_;
  bool working_ ABSL_GUARDED_BY(mutex_) = true;
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
  bool again_ ABSL_GUARDED_BY(mutex_) = false;
  // Of gRPC while a write is outstanding, otherwise guarded by mutex_.
  grpc::ByteBuffer in_flight_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::ByteBuffer> progress_ ABSL_GUARDED_BY(mutex_);  // The latest, not sent yet.
  std::deque<grpc::ByteBuffer> unsent_ ABSL_GUARDED_BY(mutex_);
  size_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of `in_flight_`, `progress_` and `unsent_`.
  UnsentCount unsent_count_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);    // Once all was written.
  std::optional<absl::Status> stop_ ABSL_GUARDED_BY(mutex_);   // At once.
  std::optional<absl::Status> final_ ABSL_GUARDED_BY(mutex_);  // What it ended with.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_SERVER_STREAMING_CALL_H_
