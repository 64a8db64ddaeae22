#include "service/server/services/pack_lane.h"

#include <algorithm>
#include <cstdint>

#include "service/base/status_macros.h"

namespace packhouse {

absl::Status PackLaneHandler::Accept(std::unique_ptr<v1::PackRequest> request) {
  const bool opens = request->has_open();
  PH_RETURN_IF_ERROR(handler_->Accept(std::move(request)));
  if (!opens) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<Lane>> lane = Offer();
  v1::Lane told;
  LaneToWire(lane, door_, told);
  tell_(told);
  if (lane.ok()) {
    replies_.emplace(*std::move(lane), FieldBytes::Of(handler_->packer().schema()), clock_, wake_);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Lane>> PackLaneHandler::Offer() {
  if (!handler_->whole_graphs()) {
    return absl::FailedPreconditionError("batches of a stream of sizes have no tensors");
  }
  const StreamPacker& packer = handler_->packer();
  const FieldBytes fields = FieldBytes::Of(packer.schema());
  // Shapes that are chosen later are not known.
  uint64_t bytes = packer.shapes().empty() ? kUsualResponseBytes : 0;
  for (const StreamShape& shape : packer.shapes()) {
    bytes = std::max(bytes, MostResponseBytes(shape.shape, fields));
  }
  return OfferLane(door_, bytes, wake_);
}

absl::StatusOr<std::optional<PackReply>> PackLaneHandler::Next() {
  if (!replies_) return handler_->Next();
  return replies_->Next([this] { return handler_->Next(); });
}

}  // namespace packhouse
