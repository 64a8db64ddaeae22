// Sends the batches of a Load stream over a lane, if the client opens it.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_SOURCE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_SOURCE_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/server/calls/response_source.h"
#include "service/server/lanes/lane.h"
#include "service/server/lanes/lane_door.h"
#include "service/server/services/lane_replies.h"
#include "service/server/services/load_source.h"

namespace packhouse {

// A lane for the epoch's batches, as OfferLane() of lane_replies.h.
absl::StatusOr<std::shared_ptr<Lane>> OfferLane(const LoadableEpoch& epoch, LaneDoor* door,
                                                std::function<void()> wake);

// Gives the responses of `source`, but for batches that went into slots of the lane, and tells the
// client of the lane in `opened`. Waits as LaneReplies. Errors: those of the source, and of Lane.
class LaneSource final : public ResponseSource<LoadReply> {
 public:
  static constexpr absl::Duration kLongWait = LaneReplies<LoadReply>::kLongWait;

  // The pointees must outlive it. `wake` as ProgressSink::Waker() gives it; `schema` is that of the
  // batches.
  LaneSource(std::unique_ptr<ResponseSource<LoadReply>> source,
             absl::StatusOr<std::shared_ptr<Lane>> lane, const LaneDoor* door,
             const GraphSchema& schema, Clock* clock, std::function<void()> wake)
      : source_(std::move(source)), lane_(std::move(lane)), door_(door) {
    if (lane_.ok()) replies_.emplace(*lane_, FieldBytes::Of(schema), clock, std::move(wake));
  }

  absl::StatusOr<std::optional<LoadReply>> Next() override;
  bool IsWaiting() const override {
    return (replies_ && replies_->is_waiting()) || source_->IsWaiting();
  }
  bool IsBusy() const override { return replies_ && replies_->has_sent(); }

 private:
  const std::unique_ptr<ResponseSource<LoadReply>> source_;
  const absl::StatusOr<std::shared_ptr<Lane>> lane_;
  const LaneDoor* const door_;
  std::optional<LaneReplies<LoadReply>> replies_;  // If there is a lane.
  // The end of the epoch was given: the client may close the lane.
  bool is_over_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_SOURCE_H_
