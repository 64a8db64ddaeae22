#include "service/server/services/load_source.h"

#include "service/base/status_macros.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse {
namespace {

LoadReply BatchOf(const LoadableEpoch& epoch, LoadEvent event, PackObserver& observer) {
  LoadReply reply;
  if (!event.is_padding) observer.OnBatch(event.built.batch, CapacitiesOf(epoch, event));
  LoadedBatchToWire(event, epoch.identity().key.epoch, *reply.message.mutable_batch());
  reply.TakeTensors(std::move(event.built.batch));
  return reply;
}

}  // namespace

absl::StatusOr<std::optional<LoadReply>> LoadSource::Next() {
  if (state_ == State::kEnded) return std::nullopt;
  PH_RETURN_IF_ERROR(early_end_.status());
  PH_RETURN_IF_ERROR(job_->log().ownership());
  LoadReply reply;
  v1::LoadResponse& response = reply.message;
  if (state_ == State::kJoining) {
    PH_ASSIGN_OR_RETURN(const bool joined, session_->HasJoined());
    if (!joined) return std::nullopt;
    state_ = State::kDelivering;
    LoadOpenedToWire(*session_, *response.mutable_opened());
    SignCursors(signer_, *response.mutable_opened());
    return reply;
  }
  PH_ASSIGN_OR_RETURN(LoadEvent event, session_->Next(clock_->Now()));
  switch (event.kind) {
    case LoadEvent::Kind::kWait:
      state_ = State::kWaiting;
      return std::nullopt;
    case LoadEvent::Kind::kEnd:
      state_ = State::kEnded;
      response.mutable_end_of_epoch()->set_num_steps(
          session_->epoch().windows() == nullptr ? session_->start().num_steps : event.num_steps);
      response.mutable_end_of_epoch()->set_num_pending(event.num_pending);
      return reply;
    case LoadEvent::Kind::kBatch:
      break;
  }
  state_ = State::kDelivering;
  leased_(event.leased_until);
  return BatchOf(session_->epoch(), std::move(event), *observer_);
}

absl::StatusOr<std::optional<LoadReply>> RedirectSource::Next() {
  if (std::exchange(has_said_, true)) return std::nullopt;
  LoadReply reply;
  v1::LoadRedirect& redirect = *reply.message.mutable_redirect();
  redirect.set_address(owner_.address);
  redirect.set_owner_revision(owner_.revision);
  return reply;
}

absl::StatusOr<std::optional<LoadReply>> EvaluationSource::Next() {
  if (state_ == State::kEnded) return std::nullopt;
  PH_RETURN_IF_ERROR(early_end_.status());
  LoadReply reply;
  if (state_ == State::kNew) {
    state_ = State::kDelivering;
    EvaluationOpenedToWire(*evaluation_, *reply.message.mutable_opened());
    SignCursors(signer_, *reply.message.mutable_opened());
    return reply;
  }
  PH_ASSIGN_OR_RETURN(LoadEvent event, evaluation_->Next());
  if (event.kind == LoadEvent::Kind::kEnd) {
    state_ = State::kEnded;
    reply.message.mutable_end_of_epoch()->set_num_steps(evaluation_->num_steps());
    return reply;
  }
  state_ = event.kind == LoadEvent::Kind::kWait ? State::kWaiting : State::kDelivering;
  if (state_ == State::kWaiting) return std::nullopt;
  return BatchOf(evaluation_->epoch(), std::move(event), *observer_);
}

}  // namespace packhouse
