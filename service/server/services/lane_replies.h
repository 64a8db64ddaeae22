// Puts the batches of a stream into slots of its lane, and says which replies go by gRPC. What it
// is that makes the replies, it does not know: LaneSource has it for Load, PackLaneHandler for
// Pack.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_REPLIES_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_REPLIES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/algorithms/collation/batch_place.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/lanes/lane.h"
#include "service/server/lanes/lane_door.h"

namespace packhouse {

// What a response with a batch has besides frames and tensors: how many bytes at most, before them
// and behind them.
struct FieldBytes {
  static FieldBytes Of(const GraphSchema& schema);
  uint64_t For(uint64_t num_graphs) const { return fixed + num_graphs * for_each_graph; }

  uint64_t fixed = 0;
  uint64_t for_each_graph = 0;
};

// The most bytes of a response with a batch of that shape, or about as many.
uint64_t MostResponseBytes(const BatchShape& shape, const FieldBytes& fields);
// The same of a batch whose shape has no bound, or is not known.
inline constexpr uint64_t kUsualResponseBytes = uint64_t{1} << 20;

// A lane at the door, which may be null: there are none. An error says why there is none, to the
// client.
absl::StatusOr<std::shared_ptr<Lane>> OfferLane(LaneDoor* door, uint64_t response_bytes,
                                                std::function<void()> wake);
// Tells the client of it.
void LaneToWire(const absl::StatusOr<std::shared_ptr<Lane>>& lane, const LaneDoor* door,
                v1::Lane& wire);

// A slot, as the collator sees it.
class SlotPlace final : public BatchPlace {
 public:
  SlotPlace(std::shared_ptr<Lane> lane, uint32_t slot, const FieldBytes& fields)
      : lane_(std::move(lane)), slot_(slot), fields_(fields) {}

  std::shared_ptr<char[]> RoomFor(uint64_t bytes, size_t num_graphs) override;
  // Whether a batch was asked for that the slot does not take.
  bool is_too_large() const { return is_too_large_; }
  // Whether the bytes lie in the slot. Empty ones lie nowhere.
  bool Has(absl::string_view bytes) const;

 private:
  const std::shared_ptr<Lane> lane_;
  const uint32_t slot_;
  const FieldBytes fields_;
  bool is_taken_ = false;
  bool is_too_large_ = false;
};

// Writes what is before and behind the tensors, which lie in the slot, and sends all.
absl::Status SendSlot(Lane& lane, uint32_t slot, const MessagePieces& pieces);

// One thread at a time. Reply: a BatchReply.
template <typename Reply>
class LaneReplies {
 public:
  // How long a stream waits for a slot. Then its batches go by gRPC until one is free. And after
  // how long a stream that waits for anything else looks at what its client has said.
  static constexpr absl::Duration kLongWait = absl::Seconds(1);
  using Made = absl::StatusOr<std::optional<Reply>>;

  // `wake` makes the stream call Next() again, at any time and from any thread.
  LaneReplies(std::shared_ptr<Lane> lane, const FieldBytes& fields, Clock* clock,
              std::function<void()> wake)
      : lane_(std::move(lane)), fields_(fields), clock_(clock), wake_(std::move(wake)) {}

  // What `make` gives, which makes at most one batch; it is to go by gRPC. nullopt also if it was a
  // batch that went into a slot: has_sent(). Or if it is not the time to make one: is_waiting(),
  // and the stream is woken when it is. Errors: those of `make`, and of Lane.
  Made Next(absl::FunctionRef<Made()> make) {
    state_ = State::kAsMade;
    PH_ASSIGN_OR_RETURN(const bool is_open, lane_->IsOpen());
    std::optional<uint32_t> slot;
    if (is_open) {
      if (!lane_->HasRoom()) {
        // As where gRPC takes no response: the client does not read.
        state_ = State::kWaiting;
        lane_->AwaitRoom();
        LookLater();
        return std::nullopt;
      }
      slot = lane_->TakeSlot();
      if (slot) {
        no_slot_since_ = absl::InfiniteFuture();
      } else if (!HasWaitedLong()) {
        state_ = State::kWaiting;
        lane_->AwaitRelease();
        return std::nullopt;
      }
    }
    return NextInto(slot, make);
  }
  bool has_sent() const { return state_ == State::kSent; }
  bool is_waiting() const { return state_ == State::kWaiting; }

 private:
  // What the last Next() came to.
  enum class State { kAsMade, kSent, kWaiting };

  // A client may end its lane, or lie, while nothing else will wake the stream: that may wait for
  // the same client. To be woken by every release meanwhile would cost more than a look at times.
  // Also before the lane is open: opening it wakes nobody.
  void LookLater() {
    const absl::Time now = clock_->Now();
    if (now < look_at_) return;
    look_at_ = now + kLongWait;
    clock_->CallAt(look_at_, wake_);
  }

  // Whether to go on without a slot.
  bool HasWaitedLong() {
    const absl::Time now = clock_->Now();
    if (no_slot_since_ == absl::InfiniteFuture()) {
      no_slot_since_ = now;
      clock_->CallAt(now + kLongWait, wake_);
    }
    return now - no_slot_since_ >= kLongWait;
  }

  Made NextInto(std::optional<uint32_t> slot, absl::FunctionRef<Made()> make) {
    Made next = std::nullopt;
    bool is_in_slot = false;
    {
      std::optional<SlotPlace> place;
      if (slot) place.emplace(lane_, *slot, fields_);
      const BatchPlaceScope scope(place ? &*place : nullptr);
      next = make();
      if (slot) {
        is_in_slot = next.ok() && *next && place->Has((*next)->framed_tensors);
        if (!is_in_slot) lane_->GiveBack(*slot);
        if (place->is_too_large()) ++lane_->counts().num_too_large;
      }
    }
    if (!next.ok()) return next;
    if (!*next) {
      LookLater();
      return next;
    }
    if (is_in_slot) {
      PH_RETURN_IF_ERROR(SendSlot(*lane_, *slot, PiecesOf(**next)));
      state_ = State::kSent;
      return std::nullopt;
    }
    if (no_slot_since_ != absl::InfiniteFuture() && (*next)->message.has_batch()) {
      ++lane_->counts().num_without_slot;
    }
    PH_RETURN_IF_ERROR(lane_->SendByGrpc());
    return next;
  }

  const std::shared_ptr<Lane> lane_;
  const FieldBytes fields_;
  Clock* const clock_;
  const std::function<void()> wake_;
  State state_ = State::kAsMade;
  absl::Time no_slot_since_ = absl::InfiniteFuture();
  absl::Time look_at_ = absl::InfinitePast();  // When LookLater() has it woken.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_REPLIES_H_
