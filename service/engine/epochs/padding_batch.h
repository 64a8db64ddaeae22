// Batches of padding only.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PADDING_BATCH_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PADDING_BATCH_H_

#include "absl/status/statusor.h"
#include "service/algorithms/collation/batch_layout.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"

namespace packhouse {

// As LoadableEpoch::BuildPadding(). Without `whole_graphs` it has no tensors.
absl::StatusOr<BuiltBatch> PaddingBatch(const BatchLayout& layout, bool whole_graphs,
                                        const EpochBounds& bounds);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PADDING_BATCH_H_
