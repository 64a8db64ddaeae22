#include "service/engine/epochs/padding_batch.h"

#include "service/algorithms/collation/collate.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<BuiltBatch> PaddingBatch(absl::Span<const BatchShape> shapes, bool whole_graphs,
                                        const EpochBounds& bounds) {
  BuiltBatch built;
  built.shape = shapes.size() - 1;
  const BatchLayout& layout = shapes.back().layout;
  PH_ASSIGN_OR_RETURN(built.batch, whole_graphs
                                       ? Collate(layout, {}, bounds.max_batch_bytes, bounds.framing)
                                       : CollateSizes(layout, {}));
  return built;
}

}  // namespace packhouse
