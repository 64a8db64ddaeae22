// Sub-graphs that become a data set.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLED_DATASET_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLED_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"

namespace packhouse {

struct SampledDatasetRequest {
  std::string dataset;
  EpochSeed seed;
  // Checked.
  SeedList seeds;
  uint64_t max_bytes = 0;
  // The most rows of each component of a sub-graph; empty: no bounds.
  std::vector<uint32_t> limits;
  // Otherwise a sub-graph beyond them is an error.
  bool draws_smaller = true;
};

struct SampledDatasetProgress {
  // On the disk, and in all.
  uint64_t num_graphs = 0;
  uint64_t num_graphs_total = 0;
  // Drawn smaller by this call.
  uint64_t num_drawn_smaller = 0;
};

// Draws the sub-graphs of all seeds into the data set, which is created and, in the end, sealed.
// What an earlier call with the same request has appended stays, and the rest follows; calls at the
// same time do no harm. The result depends on the request alone. `progress` is called after each
// append.
//
// FAILED_PRECONDITION if the data set has graphs that this request does not give: its schema, its
// number of graphs, or its first or last graph tell. OUT_OF_RANGE naming the sub-graph that exceeds
// the limits, if it is not to be drawn smaller. Errors of draws, naming the sub-graph, and of the
// store; RESOURCE_EXHAUSTED and CANCELLED as `making`.
absl::StatusOr<DatasetInfo> MakeSampledDataset(
    std::shared_ptr<const SubGraphSource> source, const SampledDatasetRequest& request,
    DatasetStore& store, const Making& making, SamplingObserver* observer,
    absl::FunctionRef<void(const SampledDatasetProgress&)> progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLED_DATASET_H_
