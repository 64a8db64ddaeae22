// DatasetService (proto/packhouse/v1/dataset.proto).
#ifndef PACKHOUSE_SERVICE_RPC_DATASET_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_DATASET_SERVICE_H_

#include "packhouse/v1/dataset.grpc.pb.h"
#include "service/admission/call_context.h"
#include "service/datasets/dataset_store.h"
#include "service/epochs/epoch_catalog.h"

namespace packhouse::rpc {

using RawDatasetService = v1::DatasetService::WithRawCallbackMethod_CreateDataset<
    v1::DatasetService::WithRawCallbackMethod_Append<
        v1::DatasetService::WithRawCallbackMethod_SealDataset<
            v1::DatasetService::WithRawCallbackMethod_GetDataset<
                v1::DatasetService::WithRawCallbackMethod_ListDatasets<
                    v1::DatasetService::WithRawCallbackMethod_DeleteDataset<
                        v1::DatasetService::WithRawCallbackMethod_VerifyDataset<
                            v1::DatasetService::Service>>>>>>>;

// What writes waits for the disk on the append pool; what reads is on the call pool. Thread-safe.
class DatasetService final : public RawDatasetService {
 public:
  // The pointees must outlive the service. Without data sets every call is answered NoDataFolder().
  // The catalog, which may be null, is told of deletions.
  DatasetService(const CallContext& context, DatasetStore* datasets, EpochCatalog* catalog)
      : context_(context),
        append_context_(context.OnAppendPool()),
        datasets_(datasets),
        catalog_(catalog) {}

  grpc::ServerUnaryReactor* CreateDataset(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Append(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* SealDataset(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetDataset(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListDatasets(grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DeleteDataset(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* VerifyDataset(
      grpc::CallbackServerContext* call, const grpc::ByteBuffer* request) override;

 private:
  const CallContext context_;
  const CallContext append_context_;
  DatasetStore* const datasets_;
  EpochCatalog* const catalog_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_DATASET_SERVICE_H_
