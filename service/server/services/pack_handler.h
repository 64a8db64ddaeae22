// One stream of PackingService.Pack.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_HANDLER_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_HANDLER_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "packhouse/v1/packing.pb.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/live_streams.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/call_planning.h"
#include "service/server/calls/stream_handler.h"
#include "service/server/services/stream_drift.h"
#include "service/server/services/stream_tuning.h"
#include "service/server/wire/example_format.h"

namespace packhouse {

using PackReply = BatchReply<v1::PackResponse>;

// The pointees must outlive the handler, and searches that it has begun.
class PackHandler final : public StreamHandler<v1::PackRequest, PackReply> {
 public:
  // `working`: the memory of examples while they are read and of searches for shapes; null: it has
  // no bound. `planning`: where searches run; null: on the thread of Next(). `rpcs`, which may be
  // null, is told of malformed examples. `format` reads them.
  PackHandler(const Clock* clock, const StreamBounds& bounds, HistogramStore* histograms,
              PackObserverFactory* observers, MemoryBudget* working = nullptr,
              std::shared_ptr<StreamPlanning> planning = nullptr, RpcObserver* rpcs = nullptr,
              const ExampleFormat& format = NoExampleFormat::Default())
      : clock_(clock),
        bounds_(bounds),
        histograms_(histograms),
        observers_(observers),
        working_(working),
        planning_(std::move(planning)),
        rpcs_(rpcs),
        format_(format) {
    bounds_.framing = &WireFraming();
  }

  // Lists the stream from when it opens. To be called before that; `streams` must outlive the
  // handler.
  void ListAmong(LiveStreams* streams, LiveStreams::Caller caller) {
    live_streams_ = streams;
    caller_ = std::move(caller);
  }

  // Opens the stream for graphs of `schema`, whatever schema `open` has, without a request. What
  // waits in it counts in the namespace of `named`, a source graph; if that is empty in that of the
  // histogram.
  absl::Status OpenWith(const v1::PackOpen& open, GraphSchema schema, absl::string_view named = "");
  // Takes graphs of this schema that came in no request, as a request of a stream would. May be
  // called when a request could be accepted. `owner_bytes` as StreamPacker::Offer.
  absl::Status AcceptChunk(GraphChunk given, uint64_t owner_bytes);
  // Requires that the stream is open. Of the graphs that the client sends; and the id of the next
  // one that comes without one.
  const GraphSchema& GivenSchema() const;
  uint64_t NextId() const { return num_given_ + num_malformed_; }
  const StreamPacker& packer() const { return *packer_; }
  bool whole_graphs() const { return whole_graphs_; }

  absl::Status Accept(std::unique_ptr<v1::PackRequest> request) override;
  bool OpensOnStore(const v1::PackRequest& request) const override {
    return packer_ == nullptr && request.has_open() && OpensOnStore(request.open());
  }
  // Whether what it names has to be asked for. What it counts in does not: see ObserveSoon().
  static bool OpensOnStore(const v1::PackOpen& open) {
    return !open.device_profile().measured_as().empty() || !open.calibration().histogram().empty();
  }
  void HalfClose() override;
  absl::StatusOr<std::optional<PackReply>> Next() override;
  bool IsBusy() const override { return packer_ != nullptr && packer_->is_feeding(); }
  bool IsWaiting() const override;
  absl::Time NextDeadline() const override;

  // Cutting takes time.
  bool MayBlock() const override { return pieces_ != nullptr; }

 private:
  absl::Status Open(const v1::PackOpen& open);
  absl::Status AcceptGraphs(std::unique_ptr<v1::PackRequest> request);
  absl::Status AcceptSizes(const v1::SizeTable& sizes);
  absl::Status AcceptExamples(const v1::Examples& examples);
  absl::StatusOr<GraphChunk> CutToFit(const GraphChunk& chunk);
  // Begins or ends the search for shapes. False as long as it goes on.
  absl::StatusOr<bool> Tune();
  PackReply NextRejected();
  absl::Status CountSizes(const SizeTable& sizes, const std::vector<Rejection>& rejections);
  // Tells the watch of the stream's shapes.
  absl::Status BeginWatch(std::optional<DriftReference> reference);

  const Clock* const clock_;
  StreamBounds bounds_;
  HistogramStore* const histograms_;
  PackObserverFactory* const observers_;
  MemoryBudget* const working_;
  const std::shared_ptr<StreamPlanning> planning_;
  LiveStreams* live_streams_ = nullptr;  // Null: nobody lists streams.
  LiveStreams::Caller caller_;
  RpcObserver* const rpcs_;
  const ExampleFormat& format_;

  std::shared_ptr<ByteQuota> namespace_quota_;  // What the packer holds; null: `bounds_` has it.
  std::unique_ptr<StreamPacker> packer_;        // Null until `open`.
  std::shared_ptr<const GraphSchema> schema_;
  std::unique_ptr<LiveStreams::Place> live_;  // Null: the stream is not listed.
  // Set if graphs beyond the limits are cut. Then `schema_` has the tensors of pieces.
  std::shared_ptr<const PieceSchema> pieces_;
  // Graphs that came and were accepted or rejected; a graph that was cut counts once.
  uint64_t num_given_ = 0;
  // Only in a stream with a device profile; the search while it goes on.
  std::optional<StreamTuningRequest> tuning_request_;
  std::unique_ptr<StreamTuning> tuning_;
  bool whole_graphs_ = false;
  // Null: the stream is not watched. It has parts of the packer, so it goes first.
  std::unique_ptr<StreamDrift> drift_;
  BatchShapeOptions batches_;
  bool half_closed_ = false;
  std::optional<HistogramKey> histogram_;
  // Set with the first examples.
  std::unique_ptr<ExampleReader> examples_;
  uint64_t num_malformed_ = 0;
  // Sent before any batch: the answer to `open`; the shapes; then the latest chunk's rejections,
  // from next_rejection_ on, malformed examples first.
  std::optional<PackReply> opened_;
  std::optional<PackReply> tuned_;
  std::vector<LeftOut> malformed_;
  std::vector<Rejection> rejections_;
  size_t next_rejection_ = 0;
  std::optional<uint64_t> flush_token_;  // To be answered after the pending batches.
  // Ends the stream once nothing is pending: a graph that was held is too large.
  absl::Status held_too_large_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_PACK_HANDLER_H_
