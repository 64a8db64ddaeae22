#include "client/cpp/receipt_client.h"

#include "absl/time/clock.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {

absl::StatusOr<v1::ReplanResponse> ReceiptClient::Replan(const v1::ReplanRequest& request) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + call_timeout_));
  v1::ReplanResponse response;
  const absl::Status status = ToAbslStatus(stub_->Replan(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::Status ReceiptClient::RebuildBatches(
    const v1::RebuildBatchesRequest& request,
    absl::FunctionRef<absl::Status(const v1::RebuildBatchesResponse&)> take) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + call_timeout_));
  const auto reader = stub_->RebuildBatches(&context, request);
  v1::RebuildBatchesResponse response;
  absl::Status taken;
  while (taken.ok() && reader->Read(&response)) taken = take(response);
  if (!taken.ok()) context.TryCancel();
  const absl::Status status = ToAbslStatus(reader->Finish());
  return taken.ok() ? status : taken;
}

}  // namespace packhouse::client
