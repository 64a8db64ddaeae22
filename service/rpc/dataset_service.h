// DatasetService (proto/packhouse/v1/dataset.proto).
#ifndef PACKHOUSE_SERVICE_RPC_DATASET_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_DATASET_SERVICE_H_

#include "service/admission/call_context.h"
#include "service/datasets/dataset_store.h"
#include "service/epochs/epoch_catalog.h"
#include "service/rpc/early_service.h"
#include "service/wire/dataset_drifts.h"

namespace packhouse::rpc {

// Calls that write wait for the disk on the append pool; calls that read run on the call pool.
// Thread-safe.
class DatasetService final : public EarlyService {
 public:
  // The pointees must outlive the service. Without data sets every call is answered with
  // NoDataFolder(). The catalog, which may be null, is told of deletions.
  DatasetService(const CallContext& context, DatasetStore* datasets, EpochCatalog* catalog);

 private:
  CallReactor* CreateDataset(grpc::CallbackServerContext* call);
  CallReactor* Append(grpc::CallbackServerContext* call);
  CallReactor* SealDataset(grpc::CallbackServerContext* call);
  CallReactor* GetDataset(grpc::CallbackServerContext* call);
  CallReactor* ListDatasets(grpc::CallbackServerContext* call);
  CallReactor* DeleteDataset(grpc::CallbackServerContext* call);
  CallReactor* VerifyDataset(grpc::CallbackServerContext* call);
  CallReactor* ExportDataset(grpc::CallbackServerContext* call);

  const CallContext context_;
  const CallContext append_context_;
  DatasetStore* const datasets_;
  EpochCatalog* const catalog_;
  DatasetDrifts drifts_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_DATASET_SERVICE_H_
