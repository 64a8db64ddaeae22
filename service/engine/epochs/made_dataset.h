// Graphs that the server makes, such as sub-graphs and parts, and that become a data set.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_MADE_DATASET_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_MADE_DATASET_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Makes graphs by their numbers, with the same bytes each time. Thread-compatible.
class GraphMaker {
 public:
  virtual ~GraphMaker() = default;

  virtual const GraphSchema& schema() const = 0;
  virtual uint64_t num_graphs() const = 0;
  // How many graphs an append has; the same each time.
  virtual uint64_t graphs_per_append() const = 0;
  // The graphs [begin, end), with their numbers as ids. The chunk is valid until the next call.
  virtual absl::StatusOr<GraphChunk> Make(uint64_t begin, uint64_t end) = 0;
};

// So that appends have about 4 MiB: `bytes` are those of `num_judged` graphs.
uint64_t GraphsPerAppend(uint64_t num_judged, uint64_t bytes);

struct MadeDatasetRequest {
  std::string dataset;
  uint64_t max_bytes = 0;
  // Of the appends; another one for each kind of maker.
  std::string producer;
};

// Makes all graphs into the data set, which is created and, in the end, sealed. What an earlier
// call with the same maker has appended stays, and the rest follows; calls at the same time do no
// harm. `progress` is called after each append with the number of graphs on the disk.
//
// FAILED_PRECONDITION if the data set has graphs that this maker does not give: its schema, its
// number of graphs, or its first or last graph tell. Errors of the maker and of the store;
// RESOURCE_EXHAUSTED and CANCELLED as `making`.
absl::StatusOr<DatasetInfo> MakeDataset(GraphMaker& maker, const MadeDatasetRequest& request,
                                        DatasetStore& store, const Making& making,
                                        absl::FunctionRef<void(uint64_t num_graphs)> progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_MADE_DATASET_H_
