// One stream of DatasetService.Append.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_APPEND_HANDLER_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_APPEND_HANDLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "packhouse/v1/dataset.pb.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/stream_handler.h"
#include "service/server/services/dataset_drifts.h"
#include "service/server/wire/example_format.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Accept() blocks until the chunk is durable, so the stream must run on the append pool.
//
// Memory: rows are written from the received message; those of examples are made first, and
// reserved while they are there. A stream has at most one message that is
// being appended and one that waits. A message is at most the server's max_message_bytes, and at
// most as many are being appended as the pool has threads.
class AppendHandler final : public StreamHandler<v1::AppendRequest, v1::AppendResponse> {
 public:
  // The pointees must outlive the handler. Without `datasets` there may be no request, and the
  // stream ends with NoDataFolder(). `working`
  // counts the rows of examples; null: nothing is counted. `observer`, which may be null, is told
  // of malformed ones. `drifts`, which may be null too, watches the sizes. `clock` says when
  // producers may be forgotten; null: it is always 1970. `format` reads examples.
  explicit AppendHandler(DatasetStore* datasets, MemoryBudget* working = nullptr,
                         RpcObserver* observer = nullptr, DatasetDrifts* drifts = nullptr,
                         const Clock* clock = nullptr,
                         const ExampleFormat& format = NoExampleFormat::Default())
      : datasets_(datasets),
        working_(working),
        observer_(observer),
        drifts_(drifts),
        clock_(clock),
        format_(format) {}

  absl::Status Accept(std::unique_ptr<v1::AppendRequest> request) override;
  void HalfClose() override { is_closed_ = true; }
  absl::StatusOr<std::optional<v1::AppendResponse>> Next() override;
  bool MayBlock() const override { return true; }

 private:
  // Sets the stream's data set from the first request; later requests must not change it.
  absl::Status Describe(const v1::AppendRequest& request);
  absl::StatusOr<AppendResult> Append(const std::shared_ptr<const v1::AppendRequest>& request);
  // Cut to fit, if the data set does that.
  absl::StatusOr<AppendResult> AppendChunk(const GraphChunk& chunk,
                                           absl::Span<const uint64_t> group_ids,
                                           const std::optional<ProducerSequence>& producer);
  absl::StatusOr<AppendResult> StoreChunk(const GraphChunk& chunk,
                                          absl::Span<const uint64_t> group_ids,
                                          const std::optional<ProducerSequence>& producer);
  absl::StatusOr<AppendResult> AppendExamples(const v1::AppendRequest& request,
                                              const std::optional<ProducerSequence>& producer);

  DatasetStore* const datasets_;
  MemoryBudget* const working_;
  RpcObserver* const observer_;
  DatasetDrifts* const drifts_;
  const Clock* const clock_;
  const ExampleFormat& format_;
  std::string name_;
  uint64_t id_ = 0;
  // Of the graphs that are sent; null before the first request.
  std::shared_ptr<const GraphSchema> schema_;
  // Set if graphs above `limits_` are cut; the data set's schema is then that of pieces.
  std::shared_ptr<const PieceSchema> pieces_;
  std::vector<uint64_t> limits_;
  // Counts graphs of this stream, with repetitions and malformed examples.
  uint64_t next_id_ = 0;
  // Set with the first examples.
  std::unique_ptr<ExampleReader> examples_;
  // Of the request at work.
  std::vector<LeftOut> left_out_;
  std::optional<ProducerHistory> asked_for_;
  std::optional<v1::AppendResponse> response_;
  bool is_closed_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_APPEND_HANDLER_H_
