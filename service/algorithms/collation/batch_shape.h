// The shape of a batch, from the client's request and the server's bounds.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_SHAPE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_layout.h"
#include "service/algorithms/collation/min_rows.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

struct BatchShapeOptions {
  Padding padding = Padding::kNone;
  DerivedTensors derived;
  // False: batches have no tensors, only ids and sizes.
  bool whole_graphs = true;
  // For up to kUsualComponents components; see MostGraphs().
  uint64_t max_graphs_per_batch = 65536;
  uint64_t max_batch_bytes = uint64_t{48} << 20;
  // Only with kTfgnn.
  MinRows min_rows;
  IntegerWidth integer_width = IntegerWidth::kDeclared;
};

// The most graphs of a batch if graphs have many components: the bound is for kUsualComponents, and
// with more the ids and sizes of all graphs still take no more bytes.
inline constexpr size_t kUsualComponents = 16;
uint64_t MostGraphs(uint64_t max_graphs_per_batch, size_t num_components);

// Immutable; thread-safe.
struct BatchShape {
  // Per component, `graphs` last; kUnlimited where there is none.
  std::vector<uint64_t> capacities;
  // The most real rows: capacities minus what the padding keeps free.
  Limits usable;
  // The same for packed sizes (min_rows.h), which decide what fits. Without minimums it is
  // `usable`.
  Limits packed;
  BatchLayout layout;

  // `capacities` are the requested ones. `graphs` is lowered to MostGraphs(), and a
  // component without a limit to what the dtypes of index tensors can number. `schema` must outlive
  // the shape.
  //
  // INVALID_ARGUMENT as Limits and BatchLayout, naming the component, for a wrong number of
  // capacities, for a capacity that is missing although there is padding (see NeedsCapacity), and
  // if what is padded of a batch would exceed max_batch_bytes.
  static absl::StatusOr<BatchShape> Resolve(const GraphSchema& schema,
                                            const std::vector<uint64_t>& capacities,
                                            const BatchShapeOptions& options);

  // The most rows of component k that one graph may have.
  uint64_t LargestGraph(size_t k) const;

  // Whether a batch with this many real rows per component (`graphs` last) fits this shape.
  bool Takes(absl::Span<const uint64_t> real_rows) const;
};

// The profile with which limits of padded batches are searched. It has the rows of each component
// that `padding` keeps free. It also has a bound for `graphs`, since a padded batch needs one: if
// the profile has none, the fullest pack decides. The bound is never above MostGraphs().
//
// INVALID_ARGUMENT naming a component that needs max_rows for padding and has none, or has more
// than a padded batch may have.
absl::StatusOr<DeviceProfile> ProfileForPadding(DeviceProfile profile, const GraphSchema& schema,
                                                Padding padding, uint64_t max_graphs_per_batch);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_SHAPE_H_
