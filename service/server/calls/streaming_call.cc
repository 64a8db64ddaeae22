#include "service/server/calls/streaming_call.h"

#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {

StreamingCall::StreamingCall(const CallContext& context, Method method, CallLink* link,
                             std::function<void()> give_up)
    : context_(context),
      method_(method),
      link_(link),
      give_up_(std::move(give_up)),
      started_(context_.clock->Now()),
      pace_(context_.clock),
      outbox_(context_, method),
      last_moved_(started_) {
  context_.OnStarted(method_);
}

bool StreamingCall::Enter() {
  const absl::Status admitted = Admit();
  if (admitted.ok()) return true;
  absl::MutexLock lock(&mutex_);
  working_ = false;
  FinishLocked(admitted);
  return false;
}

absl::Status StreamingCall::Admit() {
  FairBound::Place place;
  if (absl::Status taken = context_.TakePlace(place); !taken.ok()) {
    link_->Cancel();
    return taken;
  }
  {
    absl::MutexLock lock(&mutex_);
    place_ = std::move(place);
  }
  PH_RETURN_IF_ERROR(context_.refusal);
  return context_.gate->EnterStream(context_.client, shared_from_this());
}

void StreamingCall::Receive(std::function<void(std::unique_ptr<RequestBytes>)> then) {
  absl::MutexLock lock(&mutex_);
  receive_ = std::move(then);
  link_->StartRead();
  if (stop_) link_->Cancel();
}

void StreamingCall::Begin(absl::StatusOr<std::unique_ptr<CallWork>> work) {
  if (work.ok()) {
    work_ = *std::move(work);
  } else {
    EndWith(work.status());
  }
  const bool reads = !is_drained_ && work_->takes_requests();
  {
    absl::MutexLock lock(&mutex_);
    MovedLocked();
    if (reads) {
      link_->StartRead();
      // Without a request there is nothing to do.
      working_ = false;
      if (std::exchange(news_, false)) WakeLocked();
      return;
    }
  }
  QueueTurn();
}

void StreamingCall::Report(MessagePieces progress) {
  std::optional<MessagePieces> response;
  {
    absl::MutexLock lock(&mutex_);
    if (!outbox_.Replace(std::move(progress)).ok()) return;
    response = TakeToWriteLocked(Outbox::More::kNone);
  }
  StartWrite(std::move(response));
}

void StreamingCall::Wake() {
  absl::MutexLock lock(&mutex_);
  WakeLocked();
}

std::function<void()> StreamingCall::Waker() {
  return [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake();
  };
}

void StreamingCall::OnRead(std::unique_ptr<RequestBytes> request) {
  if (request != nullptr) context_.OnRequest();
  std::function<void(std::unique_ptr<RequestBytes>)> receive;
  {
    absl::MutexLock lock(&mutex_);
    MovedLocked();
    receive = std::exchange(receive_, nullptr);
    if (receive == nullptr) {
      if (request == nullptr) peer_done_ = true;
      received_ = std::move(request);
      if (!MayAnswerHereLocked()) {
        WakeLocked();
        return;
      }
      working_ = true;
    }
  }
  if (receive != nullptr) {
    receive(std::move(request));
  } else {
    TakeTurn(Place::kLink);
  }
}

void StreamingCall::OnWritten(bool ok) {
  std::optional<MessagePieces> response;
  {
    absl::MutexLock lock(&mutex_);
    outbox_.End();
    MovedLocked();
    if (!ok && !stop_) stop_ = absl::CancelledError("the client is gone");
    response = TakeToWriteLocked(Outbox::More::kNone);
    // Before the write: the next response is made while this one is sent.
    if (stop_ || (needs_room_ && !outbox_.is_half_full())) WakeLocked();
  }
  // The call may be gone as soon as the link has taken the response.
  StartWrite(std::move(response));
}

void StreamingCall::OnCancel() { Stop(absl::CancelledError("the client cancelled or is gone")); }

void StreamingCall::OnDone() {
  absl::Status status;
  {
    // The thread that called Finish() is about to leave the call.
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &StreamingCall::IsFree));
    outbox_.Abandon();
    received_.reset();
    place_.Reset();
    status = final_;
  }
  // Done here, while its pointees still exist; without the lock, since it may wake other calls.
  request_.reset();
  work_.reset();
  context_.OnFinished(method_, status, started_);
  context_.gate->LeaveStream(this);
}

void StreamingCall::EndIfIdleSince(absl::Time since) {
  absl::MutexLock lock(&mutex_);
  if (receive_ != nullptr && last_moved_ <= since) link_->Cancel();
  if (working_ || finished_ || stop_ || last_moved_ > since) return;
  // So that it is not ended again before it has sent what it owes.
  last_moved_ = context_.clock->Now();
  is_idle_ = true;
  WakeLocked();
}

void StreamingCall::Stop(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_) stop_ = status;
    if (receive_ != nullptr) link_->Cancel();
    WakeLocked();
  }
  if (give_up_) give_up_();
}

void StreamingCall::WakeLocked() {
  if (finished_) return;
  if (working_) {
    news_ = true;
    return;
  }
  working_ = true;
  QueueTurn();
}

void StreamingCall::QueueTurn() {
  JobPool* const pool = IsOpening() ? context_.opening_pool : context_.stream_pool;
  pool->Submit(context_.client, [self = shared_from_this()] { self->TakeTurn(Place::kPool); });
}

}  // namespace packhouse
