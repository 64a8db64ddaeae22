// Mixtures: several sealed data sets, read as if they were one.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_MIXED_DATASETS_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_MIXED_DATASETS_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/memory_budget.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/forwarding_dataset_store.h"

namespace packhouse {

// Of a mixture's graphs, where they have tensors: int32, one number a graph, that of its data set
// in the mixture's name, from 0.
inline constexpr absl::string_view kMixtureTensor = "dataset";

// The other store, which can also get and read mixtures (mixture_name.h). Nothing is stored of a
// mixture: it is there as long as all its data sets are, and what is refused for a name that no
// data set can have is refused for it.
//
// A mixture has the graphs of its first data set, then those of the next, each with its own id: ids
// may repeat. All have the components and tensors of the data set that has most, and
// kMixtureTensor. In graphs of others, a component that they lack has no rows, and a tensor that
// they lack is filled with its padding value. A mixture has no groups. Its version changes with
// those of its data sets.
//
// Errors of the functions that read, for a mixture: NOT_FOUND for a missing data set;
// FAILED_PRECONDITION for one that is not sealed; INVALID_ARGUMENT, naming them and what differs,
// for more than kMaxMixedDatasets, for one that occurs twice, or unless one has all components and
// tensors of each other. An index tensor cannot be filled, and no data set may have a tensor of the
// name kMixtureTensor.
//
// Thread-safe.
class MixedDatasets final : public ForwardingDatasetStore {
 public:
  // `store` and `memory` must outlive this and all readers. Readers of mixtures reserve from
  // `memory` what they take besides BytesOfReader() of the mixture; null: nothing is reserved.
  MixedDatasets(DatasetStore* store, MemoryBudget* memory)
      : ForwardingDatasetStore(store), memory_(memory) {}

  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override;
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override;
  absl::StatusOr<SizeHistogram> GetReservedHistogram(
      absl::string_view name,
      absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const override;
  // RESOURCE_EXHAUSTED as MemoryBudget::Hold.
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override;
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override;

 private:
  MemoryBudget* const memory_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_MIXED_DATASETS_H_
