// A streaming call: who works on it when, what it reads and writes, and how it ends. Free of gRPC,
// so that a test can hold everything that happens to it.
//
// Flow: Enter(), then Begin() with the work (call_work.h); from then on it advances by steps. In a
// step the work makes one response, or else takes one request. One thread at a time is at work on
// a call, in turns on the stream pool, and leaves it when there is nothing to do without news: a
// request, room in the outbox, a wake-up, a timer. Whatever happens meanwhile is noted, and looked
// at before it leaves.
//
// Requests that were quick to answer so far (pace.h) are answered by the thread that tells of them,
// since waking another one takes longer. What that thread has not done in the time of a quick one
// goes on on the pool. Responses alone, as of Load, are made on the pool: where the one before was
// sent they were no faster (docs/performance.md).
//
// Back-pressure: responses wait to be written until the outbox is full, then the work is asked for
// no more. One request is at work, or waits for room in the memory of all calls, while the next is
// being read: so a peer that stops reading stops its own call, holds no thread, and takes no memory
// beyond that and what the work holds.
#ifndef PACKHOUSE_SERVICE_WIRE_STREAMING_CALL_H_
#define PACKHOUSE_SERVICE_WIRE_STREAMING_CALL_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/admission/call_context.h"
#include "service/admission/fair_bound.h"
#include "service/admission/gate.h"
#include "service/admission/rpc_observer.h"
#include "service/wire/batch_reply.h"
#include "service/wire/call_link.h"
#include "service/wire/call_work.h"
#include "service/wire/outbox.h"
#include "service/wire/pace.h"
#include "service/wire/request_bytes.h"

namespace packhouse {

// Made by std::make_shared: turns, timers and wakers may hold it for longer than its link, which
// must live until OnDone() returns. Thread-safe.
class StreamingCall final : public Abortable, public std::enable_shared_from_this<StreamingCall> {
 public:
  // `context` is of the client's; its pointees outlive the call. Whoever makes it is at work on it,
  // until Enter() refuses it or Begin(). `give_up`, which may be null, is called when the call is
  // stopped, by any thread: whoever makes the work need not go on.
  StreamingCall(const CallContext& context, Method method, CallLink* link,
                std::function<void()> give_up = nullptr);

  const CallContext& context() const { return context_; }

  // Takes the call's place among those that are open, and lets the gate admit it, as a stream. If
  // that is refused, the call has ended with the status.
  bool Enter();

  // For a call with one request, between Enter() and Begin(): has it read and given to `then`,
  // once; null if none comes. Whoever would end the call meanwhile cancels it, so that none comes.
  void Receive(std::function<void(std::unique_ptr<RequestBytes>)> then);

  // The work, or what the call is to end with. Once, after Enter().
  void Begin(absl::StatusOr<std::unique_ptr<CallWork>> work);

  // Sends `progress` when what was sent before has gone, unless a later one takes its place until
  // then. Left out if there is no room for it. Before Begin() only.
  void Report(MessagePieces progress);

  // Has the work asked again, soon. Never blocks.
  void Wake();

  // Wake() for any time: also when the call is gone.
  std::function<void()> Waker();

  // From the link. OnRead: null if none will follow.
  void OnRead(std::unique_ptr<RequestBytes> request);
  void OnWritten(bool ok);
  void OnCancel();
  void OnDone();

  // From the gate.
  void Abort(const absl::Status& status) override { Stop(status); }
  void EndIfIdleSince(absl::Time since) override;

 private:
  // Where a turn is: on the stream pool, or on the link's thread.
  enum class Place { kPool, kLink };

  // A turn is over after so much, whichever comes first; a step is meant to be shorter.
  static constexpr absl::Duration kTurn = absl::Milliseconds(1);
  static constexpr int kStepsPerTurn = 64;
  static constexpr absl::Duration kTurnOnLink = Pace::kQuick;
  // How often, and for how long, a request is tried for which there is no room.
  static constexpr absl::Duration kRoomRetry = absl::Milliseconds(10);
  static constexpr absl::Duration kLongestWithoutRoom = absl::Seconds(10);

  absl::Status Admit();
  // Ends the call as soon as nobody is at work on it.
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

  // The rest by the thread that is at work.
  void QueueTurn();
  void TakeTurn(Place place);
  void EndIfIdle();
  // Each: false if there is nothing to do without news.
  bool Step(Place place);
  absl::StatusOr<bool> MakeResponse();
  bool TakeRequest(Place place);
  bool AcceptRequest();
  // Wakes it at `time`, if nothing does so before.
  void ArmLocked(absl::Time time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The call ends with `status` after what the work owes; or, EndWith, after what it has given.
  void Close(const absl::Status& status);
  void EndWith(const absl::Status& status);
  // Starts a write if one is due.
  void WriteLocked(Outbox::More more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a stop has ended the call, or will once a write has come back: nothing more is owed.
  bool IsStoppedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallContext context_;
  const Method method_;
  CallLink* const link_;
  const std::function<void()> give_up_;
  const absl::Time started_;

  // Touched only by the thread that is at work.
  std::unique_ptr<CallWork> work_;         // Null until Begin().
  std::unique_ptr<RequestBytes> request_;  // At work, or waiting for room since then.
  Pace pace_;                              // Of requests. Read by others while nobody is at work.
  absl::Time no_room_since_ = absl::InfiniteFuture();
  absl::Status end_;         // How the call ends once all is sent.
  bool is_closed_ = false;   // The work knows.
  bool is_drained_ = false;  // The work has given all it owes.

  absl::Mutex mutex_;
  FairBound::Place place_ ABSL_GUARDED_BY(mutex_);
  // Set while the one request is awaited.
  std::function<void(std::unique_ptr<RequestBytes>)> receive_ ABSL_GUARDED_BY(mutex_);
  bool working_ ABSL_GUARDED_BY(mutex_) = true;  // A thread is at work, or a turn is queued.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;    // Since the thread at work has looked.
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool needs_room_ ABSL_GUARDED_BY(mutex_) = false;  // Nothing is done until responses have gone.
  std::unique_ptr<RequestBytes> received_ ABSL_GUARDED_BY(mutex_);
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;  // No request will follow.
  absl::Time armed_for_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time last_moved_ ABSL_GUARDED_BY(mutex_);
  bool is_idle_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> stop_ ABSL_GUARDED_BY(mutex_);  // Ends it at once.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status final_ ABSL_GUARDED_BY(mutex_);  // What it finished with.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_STREAMING_CALL_H_
