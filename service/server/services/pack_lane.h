// Sends the batches of a Pack stream over a lane, and takes its graphs from another one, if the
// client opens them.
//
// Graphs lie in a slot that the client can write to at any time, while they are checked, too. So
// nothing is read there but by one copy into memory of the server's own, whose size and layout are
// computed from sizes that came by gRPC; what is checked, and packed, is the copy. Lengths and
// offsets that could lie are not there at all.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_LANE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_LANE_H_

#include <atomic>
#include <cstdint>
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
//
// Graphs of `slot_graphs` are copied from their slot, which the client has again at once.
class PackLaneHandler final : public StreamHandler<v1::PackRequest, PackReply> {
 public:
  // Of a lane for graphs: chunks of clients have about a MiB.
  static constexpr LaneSize kGraphs = {.num_slots = 4, .slot_bytes = (1 << 20) + (16 << 10)};

  // The lane each way, or why there is none.
  struct Offers {
    v1::Lane to_client;
    std::optional<v1::Lane> to_server;  // Unset: it is not asked for.
    // As Lane::open_flag() of the first; null without it.
    std::shared_ptr<const std::atomic<bool>> uses_lane;
  };
  // What tells the client; called once, before Next() gives `opened`.
  using Tell = std::function<void(const Offers&)>;

  // `takes_graphs`: the client asks for a lane for its graphs, too. `door` may be null: there are
  // no lanes. The pointees must outlive it. `wake` makes the stream go on, at any time and from any
  // thread.
  PackLaneHandler(std::unique_ptr<PackHandler> handler, bool takes_graphs, LaneDoor* door,
                  Clock* clock, Tell tell, std::function<void()> wake)
      : handler_(std::move(handler)),
        takes_graphs_(takes_graphs),
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
  void Opened();
  absl::Status AcceptFrom(const v1::SlotGraphs& graphs);

  const std::unique_ptr<PackHandler> handler_;
  const bool takes_graphs_;
  LaneDoor* const door_;
  Clock* const clock_;
  const Tell tell_;
  const std::function<void()> wake_;
  std::optional<LaneReplies<PackReply>> replies_;  // If there is a lane.
  std::shared_ptr<Lane> graphs_;                   // Null: there is none for graphs.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_LANE_H_
