#include "client/cpp/receipt_client.h"

#include "packhouse/v1/receipts.grpc.pb.h"

namespace packhouse::client {

absl::StatusOr<v1::ReplanResponse> ReceiptClient::Replan(const v1::ReplanRequest& request) const {
  v1::ReplanResponse response;
  const absl::Status status = calls_.Call(
      [&](const auto& channel, auto& context) {
        return v1::ReceiptService::NewStub(channel)->Replan(&context, request, &response);
      },
      JobCalls::Repeat::kSafe);
  if (!status.ok()) return status;
  return response;
}

absl::Status ReceiptClient::RebuildBatches(
    const v1::RebuildBatchesRequest& request,
    absl::FunctionRef<absl::Status(const v1::RebuildBatchesResponse&)> take) const {
  absl::Status taken;
  const absl::Status status = calls_.Call([&](const auto& channel, auto& context) {
    const auto stub = v1::ReceiptService::NewStub(channel);
    const auto reader = stub->RebuildBatches(&context, request);
    v1::RebuildBatchesResponse response;
    while (taken.ok() && reader->Read(&response)) taken = take(response);
    if (!taken.ok()) context.TryCancel();
    return reader->Finish();
  });
  return taken.ok() ? status : taken;
}

}  // namespace packhouse::client
