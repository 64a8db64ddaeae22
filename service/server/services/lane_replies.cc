#include "service/server/services/lane_replies.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse {
namespace {

uint64_t Aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = TensorFraming::kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The most bytes of a tensor's frame besides its name: fields, lengths, the shape, a gap.
constexpr uint64_t kFrameBytes = 256;

}  // namespace

FieldBytes FieldBytes::Of(const GraphSchema& schema) {
  constexpr uint64_t kVarint = 10;
  // Tags, lengths and numbers, twice as many as there are.
  constexpr uint64_t kNumbers = 32 * kVarint;
  // Of a sub-graph that was drawn smaller.
  constexpr uint64_t kSmaller = 3 * kVarint;
  const uint64_t num_components = schema.num_components();
  return {kNumbers + 2 * kVarint * (num_components + 1),
          sizeof(uint64_t) + sizeof(uint32_t) * num_components + kSmaller};
}

uint64_t MostResponseBytes(const BatchShape& shape, const FieldBytes& fields) {
  if (std::find(shape.capacities.begin(), shape.capacities.end(), BatchLayout::kRagged) !=
      shape.capacities.end()) {
    return kUsualResponseBytes;
  }
  const uint64_t tensors = shape.layout.BatchBytes(shape.capacities).value_or(UINT64_MAX);
  if (tensors >= LaneSize::kMostBytes) return LaneSize::kMostBytes;
  uint64_t frames = 0;
  for (const BatchColumn& column : shape.layout.columns()) {
    frames += column.name.size() + kFrameBytes;
  }
  // A bound of graphs may be far above what batches have.
  const uint64_t others =
      std::min(Aligned(fields.For(shape.capacities.back())), LaneSize::kSlotUnit + tensors / 2);
  return tensors + frames + 2 * others;
}

absl::StatusOr<std::shared_ptr<Lane>> OfferLane(LaneDoor* door, uint64_t response_bytes,
                                                std::function<void()> wake) {
  if (door == nullptr) {
    return absl::FailedPreconditionError("the server was started without --lane");
  }
  return door->Offer(LaneSize::For(response_bytes), std::move(wake));
}

void LaneToWire(const absl::StatusOr<std::shared_ptr<Lane>>& lane, const LaneDoor* door,
                v1::Lane& wire) {
  if (lane.ok()) {
    wire.set_socket_path(door->path());
    wire.set_token((*lane)->token());
  } else {
    wire.set_refusal(std::string(lane.status().message()));
  }
}

std::shared_ptr<char[]> SlotPlace::RoomFor(uint64_t bytes, size_t num_graphs) {
  const uint64_t others = Aligned(fields_.For(num_graphs));
  const uint64_t room = lane_->size().slot_bytes;
  is_too_large_ = room < 2 * others || room - 2 * others < bytes;
  if (is_too_large_ || is_taken_) return nullptr;
  is_taken_ = true;
  return std::shared_ptr<char[]>(lane_, lane_->slot(slot_) + others);
}

bool SlotPlace::Has(absl::string_view bytes) const {
  const char* const begin = lane_->slot(slot_);
  return !bytes.empty() && bytes.data() >= begin && bytes.data() < begin + lane_->size().slot_bytes;
}

absl::Status SendSlot(Lane& lane, uint32_t slot, const MessagePieces& pieces) {
  char* const begin = lane.slot(slot);
  const auto before = static_cast<uint64_t>(pieces.framed_tensors.data() - begin);
  const uint64_t behind = lane.size().slot_bytes - before - pieces.framed_tensors.size();
  if (pieces.head.size() > before || pieces.tail.size() > behind) {
    lane.GiveBack(slot);
    return absl::InternalError(absl::StrCat("a slot has ", before, " and ", behind,
                                            " bytes around the tensors, for ", pieces.head.size(),
                                            " and ", pieces.tail.size()));
  }
  const uint64_t offset = before - pieces.head.size();
  std::memcpy(begin + offset, pieces.head.data(), pieces.head.size());
  std::memcpy(begin + before + pieces.framed_tensors.size(), pieces.tail.data(),
              pieces.tail.size());
  return lane.Send(slot, static_cast<uint32_t>(offset), pieces.size());
}

}  // namespace packhouse
