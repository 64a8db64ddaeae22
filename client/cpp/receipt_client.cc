#include "client/cpp/receipt_client.h"

#include "packhouse/v1/receipts.grpc.pb.h"

namespace packhouse::client {

absl::StatusOr<v1::ReplanResponse> ReceiptClient::Replan(const v1::ReplanRequest& request) const {
  return Call(safely_, &v1::ReceiptService::Stub::Replan, request);
}

absl::Status ReceiptClient::RebuildBatches(
    const v1::RebuildBatchesRequest& request,
    absl::FunctionRef<absl::Status(const v1::RebuildBatchesResponse&)> take) const {
  absl::Status taken;
  const absl::Status status = once_(
      [&](const auto& channel, auto& context) {
        const auto reader = v1::ReceiptService::Stub(channel).RebuildBatches(&context, request);
        v1::RebuildBatchesResponse response;
        while (taken.ok() && reader->Read(&response)) taken = take(response);
        if (!taken.ok()) context.TryCancel();
        return reader->Finish();
      },
      nullptr);
  return taken.ok() ? status : taken;
}

}  // namespace packhouse::client
