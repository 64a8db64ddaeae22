// The sizes of some sub-graphs, for limits and plans.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SIZE_ESTIMATE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SIZE_ESTIMATE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/making.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"

namespace packhouse {

struct SizeEstimate {
  static constexpr uint64_t kMaxGraphs = 65536;

  // Its memory is held as long as this lives.
  MemoryHold memory;
  SizeHistogram histogram;
  // That were chosen from.
  uint64_t num_seeds = 0;
  uint64_t num_graphs = 0;
  // Of all tensors of a sub-graph; 0 without sub-graphs.
  double mean_bytes = 0;
};

// Draws `num_graphs` sub-graphs, structure only, of seeds that are chosen at random, each at most
// once; fewer if there are fewer. Depends on the arguments alone. `seeds` were checked.
//
// INVALID_ARGUMENT for more than kMaxGraphs, or for times of sub-graphs with several seeds; errors
// of draws, naming the seed; RESOURCE_EXHAUSTED and CANCELLED as `making`. Cost: the draws.
absl::StatusOr<SizeEstimate> EstimateSizes(std::shared_ptr<const SubGraphSource> source,
                                           const SeedList& seeds, const EpochSeed& seed,
                                           uint64_t num_graphs, const Making& making,
                                           SamplingObserver* observer);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SIZE_ESTIMATE_H_
