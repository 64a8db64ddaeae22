// What all streaming calls have in common: who works on a call when, and how its responses leave.
#ifndef PACKHOUSE_SERVICE_RPC_TURN_TAKING_CALL_H_
#define PACKHOUSE_SERVICE_RPC_TURN_TAKING_CALL_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/admission/call_context.h"
#include "service/admission/gate.h"
#include "service/rpc/outbox.h"
#include "service/rpc/pace.h"
#include "service/rpc/status_mapping.h"

namespace packhouse::rpc {

// A reactor of gRPC's callback API that advances by steps. One thread at a time is at work on it,
// `advancing_`; whatever happens meanwhile sets `again_`. Work runs on the stream pool, where calls
// take turns; only what was quick so far and cannot block (pace.h) is done on gRPC's own threads,
// right where the write or read before it has ended.
//
// It belongs to gRPC until OnDone; jobs, timers and the gate may hold it for longer.
template <typename Reactor>
class TurnTakingCall : public Reactor,
                       public Abortable,
                       public std::enable_shared_from_this<TurnTakingCall<Reactor>> {
 public:
  void Abort(const absl::Status& status) final { Stop(status); }
  void EndIfIdleSince(absl::Time since) final {
    absl::MutexLock lock(&mutex_);
    if (advancing_ || finished_ || stop_ || last_moved_ > since) return;
    // Not again at once: what it owes is to be sent first.
    last_moved_ = context_.clock->Now();
    is_idle_ = true;
    KickLocked();
  }
  void OnCancel() final { Stop(absl::CancelledError("the client cancelled or is gone")); }

  void OnWriteDone(bool ok) final {
    {
      absl::MutexLock lock(&mutex_);
      outbox_.End();
      MovedLocked();
      if (!ok && !stop_) stop_ = absl::CancelledError("the client is gone");
      WriteLocked(Making::kNobody);
      if (!stop_ && outbox_.is_half_full()) return;
      if (!MayAdvanceHere()) {
        KickLocked();
        return;
      }
      if (outbox_.is_sending()) return;
      advancing_ = true;
    }
    AdvanceHere();
  }

  void OnDone() final {
    absl::Status status;
    {
      // The thread that called Finish() is about to leave the call.
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &TurnTakingCall::IsIdle));
      outbox_.Abandon();
      status = *final_;
    }
    Release();
    const absl::Duration elapsed = context_.clock->Now() - started_;
    context_.observer->OnFinished(method_, status.code(), elapsed);
    LogCall(context_.log, context_.client, method_, status, elapsed);
    context_.gate->LeaveStream(this);
    self_.reset();
  }

 protected:
  using Making = Outbox::Making;

  // What a step has come to.
  enum class Progress {
    kMore,  // Something was done.
    kNone,  // There is nothing to do without news.
    kPool,  // What is to be done is not for gRPC's thread.
  };

  // Whoever makes it is at work on it, and lets it go on by Advance() or Leave().
  TurnTakingCall(const CallContext& server, grpc::CallbackServerContext& call, Method method)
      : context_(server.From(call.peer())),
        call_(call),
        method_(method),
        started_(context_.clock->Now()),
        pace_(context_.clock),
        outbox_(context_, method),
        last_moved_(started_) {
    context_.observer->OnStarted(method_);
  }

  // One thing. `here`: on gRPC's thread. By the thread that advances.
  virtual Progress Step(bool here) = 0;

  // The call was stopped: work that takes turns elsewhere need not go on. By any thread, without
  // the lock.
  virtual void GiveUp() {}

  // Ends the call with `status` after what it owes, for want of anything to do. By the thread that
  // advances.
  virtual void EndIdle(const absl::Status& status) = 0;

  // Drops what the call works with, while what that points to is sure to be there. Without the
  // lock: it may wake other calls.
  virtual void Release() = 0;

  // Lets the gate admit the call, which is `self`. If it does not, the call has ended.
  bool Enter(std::shared_ptr<TurnTakingCall> self) {
    self_ = std::move(self);
    const absl::Status admitted = context_.gate->EnterStream(context_.client, self_);
    if (admitted.ok()) return true;
    absl::MutexLock lock(&mutex_);
    advancing_ = false;
    FinishLocked(admitted);
    return false;
  }

  // Ends the call as soon as nobody is at work on it.
  void Stop(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!stop_) stop_ = status;
      KickLocked();
    }
    GiveUp();
  }

  // Lets the call go on as far as it can, soon.
  void Kick() {
    absl::MutexLock lock(&mutex_);
    KickLocked();
  }
  void KickLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    if (advancing_) {
      again_ = true;
      return;
    }
    advancing_ = true;
    QueueTurn();
  }

  // Whether what comes next is for this thread, gRPC's, which then sets `advancing_`.
  bool MayAdvanceHere() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !stop_ && !finished_ && !advancing_ && pace_.is_quick();
  }

  // As a turn on the pool, on gRPC's own thread, until what was made begins to be sent: the write's
  // end goes on with it.
  void AdvanceHere() {
    const auto self = this->shared_from_this();
    for (int rounds = 0;; ++rounds) {
      const Progress progress = StepsHere();
      absl::MutexLock lock(&mutex_);
      const bool is_left = progress == Progress::kMore && !outbox_.is_sending();
      if (progress == Progress::kPool || is_left || rounds == kRoundsHere) {
        QueueTurn();
        return;
      }
      if (!std::exchange(again_, false)) {
        advancing_ = false;
        return;
      }
    }
  }

  // The thread that advances has nothing to do any more.
  void Leave() {
    absl::MutexLock lock(&mutex_);
    advancing_ = false;
    if (std::exchange(again_, false)) KickLocked();
  }

  // Hands the call from the thread that advances to the pool.
  void QueueTurn() {
    context_.stream_pool->Submit(context_.client,
                                 [self = this->shared_from_this()] { self->Advance(); });
  }

  // Starts a write if one is due.
  bool WriteLocked(Making making) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stop_ || finished_) return false;
    grpc::ByteBuffer* const bytes = outbox_.Begin(making);
    if (bytes == nullptr) return false;
    MovedLocked();
    this->StartWrite(bytes);
    return true;
  }

  // Whether a stop ends the call now, or will: nothing more is owed, only a write in flight must
  // come back first.
  bool IsStoppedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return true;
    if (stop_ && !outbox_.is_sending()) FinishLocked(*stop_);
    return stop_.has_value();
  }

  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    final_ = status;
    this->Finish(ToGrpc(status));
  }

  // Something has gone either way.
  void MovedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { last_moved_ = context_.clock->Now(); }

  static Progress MoreIf(bool more) { return more ? Progress::kMore : Progress::kNone; }

  const CallContext context_;
  grpc::CallbackServerContext& call_;  // gRPC's, until OnDone.
  const Method method_;
  const absl::Time started_;
  Pace pace_;  // Touched only by the thread that advances.

  mutable absl::Mutex mutex_;
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> stop_ ABSL_GUARDED_BY(mutex_);  // Ends it at once.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool advancing_ ABSL_GUARDED_BY(mutex_) = true;

 private:
  // A turn is over after so much, whichever comes first; a step is meant to be shorter.
  static constexpr absl::Duration kTurn = absl::Milliseconds(1);
  static constexpr int kStepsPerTurn = 64;
  // gRPC's threads have other calls too.
  static constexpr int kStepsHere = 16;
  static constexpr int kRoundsHere = 4;

  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !advancing_; }

  // Runs until there is nothing to do without news, or until it is another call's turn.
  void Advance() {
    if (TakeIdle()) BecomeIdle();
    const absl::Time end = context_.clock->Now() + kTurn;
    for (int steps = 1; Step(/*here=*/false) == Progress::kMore; ++steps) {
      if (steps < kStepsPerTurn && context_.clock->Now() < end) continue;
      {
        absl::MutexLock lock(&mutex_);
        WriteLocked(Making::kNobody);
      }
      QueueTurn();
      return;
    }
    Leave();
  }

  bool TakeIdle() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(is_idle_, false);
  }

  void BecomeIdle() {
    if (IsSending()) {
      // The client takes nothing, so a status would not reach it either.
      call_.TryCancel();
      return;
    }
    EndIdle(absl::UnavailableError(
        "nothing has gone either way for as long as --stream-idle-timeout says; open another"));
  }

  bool IsSending() const {
    absl::MutexLock lock(&mutex_);
    return outbox_.is_sending();
  }

  Progress StepsHere() {
    Progress progress = Progress::kMore;
    bool was_sending = IsSending();
    for (int steps = 0; progress == Progress::kMore && steps < kStepsHere; ++steps) {
      if (!pace_.is_quick()) return Progress::kPool;
      progress = Step(/*here=*/true);
      const bool is_sending = IsSending();
      if (is_sending && !was_sending) break;
      was_sending = is_sending;
    }
    return progress;
  }

  std::shared_ptr<TurnTakingCall> self_;  // Until OnDone.
  bool again_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time last_moved_ ABSL_GUARDED_BY(mutex_);
  bool is_idle_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_ ABSL_GUARDED_BY(mutex_);  // What it ended with.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_TURN_TAKING_CALL_H_
