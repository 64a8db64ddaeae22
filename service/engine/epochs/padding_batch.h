// Batches of padding only.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PADDING_BATCH_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PADDING_BATCH_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"

namespace packhouse {

// As LoadableEpoch::BuildPadding(), of the last of these shapes: it costs least. Without
// `whole_graphs` it has no tensors.
absl::StatusOr<BuiltBatch> PaddingBatch(absl::Span<const BatchShape> shapes, bool whole_graphs,
                                        const EpochBounds& bounds);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PADDING_BATCH_H_
