// The responses of DatasetService.ExportDataset and LoaderService.ExportEpoch.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_EXPORT_SOURCE_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_EXPORT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/jobs/evaluation.h"
#include "service/server/calls/response_source.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse {

// Gives the graphs of a data set or of an epoch as examples, about kResponseBytes in each response:
// large enough that a response costs little, small enough to be made in a turn. Called by one
// thread at a time.
class ExportSource final : public ResponseSource<v1::ExportDatasetResponse> {
 public:
  static constexpr size_t kResponseBytes = size_t{1} << 20;

  // `max_response_bytes` bounds a response; `working` (null: nothing is counted) has the memory of
  // the open data set.
  //
  // NOT_FOUND; OUT_OF_RANGE for a first graph beyond the end; FAILED_PRECONDITION for a schema that
  // TF-GNN has no form for; RESOURCE_EXHAUSTED if there is no room. O(graphs of the data set).
  static absl::StatusOr<std::unique_ptr<ExportSource>> Open(const v1::ExportDatasetRequest& request,
                                                            const DatasetStore& datasets,
                                                            size_t max_response_bytes,
                                                            MemoryBudget* working);
  // The same for a pass over the batches of all ranks of an epoch. In segments, those before the
  // first graph are made, too: what they hold is not known otherwise. Waits for them.
  static absl::StatusOr<std::unique_ptr<ExportSource>> OpenEpoch(
      const v1::ExportEpochRequest& request, std::unique_ptr<Evaluation> pass,
      size_t max_response_bytes);

  // RESOURCE_EXHAUSTED naming a graph whose example no response can hold; DATA_LOSS as
  // DatasetReader; FAILED_PRECONDITION naming a graph whose lengths disagree with its values.
  absl::StatusOr<std::optional<v1::ExportDatasetResponse>> Next() override;
  bool IsWaiting() const override { return is_waiting_; }

 private:
  // What is exported.
  struct Graphs {
    MemoryHold memory;
    // Of an epoch: of the batch's graphs; null before the first batch.
    std::shared_ptr<const DatasetReader> reader;
    // Null: the data set's own order. Otherwise the graphs of the batch where it stands, by their
    // places in the reader, and how many of them are before it. More than there are: the rest is to
    // be left out.
    std::unique_ptr<Evaluation> pass;
    std::vector<uint32_t> batch;
    uint64_t next_of_batch = 0;

    absl::string_view name() const;
    const GraphSchema& schema() const;
    uint64_t size() const;
    // The next graph's place in the reader. Requires TakeUp().
    uint64_t place(uint64_t next) const;
    // Takes up the batch of the next graph. False if its segment is being made.
    absl::StatusOr<bool> TakeUp();
    void Advance(uint64_t count) { next_of_batch += count; }
  };

  // `num_graphs` of them (0: all) from place `first` on.
  static absl::StatusOr<std::unique_ptr<ExportSource>> OpenPart(Graphs graphs, uint64_t first,
                                                                uint64_t num_graphs,
                                                                size_t max_response_bytes);

  ExportSource(Graphs graphs, tfgnn::GraphSets sets, uint64_t first, uint64_t end,
               size_t max_response_bytes)
      : graphs_(std::move(graphs)),
        sets_(std::move(sets)),
        encoder_(sets_),
        next_(first),
        end_(end),
        max_response_bytes_(max_response_bytes) {}

  Graphs graphs_;
  const tfgnn::GraphSets sets_;
  tfgnn::ExampleEncoder encoder_;
  // In the order. The epoch stands at this graph.
  uint64_t next_;
  const uint64_t end_;
  const size_t max_response_bytes_;
  bool is_first_ = true;
  bool is_waiting_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_EXPORT_SOURCE_H_
