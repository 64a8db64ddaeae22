// One stream of PackingService.Pack.
#ifndef PACKHOUSE_SERVICE_WIRE_PACK_HANDLER_H_
#define PACKHOUSE_SERVICE_WIRE_PACK_HANDLER_H_

#include <memory>
#include <optional>
#include <vector>

#include "packhouse/v1/packing.pb.h"
#include "service/admission/memory_budget.h"
#include "service/base/clock.h"
#include "service/histograms/histogram_store.h"
#include "service/streams/pack_observer.h"
#include "service/streams/stream_packer.h"
#include "service/wire/batch_reply.h"
#include "service/wire/stream_handler.h"
#include "service/wire/wire_examples.h"

namespace packhouse {

using PackReply = BatchReply<v1::PackResponse>;

// The pointees must outlive the handler.
class PackHandler final : public StreamHandler<v1::PackRequest, PackReply> {
 public:
  // `working` counts the rows of examples while they are made; null: nothing is counted.
  PackHandler(const Clock* clock, const StreamBounds& bounds, HistogramStore* histograms,
              PackObserverFactory* observers, MemoryBudget* working = nullptr)
      : clock_(clock),
        bounds_(bounds),
        histograms_(histograms),
        observers_(observers),
        working_(working) {
    bounds_.framing = &WireFraming();
  }

  absl::Status Accept(std::unique_ptr<v1::PackRequest> request) override;
  void HalfClose() override;
  absl::StatusOr<std::optional<PackReply>> Next() override;
  bool IsBusy() const override { return packer_ != nullptr && packer_->is_feeding(); }
  absl::Time NextDeadline() const override;

 private:
  absl::Status Open(const v1::PackOpen& open);
  absl::Status AcceptGraphs(std::unique_ptr<v1::PackRequest> request);
  absl::Status AcceptSizes(const v1::SizeTable& sizes);
  absl::Status AcceptExamples(const v1::Examples& examples);
  absl::Status AcceptChunk(GraphChunk chunk, uint64_t owner_bytes);
  // The id of the next graph that comes without one.
  uint64_t NextId() const { return packer_->num_offered() + num_malformed_; }
  PackReply NextRejected();
  absl::Status CountSizes(const SizeTable& sizes, const std::vector<Rejection>& rejections);

  const Clock* const clock_;
  StreamBounds bounds_;
  HistogramStore* const histograms_;
  PackObserverFactory* const observers_;
  MemoryBudget* const working_;

  std::unique_ptr<StreamPacker> packer_;  // Null until `open`.
  bool whole_graphs_ = false;
  std::optional<HistogramKey> histogram_;
  // Set with the first examples.
  std::optional<ExampleReader> examples_;
  uint64_t num_malformed_ = 0;
  // Sent before any batch: the answer to `open`; then the latest chunk's rejections, from
  // next_rejection_ on, malformed examples first.
  std::optional<PackReply> opened_;
  std::vector<LeftOut> malformed_;
  std::vector<Rejection> rejections_;
  size_t next_rejection_ = 0;
  std::optional<uint64_t> flush_token_;  // To be answered after the pending batches.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_PACK_HANDLER_H_
