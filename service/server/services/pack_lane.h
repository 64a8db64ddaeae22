// Sends the batches of a Pack stream over a lane, if the client opens it.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_LANE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_LANE_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "service/base/clock.h"
#include "service/server/calls/stream_handler.h"
#include "service/server/lanes/lane.h"
#include "service/server/lanes/lane_door.h"
#include "service/server/services/lane_replies.h"
#include "service/server/services/pack_handler.h"

namespace packhouse {

// Takes the requests of a stream that asks for a lane, and gives its responses, but for batches
// that went into slots. While no slot is free it takes no request. Errors: those of the handler,
// and of Lane.
class PackLaneHandler final : public StreamHandler<v1::PackRequest, PackReply> {
 public:
  // What tells the client of its lane, or why there is none; called once, before Next() gives
  // `opened`.
  using Tell = std::function<void(const v1::Lane&)>;

  // `door` may be null: there are no lanes. The pointees must outlive it. `wake` makes the stream
  // go on, at any time and from any thread.
  PackLaneHandler(std::unique_ptr<PackHandler> handler, LaneDoor* door, Clock* clock, Tell tell,
                  std::function<void()> wake)
      : handler_(std::move(handler)),
        door_(door),
        clock_(clock),
        tell_(std::move(tell)),
        wake_(std::move(wake)) {}

  absl::Status Accept(std::unique_ptr<v1::PackRequest> request) override;
  bool OpensOnStore(const v1::PackRequest& request) const override {
    return handler_->OpensOnStore(request);
  }
  void HalfClose() override { handler_->HalfClose(); }
  absl::StatusOr<std::optional<PackReply>> Next() override;
  bool IsBusy() const override {
    if (replies_ && replies_->is_waiting()) return false;
    return (replies_ && replies_->has_sent()) || handler_->IsBusy();
  }
  bool IsWaiting() const override {
    return (replies_ && replies_->is_waiting()) || handler_->IsWaiting();
  }
  bool MayBlock() const override { return handler_->MayBlock(); }
  absl::Time NextDeadline() const override { return handler_->NextDeadline(); }

 private:
  // For the batches of the stream, which has just been opened.
  absl::StatusOr<std::shared_ptr<Lane>> Offer();

  const std::unique_ptr<PackHandler> handler_;
  LaneDoor* const door_;
  Clock* const clock_;
  const Tell tell_;
  const std::function<void()> wake_;
  std::optional<LaneReplies<PackReply>> replies_;  // If there is a lane.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_LANE_H_
