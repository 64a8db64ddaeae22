// The plan of a receipt, made again or as it was kept.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_PLANS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_PLANS_H_

#include "absl/status/statusor.h"
#include "packhouse/v1/receipts.pb.h"
#include "service/access/planning_pool.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/jobs/jobs.h"
#include "service/server/calls/call_context.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Made of the sizes that the request names. `answer` is for as long as the response lives.
absl::StatusOr<v1::ReplanResponse> PlanAgain(const v1::ReplanRequest& request,
                                             const HistogramStore& histograms,
                                             const DatasetStore* datasets,
                                             const CallContext& context, PlanningTurn& turn,
                                             MemoryHold& answer);
// As the ledger of a job keeps it, if `principal` may see what it is of (Jobs::FindPlan()). `jobs`
// and `datasets` may be null.
absl::StatusOr<v1::ReplanResponse> PlanOfLedger(const v1::ReplanRequest& request, const Jobs* jobs,
                                                const DatasetStore* datasets,
                                                const CallContext& context,
                                                const Principal& principal, PlanningTurn& turn,
                                                MemoryHold& answer);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_PLANS_H_
