// First step of a plan: checks whether a data set can be loaded as a request asks.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_REQUEST_CHECK_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_REQUEST_CHECK_H_

#include "absl/status/status.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// INVALID_ARGUMENT for a number of rank groups, shapes or ranks that no epoch can have, naming the
// value, and as CheckCostOrder().
absl::Status CheckRankGroups(const EpochRequest& request);

// The checks that need no graph.
//
// Errors: FAILED_PRECONDITION if the data set is not sealed, has more than ItemSizes::kMaxItems
// graphs without being taken in segments, or is not grouped as the request needs; INVALID_ARGUMENT
// for options that exclude each other (EngineRules()), and as CheckRankGroups().
absl::Status CheckRequest(const EpochRequest& request, const DatasetInfo& dataset);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_REQUEST_CHECK_H_
