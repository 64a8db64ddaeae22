// The plan of a receipt, made again or as it was kept.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_PLANS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_PLANS_H_

#include "absl/status/statusor.h"
#include "packhouse/v1/receipts.pb.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/jobs/jobs.h"
#include "service/server/calls/request_call.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Made of the sizes that the request names.
absl::StatusOr<v1::ReplanResponse> PlanAgain(const v1::ReplanRequest& request,
                                             const HistogramStore& histograms,
                                             const DatasetStore* datasets, RequestCall& call);
// As the ledger of a job keeps it, if the caller may see what it is of (Jobs::FindPlan()). `jobs`
// and `datasets` may be null.
absl::StatusOr<v1::ReplanResponse> PlanOfLedger(const v1::ReplanRequest& request, const Jobs* jobs,
                                                const DatasetStore* datasets, RequestCall& call);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_PLANS_H_
