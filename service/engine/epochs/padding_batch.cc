#include "service/engine/epochs/padding_batch.h"

#include "service/algorithms/collation/collate.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<BuiltBatch> PaddingBatch(const BatchLayout& layout, bool whole_graphs,
                                        const EpochBounds& bounds) {
  BuiltBatch built;
  PH_ASSIGN_OR_RETURN(built.batch, whole_graphs
                                       ? Collate(layout, {}, bounds.max_batch_bytes, bounds.framing)
                                       : CollateSizes(layout, {}));
  return built;
}

}  // namespace packhouse
