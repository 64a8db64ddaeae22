// The responses of DatasetService.ExportDataset.
#ifndef PACKHOUSE_SERVICE_WIRE_EXPORT_SOURCE_H_
#define PACKHOUSE_SERVICE_WIRE_EXPORT_SOURCE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "packhouse/v1/dataset.pb.h"
#include "service/admission/memory_budget.h"
#include "service/datasets/dataset_store.h"
#include "service/tfgnn/example_encoder.h"
#include "service/tfgnn/graph_sets.h"
#include "service/wire/response_source.h"

namespace packhouse {

// Gives the graphs of a data set as examples, about kResponseBytes in each response: large enough
// that a response costs little, small enough to be made in a turn. Called by one thread at a time.
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

  // RESOURCE_EXHAUSTED naming a graph whose example no response can hold; DATA_LOSS as
  // DatasetReader; FAILED_PRECONDITION naming a graph whose lengths disagree with its values.
  absl::StatusOr<std::optional<v1::ExportDatasetResponse>> Next() override;

 private:
  ExportSource(MemoryHold memory, std::shared_ptr<const DatasetReader> reader,
               tfgnn::GraphSets sets, size_t first, size_t end, size_t max_response_bytes)
      : memory_(std::move(memory)),
        reader_(std::move(reader)),
        sets_(std::move(sets)),
        encoder_(sets_),
        next_(first),
        end_(end),
        max_response_bytes_(max_response_bytes) {}

  const MemoryHold memory_;
  const std::shared_ptr<const DatasetReader> reader_;
  const tfgnn::GraphSets sets_;
  tfgnn::ExampleEncoder encoder_;
  size_t next_;
  const size_t end_;
  const size_t max_response_bytes_;
  bool is_first_ = true;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_EXPORT_SOURCE_H_
