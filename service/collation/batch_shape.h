// The shape of a batch, from what a client asks for and what a server can give.
#ifndef PACKHOUSE_SERVICE_COLLATION_BATCH_SHAPE_H_
#define PACKHOUSE_SERVICE_COLLATION_BATCH_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/collation/batch_layout.h"
#include "service/graphs/graph_schema.h"
#include "service/planning/device_profile.h"
#include "service/planning/limits.h"

namespace packhouse {

struct BatchShapeOptions {
  Padding padding = Padding::kNone;
  DerivedTensors derived;
  // False: batches have no tensors, only ids and sizes.
  bool whole_graphs = true;
  uint64_t max_graphs_per_batch = 65536;
  uint64_t max_batch_bytes = uint64_t{48} << 20;
};

// Immutable; thread-safe.
struct BatchShape {
  // Per component, `graphs` last; kUnlimited where there is none.
  std::vector<uint64_t> capacities;
  // Most real rows: capacities less what the padding keeps free.
  Limits usable;
  BatchLayout layout;

  // `capacities` as asked for; `graphs` is lowered to max_graphs_per_batch, and a component without
  // a limit to what the dtypes of index tensors can number. `schema` must outlive the shape.
  //
  // INVALID_ARGUMENT as Limits and BatchLayout, naming the component, for a wrong number of
  // capacities, for one that is missing with padding, and if a padded batch would exceed
  // max_batch_bytes.
  static absl::StatusOr<BatchShape> Resolve(const GraphSchema& schema,
                                            const std::vector<uint64_t>& capacities,
                                            const BatchShapeOptions& options);

  // Whether a batch with so many real rows per component (`graphs` last) has this shape's limits.
  bool Takes(absl::Span<const uint64_t> real_rows) const;
};

// A device's profile as the search for limits of padded batches must know it: with what `padding`
// keeps free of each component, and with a bound for `graphs`, which a padded batch must have: the
// fullest pack decides if the profile has none, and it is never above max_graphs_per_batch.
//
// INVALID_ARGUMENT naming a component without max_rows that padding needs, or with more than a
// padded batch may have.
absl::StatusOr<DeviceProfile> ProfileForPadding(DeviceProfile profile, const GraphSchema& schema,
                                                Padding padding, uint64_t max_graphs_per_batch);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_COLLATION_BATCH_SHAPE_H_
