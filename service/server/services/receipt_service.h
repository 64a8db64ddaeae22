// ReceiptService (proto/packhouse/v1/receipts.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_SERVICE_H_

#include "service/engine/histograms/histogram_store.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/loader.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/wire/epoch_kinds.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse::rpc {

// Plans are made on the planning pool, and batches are built on the stream pool. Thread-safe.
class ReceiptService final : public EarlyService {
 public:
  // The pointees must outlive the service. `datasets`, `loader` and `jobs` may be null together:
  // then what needs them is answered with NoDataFolder(). `kinds` are those of wings.
  ReceiptService(const CallContext& context, const HistogramStore* histograms,
                 const DatasetStore* datasets, const EpochKinds* kinds, Loader* loader, Jobs* jobs);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_RECEIPT_SERVICE_H_
