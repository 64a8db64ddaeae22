#include "service/rpc/load_source.h"

#include "service/rpc/wire_loader.h"
#include "service/sizes/status_macros.h"

namespace packhouse::rpc {

absl::StatusOr<std::optional<LoadReply>> LoadSource::Next() {
  if (state_ == State::kEnded) return std::nullopt;
  LoadReply reply;
  v1::LoadResponse& response = reply.message;
  if (state_ == State::kNew) {
    state_ = State::kDelivering;
    LoadOpenedToWire(*session_, *response.mutable_opened());
    return reply;
  }
  PH_ASSIGN_OR_RETURN(LoadEvent event, session_->Next(clock_->Now()));
  switch (event.kind) {
    case LoadEvent::Kind::kWait:
      state_ = State::kWaiting;
      return std::nullopt;
    case LoadEvent::Kind::kEnd:
      state_ = State::kEnded;
      response.mutable_end_of_epoch()->set_num_steps(session_->start().num_steps);
      return reply;
    case LoadEvent::Kind::kBatch:
      break;
  }
  state_ = State::kDelivering;
  leased_();
  if (!event.is_padding) observer_->OnBatch(event.built.batch, session_->Capacities(event));
  LoadedBatchToWire(event, session_->epoch().identity().key.epoch, *response.mutable_batch());
  reply.TakeTensors(std::move(event.built.batch));
  return reply;
}

}  // namespace packhouse::rpc
