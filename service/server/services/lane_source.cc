#include "service/server/services/lane_source.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/batch_place.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

uint64_t Aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = TensorFraming::kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The most bytes of a tensor's frame besides its name: fields, lengths, the shape, a gap.
constexpr uint64_t kFrameBytes = 256;
// Of batches whose shapes have no bound.
constexpr uint64_t kUsualBytes = uint64_t{1} << 20;

// The most bytes of a batch's response, or about as many.
uint64_t MostResponseBytes(const BatchShape& shape, const FieldBytes& fields) {
  if (std::find(shape.capacities.begin(), shape.capacities.end(), BatchLayout::kRagged) !=
      shape.capacities.end()) {
    return kUsualBytes;
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

// A slot, as the collator sees it.
class SlotPlace final : public BatchPlace {
 public:
  SlotPlace(std::shared_ptr<Lane> lane, uint32_t slot, const FieldBytes& fields)
      : lane_(std::move(lane)), slot_(slot), fields_(fields) {}

  std::shared_ptr<char[]> RoomFor(uint64_t bytes, size_t num_graphs) override {
    const uint64_t others = Aligned(fields_.For(num_graphs));
    const uint64_t room = lane_->size().slot_bytes;
    is_too_large_ = room < 2 * others || room - 2 * others < bytes;
    if (is_too_large_ || is_taken_) return nullptr;
    is_taken_ = true;
    return std::shared_ptr<char[]>(lane_, lane_->slot(slot_) + others);
  }
  // Whether a batch was asked for that the slot does not take.
  bool is_too_large() const { return is_too_large_; }

 private:
  const std::shared_ptr<Lane> lane_;
  const uint32_t slot_;
  const FieldBytes fields_;
  bool is_taken_ = false;
  bool is_too_large_ = false;
};

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

absl::StatusOr<std::shared_ptr<Lane>> OfferLane(const LoadableEpoch& epoch, LaneDoor* door,
                                                std::function<void()> wake) {
  if (door == nullptr) {
    return absl::FailedPreconditionError("the server was started without --lane");
  }
  const FieldBytes fields = FieldBytes::Of(epoch.schema());
  uint64_t bytes = 0;
  for (size_t i = 0; i < epoch.identity().rank_groups.size(); ++i) {
    for (const BatchShape& shape : epoch.shapes(i)) {
      bytes = std::max(bytes, MostResponseBytes(shape, fields));
    }
  }
  return door->Offer(LaneSize::For(bytes), std::move(wake));
}

absl::StatusOr<std::optional<LoadReply>> LaneSource::Next() {
  state_ = State::kAsSource;
  if (!lane_.ok() || is_over_) return NextInto(std::nullopt);
  PH_ASSIGN_OR_RETURN(const bool is_open, (*lane_)->IsOpen());
  std::optional<uint32_t> slot;
  if (is_open) {
    slot = (*lane_)->TakeSlot();
    if (slot) {
      no_slot_since_ = absl::InfiniteFuture();
    } else if (!HasWaitedLong()) {
      state_ = State::kNoSlot;
      (*lane_)->AwaitRelease();
      return std::nullopt;
    }
  }
  return NextInto(slot);
}

bool LaneSource::HasWaitedLong() {
  const absl::Time now = clock_->Now();
  if (no_slot_since_ == absl::InfiniteFuture()) {
    no_slot_since_ = now;
    clock_->CallAt(now + kLongWait, wake_);
  }
  return now - no_slot_since_ >= kLongWait;
}

absl::StatusOr<std::optional<LoadReply>> LaneSource::NextInto(std::optional<uint32_t> slot) {
  absl::StatusOr<std::optional<LoadReply>> next = std::nullopt;
  bool is_in_slot = false;
  {
    std::optional<SlotPlace> place;
    if (slot) place.emplace(*lane_, *slot, fields_);
    const BatchPlaceScope scope(place ? &*place : nullptr);
    next = source_->Next();
    if (slot) {
      const char* const begin = (*lane_)->slot(*slot);
      const char* const data = next.ok() && *next ? (*next)->framed_tensors.data() : nullptr;
      is_in_slot = data >= begin && data < begin + (*lane_)->size().slot_bytes;
      if (!is_in_slot) (*lane_)->GiveBack(*slot);
      if (place->is_too_large()) ++(*lane_)->counts().num_too_large;
    }
  }
  if (!next.ok() || !*next) return next;
  LoadReply& reply = **next;
  if (is_in_slot) {
    PH_RETURN_IF_ERROR(Send(*slot, reply));
    state_ = State::kSent;
    return std::nullopt;
  }
  if (reply.message.has_opened()) {
    v1::Lane& told = *reply.message.mutable_opened()->mutable_lane();
    if (lane_.ok()) {
      told.set_socket_path(door_->path());
      told.set_token((*lane_)->token());
    } else {
      told.set_refusal(std::string(lane_.status().message()));
    }
  }
  if (lane_.ok()) {
    if (no_slot_since_ != absl::InfiniteFuture() && reply.message.has_batch()) {
      ++(*lane_)->counts().num_without_slot;
    }
    PH_RETURN_IF_ERROR((*lane_)->SendByGrpc());
  }
  is_over_ = reply.message.has_end_of_epoch();
  return next;
}

absl::Status LaneSource::Send(uint32_t slot, const LoadReply& reply) {
  Lane& lane = **lane_;
  const MessagePieces pieces = PiecesOf(reply);
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
