// The work of the thread that is at work on a streaming call. streaming_call.cc decides which
// thread that is, and when.
#include <algorithm>
#include <utility>

#include "service/base/status_macros.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls/streaming_call.h"

namespace packhouse {

void StreamingCall::TakeTurn(Place place) {
  // The call may end as soon as no thread is at work on it.
  const std::shared_ptr<StreamingCall> self = shared_from_this();
  if (place == Place::kPool) EndIfIdle();
  const absl::Time end = context_.clock->Now() + (place == Place::kPool ? kTurn : kTurnOnLink);
  const bool opens = IsOpening();
  for (int steps = 0; steps < kStepsPerTurn; ++steps) {
    if (steps != 0 && (context_.clock->Now() >= end || IsOpening() != opens)) break;
    if (Step(place)) continue;
    absl::MutexLock lock(&mutex_);
    if (std::exchange(news_, false)) continue;
    working_ = false;
    return;
  }
  Write(Outbox::More::kNone);
  QueueTurn();
}

void StreamingCall::EndIfIdle() {
  bool is_sending = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(is_idle_, false)) return;
    is_sending = outbox_.is_sending();
  }
  if (is_sending) {
    // The client does not read, so a status would not reach it.
    link_->Cancel();
    return;
  }
  Close(absl::UnavailableError(
      "nothing has gone either way for as long as --stream-idle-timeout says; open another"));
}

bool StreamingCall::Step(Place place) {
  bool has_room = false;
  std::optional<MessagePieces> response;
  {
    absl::MutexLock lock(&mutex_);
    if (IsStoppedLocked()) return false;
    if (is_drained_ && outbox_.is_idle()) {
      FinishLocked(end_);
      return false;
    }
    needs_room_ = is_drained_ || !outbox_.has_room();
    has_room = !needs_room_;
    if (!has_room) response = TakeToWriteLocked(Outbox::More::kNone);
  }
  if (!has_room) {
    StartWrite(std::move(response));
    return false;
  }
  const absl::StatusOr<bool> made = EndOnAllocationFailure([this] { return MakeResponse(); });
  if (!made.ok()) {
    // What the call was closed with comes first.
    EndWith(end_.ok() ? made.status() : end_);
    return true;
  }
  if (*made) return true;
  const CallWork::Need need = work_->need();
  if (need == CallWork::Need::kTurn) {
    // Something has gone another way, or is being made.
    absl::MutexLock lock(&mutex_);
    MovedLocked();
    return true;
  }
  const bool waits = need == CallWork::Need::kWake;
  if (!waits && (is_closed_ || need == CallWork::Need::kNothing)) {
    is_drained_ = true;
    return true;
  }
  if (need == CallWork::Need::kRequest) return TakeRequest(place);
  Write(Outbox::More::kNone);
  return false;
}

absl::StatusOr<bool> StreamingCall::MakeResponse() {
  PH_ASSIGN_OR_RETURN(std::optional<MessagePieces> response, work_->Next());
  if (!response) return false;
  {
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(outbox_.Add(*std::move(response)));
    response = TakeToWriteLocked(Outbox::More::kComing);
  }
  StartWrite(std::move(response));
  return true;
}

bool StreamingCall::TakeRequest(Place place) {
  pace_.End();
  bool reads_next = false;
  Write(Outbox::More::kNone);
  {
    absl::MutexLock lock(&mutex_);
    if (request_ == nullptr && received_ != nullptr) {
      request_ = std::move(received_);
      // The next request may arrive while this one is at work. If this thread is the link's, the
      // next request would only wake another thread, which would find the call busy.
      reads_next = place == Place::kLink;
      if (!reads_next) link_->StartRead();
    }
    if (request_ == nullptr && !peer_done_) {
      ArmLocked(work_->NextDeadline());
      return false;
    }
  }
  if (request_ == nullptr) {
    Close(absl::OkStatus());
    return true;
  }
  pace_.Begin();
  const bool is_taken = AcceptRequest();
  if (reads_next) {
    absl::MutexLock lock(&mutex_);
    link_->StartRead();
  }
  return is_taken;
}

bool StreamingCall::AcceptRequest() {
  bool is_broken = false;
  const absl::Status accepted =
      EndOnAllocationFailure([this] { return work_->Accept(request_); }, &is_broken);
  if (request_ != nullptr && !is_broken && absl::IsResourceExhausted(accepted)) {
    // The stream goes on once others have finished their requests. It ends only if none has for
    // long.
    const absl::Time now = context_.clock->Now();
    no_room_since_ = std::min(no_room_since_, now);
    if (now - no_room_since_ < kLongestWithoutRoom) {
      absl::MutexLock lock(&mutex_);
      ArmLocked(now + kRoomRetry);
      return false;
    }
  }
  no_room_since_ = absl::InfiniteFuture();
  request_.reset();
  if (is_broken) {
    EndWith(accepted);
  } else if (!accepted.ok()) {
    Close(accepted);
  }
  return true;
}

void StreamingCall::ArmLocked(absl::Time time) {
  if (time >= armed_for_) return;
  context_.clock->CallAt(time, [weak = weak_from_this(), time] {
    if (const auto self = weak.lock()) self->OnTimer(time);
  });
  armed_for_ = time;
}

void StreamingCall::OnTimer(absl::Time time) {
  absl::MutexLock lock(&mutex_);
  if (armed_for_ == time) armed_for_ = absl::InfiniteFuture();
  WakeLocked();
}

void StreamingCall::Close(const absl::Status& status) {
  if (is_closed_ || is_drained_) return;
  end_ = status;
  is_closed_ = true;
  const absl::Status closed = EndOnAllocationFailure([this] {
    work_->Close();
    return absl::OkStatus();
  });
  if (!closed.ok()) EndWith(closed);
}

void StreamingCall::EndWith(const absl::Status& status) {
  end_ = status;
  is_drained_ = true;
}

void StreamingCall::Write(Outbox::More more) {
  std::optional<MessagePieces> response;
  {
    absl::MutexLock lock(&mutex_);
    response = TakeToWriteLocked(more);
  }
  StartWrite(std::move(response));
}

void StreamingCall::StartWrite(std::optional<MessagePieces> response) {
  if (response) link_->StartWrite(*std::move(response));
}

std::optional<MessagePieces> StreamingCall::TakeToWriteLocked(Outbox::More more) {
  if (stop_ || finished_) return std::nullopt;
  std::optional<MessagePieces> response = outbox_.Begin(more);
  if (response) MovedLocked();
  return response;
}

bool StreamingCall::IsStoppedLocked() {
  if (stop_ && !finished_ && !outbox_.is_sending()) FinishLocked(*stop_);
  return finished_ || stop_;
}

void StreamingCall::FinishLocked(const absl::Status& status) {
  finished_ = true;
  final_ = status;
  // Before the client hears of the end: the stream that it opens next needs them.
  if (context_.record != nullptr) context_.record->places.clear();
  link_->Finish(status);
}

}  // namespace packhouse
