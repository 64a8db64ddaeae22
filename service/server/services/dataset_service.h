// DatasetService (proto/packhouse/v1/dataset.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_DATASET_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_DATASET_SERVICE_H_

#include "service/engine/epochs/epoch_catalog.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/services/dataset_drifts.h"
#include "service/server/wire/example_format.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse::rpc {

// Calls that write wait for the disk on the append pool; calls that read run on the call pool.
//
// Data sets of several servers are elsewhere: appends wait for S3 on the append pool; all other
// calls that change something wait for etcd only, and so run on the call pool; histograms come from
// S3, and are read on the planning pool, where a call that waits has no turn. So nothing that waits
// for S3 holds up calls that do not need it. Thread-safe.
class DatasetService final : public EarlyService {
 public:
  // The pointees must outlive the service. Without data sets every call is answered with
  // NoDataFolder(). The catalog, which may be null, is told of deletions. `is_remote`: the data
  // sets are those of several servers. `format`: of examples.
  DatasetService(const CallContext& context, DatasetStore* datasets, EpochCatalog* catalog,
                 bool is_remote, const ExampleFormat& format);

 private:
  DatasetDrifts drifts_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_DATASET_SERVICE_H_
