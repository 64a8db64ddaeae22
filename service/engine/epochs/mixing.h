// From a request to the exchanges of its epochs (fresh_batches.h).
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_MIXING_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_MIXING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/fresh_batches.h"

namespace packhouse {

// How the epochs of the request are mixed; nullopt if they are not. `shapes`, which must outlive
// the result, are those of its batches, and no batch gets more than `max_batch_bytes` by it.
std::optional<FreshBatchesOptions> MixingFor(const EpochRequest& request, const EpochShapes& shapes,
                                             uint64_t max_batch_bytes);

// The words of a mixed epoch (EpochRequest::Words()), and whether an epoch has them.
std::string MixingWords(double most_company);
bool IsMixed(const EpochIdentity& identity);

// An epoch that was begun without mixing goes on without it, unless the request says otherwise.
void KeepMixing(const EpochIdentity& begun, EpochRequest& request);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_MIXING_H_
