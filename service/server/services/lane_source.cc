#include "service/server/services/lane_source.h"

#include <algorithm>
#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<std::shared_ptr<Lane>> OfferLane(const LoadableEpoch& epoch, LaneDoor* door,
                                                std::function<void()> wake) {
  const FieldBytes fields = FieldBytes::Of(epoch.schema());
  uint64_t bytes = 0;
  for (size_t i = 0; i < epoch.identity().rank_groups.size(); ++i) {
    for (const BatchShape& shape : epoch.shapes(i)) {
      bytes = std::max(bytes, MostResponseBytes(shape, fields));
    }
  }
  return OfferLane(door, bytes, std::move(wake));
}

absl::StatusOr<std::optional<LoadReply>> LaneSource::Next() {
  const auto make = [this] { return source_->Next(); };
  PH_ASSIGN_OR_RETURN(std::optional<LoadReply> reply,
                      replies_ && !is_over_ ? replies_->Next(make) : make());
  if (!reply) return std::nullopt;
  if (reply->message.has_opened()) {
    LaneToWire(lane_, door_, *reply->message.mutable_opened()->mutable_lane());
  }
  is_over_ = reply->message.has_end_of_epoch();
  return reply;
}

}  // namespace packhouse
