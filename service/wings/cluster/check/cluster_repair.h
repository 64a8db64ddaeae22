// Puts right what is wrong with the keys that servers share.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_CLUSTER_REPAIR_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_CLUSTER_REPAIR_H_

#include "absl/status/status.h"
#include "service/base/stored_damage.h"
#include "service/wings/cluster/check/cluster_check.h"

namespace packhouse {

// What calls cannot: counts and marks are put right, and jobs of damaged logs are given up. No
// object is read or deleted but the one that binds the two stores; a sweep deletes those that
// nothing names any more. `cluster` needs no stores, but engines and names.
//
// What else damaged or missing keys cost (data sets, source graphs, partitions, histograms,
// measured models) is given up only with options.accept_missing. Without it: FAILED_PRECONDITION
// naming it, and nothing changes.
//
// FAILED_PRECONDITION if a server runs, naming it, or the two stores are bound to others; NOT_FOUND
// if no server has used them; ABORTED naming a key that somebody has changed meanwhile; errors of
// the stores. What was done before an error stays done, and a later call goes on. Adds what was
// done to `report`. O(keys).
absl::Status RepairCluster(const CheckedCluster& cluster, const RepairOptions& options,
                           RepairReport& report);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_CLUSTER_REPAIR_H_
