// A streaming call: which thread works on it when, what it reads and writes, and how it ends. Free
// of gRPC, so that a test can control every event.
//
// Flow: Enter(), then Begin() with the work (call_work.h). From then on the call advances by steps.
// In a step the work makes one response or else takes one request. One thread at a time is at work
// on a call, in turns on the stream pool, or on the opening pool while the call waits for another
// machine before it can begin. It leaves the call when there is nothing to do without
// news: a request, room in the outbox, a wake-up, a timer. Events that happen meanwhile are noted,
// and looked at before the thread leaves.
//
// Requests that were quick to answer so far (pace.h) are answered by the thread that tells of them,
// since waking another one takes longer. What that thread has not done in the time of a quick one
// goes on on the pool. Responses alone, as of Load, are made on the pool: where the one before was
// sent they were no faster (docs/performance.md).
//
// Back-pressure: when the outbox is full of responses that wait to be written, the work is asked
// for no more. One request is at work, or waits for room in the memory of all calls, while the next
// is being read. So a peer that stops reading stops its own call. The call then holds no thread,
// and no memory beyond these and what the work holds.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_STREAMING_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_STREAMING_CALL_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/fair_bound.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/call_link.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/outbox.h"
#include "service/server/calls/pace.h"
#include "service/server/calls/request_bytes.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {

// Make it by std::make_shared: turns, timers and wakers may hold it longer than its link lives. The
// link must live until OnDone() returns. Thread-safe.
class StreamingCall final : public Abortable, public std::enable_shared_from_this<StreamingCall> {
 public:
  // `context` is the client's; its pointees outlive the call. The creating thread is at work on the
  // call until Enter() refuses it, or until Begin(). `give_up` may be null. Any thread may call it
  // when the call is stopped: then the work need not be made any more.
  StreamingCall(const CallContext& context, Method method, CallLink* link,
                std::function<void()> give_up = nullptr);

  const CallContext& context() const { return context_; }

  // Takes the call's place among the open calls, and lets the gate admit it as a stream. If it is
  // refused, the call has ended with the status.
  bool Enter();

  // For a call with one request, between Enter() and Begin(): reads the request and gives it to
  // `then`, once; null if no request comes. If the call has to end meanwhile, it is cancelled, so
  // that no request comes.
  void Receive(std::function<void(std::unique_ptr<RequestBytes>)> then);

  // Starts the work, or ends the call with the error. May be called once, after Enter().
  void Begin(absl::StatusOr<std::unique_ptr<CallWork>> work);

  // Sends `progress` when all earlier responses have been sent, unless a later one replaces it
  // before. Left out if there is no room for it. Only before Begin().
  void Report(MessagePieces progress);

  // Makes the call ask the work again, soon. Never blocks.
  void Wake();

  // Wake() that may be called at any time, even when the call is gone.
  std::function<void()> Waker();

  // Called by the link. OnRead: null if no request will follow.
  void OnRead(std::unique_ptr<RequestBytes> request);
  void OnWritten(bool ok);
  void OnCancel();
  void OnDone();

  // Called by the gate.
  void Abort(const absl::Status& status) override { Stop(status); }
  void EndIfIdleSince(absl::Time since) override;

 private:
  // Where a turn runs: on the stream pool, or on the link's thread.
  enum class Place { kPool, kLink };

  // A turn is over after this time or this many steps. A step should be shorter.
  static constexpr absl::Duration kTurn = absl::Milliseconds(1);
  static constexpr int kStepsPerTurn = 64;
  static constexpr absl::Duration kTurnOnLink = Pace::kQuick;
  // How often, and for how long, a request without room is tried again.
  static constexpr absl::Duration kRoomRetry = absl::Milliseconds(10);
  static constexpr absl::Duration kLongestWithoutRoom = absl::Seconds(10);

  absl::Status Admit();
  // Ends the call as soon as no thread is at work on it.
  void Stop(const absl::Status& status);
  void WakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTimer(absl::Time time);
  // Something has gone either way.
  void MovedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { last_moved_ = context_.clock->Now(); }
  bool MayAnswerHereLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return received_ != nullptr && !working_ && !stop_ && !finished_ && pace_.is_quick() &&
           !work_->MayBlock();
  }
  bool IsFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !working_; }

  // The functions below are called by the thread at work.
  void QueueTurn();
  // Whether the next turn is for the opening pool.
  bool IsOpening() const { return work_ != nullptr && work_->IsOpening(); }
  void TakeTurn(Place place);
  void EndIfIdle();
  // Each returns false if there is nothing to do without news.
  bool Step(Place place);
  absl::StatusOr<bool> MakeResponse();
  bool TakeRequest(Place place);
  bool AcceptRequest();
  // Wakes the call at `time`, unless something wakes it before.
  void ArmLocked(absl::Time time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Close: the call ends with `status` after the responses that the work owes. EndWith: after those
  // that it has given.
  void Close(const absl::Status& status);
  void EndWith(const absl::Status& status);
  // Starts a write if one is due. The link usually sends before its StartWrite() returns, and
  // nobody should wait for the lock meanwhile: so the response is taken under the lock, and the
  // write is started without it. Between the two the outbox is sending, so that the call cannot
  // end. After StartWrite() a thread that is not at work may not touch the call any more.
  void Write(Outbox::More more);
  std::optional<MessagePieces> TakeToWriteLocked(Outbox::More more)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWrite(std::optional<MessagePieces> response);
  // Whether a stop has ended the call, or will end it once a write has come back: no more responses
  // are owed.
  bool IsStoppedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallContext context_;
  const Method method_;
  CallLink* const link_;
  const std::function<void()> give_up_;
  const absl::Time started_;

  // Used only by the thread at work.
  std::unique_ptr<CallWork> work_;         // Null until Begin().
  std::unique_ptr<RequestBytes> request_;  // At work, or waiting for room since no_room_since_.
  Pace pace_;  // The pace of requests. Other threads read it while no thread is at work.
  absl::Time no_room_since_ = absl::InfiniteFuture();
  absl::Status end_;         // How the call ends once all is sent.
  bool is_closed_ = false;   // The work has been told.
  bool is_drained_ = false;  // The work has given everything that it owes.

  absl::Mutex mutex_;
  FairBound::Place place_ ABSL_GUARDED_BY(mutex_);
  // Set while the call waits for its one request.
  std::function<void(std::unique_ptr<RequestBytes>)> receive_ ABSL_GUARDED_BY(mutex_);
  bool working_ ABSL_GUARDED_BY(mutex_) = true;  // A thread is at work, or a turn is queued.
  bool news_ ABSL_GUARDED_BY(mutex_) =
      false;  // There was news since the thread at work last looked.
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool needs_room_ ABSL_GUARDED_BY(mutex_) = false;  // Waits until responses have been sent.
  std::unique_ptr<RequestBytes> received_ ABSL_GUARDED_BY(mutex_);
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;  // No request will follow.
  absl::Time armed_for_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time last_moved_ ABSL_GUARDED_BY(mutex_);
  bool is_idle_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> stop_ ABSL_GUARDED_BY(mutex_);  // Ends it at once.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status final_ ABSL_GUARDED_BY(mutex_);  // The status that it finished with.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_STREAMING_CALL_H_
