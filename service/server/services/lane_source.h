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
#include "service/server/services/load_source.h"

namespace packhouse {

// What a response with a batch has besides frames and tensors: how many bytes at most, before them
// and behind them.
struct FieldBytes {
  static FieldBytes Of(const GraphSchema& schema);
  uint64_t For(uint64_t num_graphs) const { return fixed + num_graphs * for_each_graph; }

  uint64_t fixed = 0;
  uint64_t for_each_graph = 0;
};

// A lane for the epoch's batches. `door` may be null: there are no lanes. An error says why there
// is none, to the client.
absl::StatusOr<std::shared_ptr<Lane>> OfferLane(const LoadableEpoch& epoch, LaneDoor* door,
                                                std::function<void()> wake);

// Gives the responses of `source`, but for batches that went into slots of the lane, and tells the
// client of the lane in `opened`. Waits while no slot is free; after kLongWait, batches are
// responses until one is. Errors: those of the source, and of Lane.
class LaneSource final : public ResponseSource<LoadReply> {
 public:
  static constexpr absl::Duration kLongWait = absl::Seconds(1);

  // The pointees must outlive it. `wake` as ProgressSink::Waker() gives it; `schema` is that of the
  // batches.
  LaneSource(std::unique_ptr<ResponseSource<LoadReply>> source,
             absl::StatusOr<std::shared_ptr<Lane>> lane, const LaneDoor* door,
             const GraphSchema& schema, Clock* clock, std::function<void()> wake)
      : source_(std::move(source)),
        lane_(std::move(lane)),
        door_(door),
        fields_(FieldBytes::Of(schema)),
        clock_(clock),
        wake_(std::move(wake)) {}

  absl::StatusOr<std::optional<LoadReply>> Next() override;
  bool IsWaiting() const override { return state_ == State::kNoSlot || source_->IsWaiting(); }
  bool IsBusy() const override { return state_ == State::kSent; }

 private:
  // What the last Next() came to.
  enum class State { kAsSource, kSent, kNoSlot };

  // Whether to go on without a slot.
  bool HasWaitedLong();
  absl::StatusOr<std::optional<LoadReply>> NextInto(std::optional<uint32_t> slot);
  // Writes what is before and behind the tensors, which lie in the slot, and sends all.
  absl::Status Send(uint32_t slot, const LoadReply& reply);

  const std::unique_ptr<ResponseSource<LoadReply>> source_;
  const absl::StatusOr<std::shared_ptr<Lane>> lane_;
  const LaneDoor* const door_;
  const FieldBytes fields_;
  Clock* const clock_;
  const std::function<void()> wake_;
  State state_ = State::kAsSource;
  // The end of the epoch was given: the client may close the lane.
  bool is_over_ = false;
  absl::Time no_slot_since_ = absl::InfiniteFuture();
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_LANE_SOURCE_H_
