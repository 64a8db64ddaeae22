// One Pack stream: graphs or sizes in, full batches out.
#ifndef PACKHOUSE_CLIENT_CPP_PACK_STREAM_H_
#define PACKHOUSE_CLIENT_CPP_PACK_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/lane_use.h"
#include "client/cpp/own_process.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/packing.pb.h"

namespace packhouse::client {

struct PackStreamOptions {
  // How long Open waits for `opened`. A server may answer late when it is busy, so do not make it
  // infinite.
  absl::Duration open_timeout = absl::Seconds(10);
  // When the whole stream ends with DEADLINE_EXCEEDED, whatever its state.
  absl::Time deadline = absl::InfiniteFuture();
  // Without the lane that is required Open() fails. The first batches, and those that find no place
  // there, come by gRPC in any case.
  LaneUse lane = LaneUse::kIfPossible;
};

class LaneReader;
class LaneWriter;

// Use: Open; one thread calls Send..., at the end HalfClose; another calls Next until it returns
// nullopt (all batches received) or an error. The server stops reading when its responses are not
// read, so a program that first writes everything and then reads will hang.
//
// Threads: Send..., Flush and HalfClose from one thread at a time; Next and Finish from one
// thread at a time, which may be another; Cancel from any thread at any time. No other call may run
// during the destructor, which cancels a stream that has not ended.
//
// In a process that was forked the stream stays the parent's: each call fails with
// FAILED_PRECONDITION, and Cancel() and the destructor do nothing.
//
// Every graph sent comes back in exactly one Batch or one PackRejected, unless the stream fails:
// then graphs not received in a batch must be sent again.
class PackStream {
 public:
  // Opens a stream and waits for the server's answer, see opened(). `stub` may go away afterwards.
  //
  // Errors: the server's (see PackingService.Pack); DEADLINE_EXCEEDED after options.open_timeout.
  static absl::StatusOr<std::unique_ptr<PackStream>> Open(v1::PackingService::StubInterface& stub,
                                                          const v1::PackOpen& open,
                                                          const PackStreamOptions& options = {});

  PackStream(const PackStream&) = delete;
  PackStream& operator=(const PackStream&) = delete;
  ~PackStream();

  // How batches come; graphs go the same way, if the server offers it. Constant.
  LoadTransport transport() const {
    return lane_ == nullptr ? LoadTransport::kGrpc : LoadTransport::kLane;
  }

  // The server's answer: limits, padding, size of a batch. Constant. With a device_profile the
  // shapes come later: AwaitTuned().
  const v1::PackOpened& opened() const { return opened_; }

  // Each sends one message and blocks while the server reads nothing (its bound of unsent batches
  // is reached). OK says that the message is on its way, not that the server accepted it.
  //
  // Errors: CANCELLED once the stream has ended or is half-closed; Next or Finish has the reason.
  // INVALID_ARGUMENT naming the graph if it, or all together, are larger than a message may be:
  // nothing is sent then, and the stream goes on.
  absl::Status Send(v1::GraphChunk chunk);
  absl::Status SendSizes(v1::SizeTable sizes);
  absl::Status SendExamples(v1::Examples examples);
  // Packs all pending graphs now; `flushed` with the token follows their batches.
  absl::Status Flush(uint64_t token);
  // Says that nothing more will be sent. The server packs what is left, then ends the stream.
  absl::Status HalfClose();

  // The shapes that the server chose for PackOpen.device_profile, or nullopt if the stream has
  // ended without them: it had no profile, or no graph. Blocks until they come: after
  // Calibration.num_graphs graphs, a flush or HalfClose(), all from another thread, or at once if
  // the histogram suffices. Next() still gives all responses, this one too. The reader's.
  //
  // Errors: the stream's status.
  absl::StatusOr<std::optional<v1::PackTuned>> AwaitTuned();

  // The next response: tuned, batch, rejected, flushed or drifted, in the server's order; nullopt
  // when the stream has ended with OK. Blocks until there is one. After the end it gives the same
  // answer again.
  //
  // Errors: the stream's status. Batches received before it are good.
  absl::StatusOr<std::optional<v1::PackResponse>> Next();

  // Skips all further responses and returns the stream's status, OK if every graph was delivered.
  // Blocks until the stream has ended, so half-close or cancel it first.
  absl::Status Finish();

  // Ends the stream with CANCELLED as soon as possible. Batches under way are lost.
  void Cancel();

 private:
  struct Call;
  PackStream(std::shared_ptr<Call> call, v1::GraphSchema schema);
  absl::Status Write(const v1::PackRequest& request);
  absl::StatusOr<std::optional<v1::PackResponse>> Read();
  absl::Status OpenLane(LaneUse use);
  void OpenGraphLane();
  // The next response; false at the stream's end, or if `status_` says why there is none.
  bool Take(v1::PackResponse& response);
  bool TakeFromGrpc(v1::PackResponse& response);
  // Gives the stream up: batches are missing.
  void Lose(absl::Status status);

  const OwnProcess process_;
  // The call's context outlives the stream for as long as a timer refers to it.
  const std::shared_ptr<Call> call_;
  // Of the graphs that are sent.
  const v1::GraphSchema schema_;
  v1::PackOpened opened_;
  // Null: there is none. Constant once the stream is open.
  std::unique_ptr<LaneReader> lane_;
  // Of the graphs; its use is the writer's.
  std::unique_ptr<LaneWriter> graph_lane_;
  // Below: the writer's.
  bool half_closed_ = false;
  // Below: the reader's. Responses that AwaitTuned() has read, for Next().
  std::deque<v1::PackResponse> early_;
  std::optional<v1::PackTuned> tuned_;
  uint64_t num_from_grpc_ = 0;
  // Set when the stream has ended.
  std::optional<absl::Status> status_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_PACK_STREAM_H_
