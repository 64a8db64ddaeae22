#include "client/cpp/feedback_client.h"

#include <iterator>

#include "absl/time/clock.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {

absl::StatusOr<uint64_t> FeedbackClient::Report(const v1::ReportRequest& report) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + call_timeout_));
  v1::ReportResponse response;
  const absl::Status status = ToAbslStatus(stub_->Report(&context, report, &response));
  if (!status.ok()) return status;
  return response.num_reports();
}

absl::StatusOr<std::vector<v1::DeviceModel>> FeedbackClient::List() const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + call_timeout_));
  v1::ListModelsResponse response;
  const absl::Status status =
      ToAbslStatus(stub_->ListModels(&context, v1::ListModelsRequest(), &response));
  if (!status.ok()) return status;
  return std::vector<v1::DeviceModel>(std::make_move_iterator(response.mutable_models()->begin()),
                                      std::make_move_iterator(response.mutable_models()->end()));
}

absl::StatusOr<v1::DeviceModel> FeedbackClient::Get(const std::string& model,
                                                    const std::string& device) const {
  v1::GetModelRequest request;
  request.set_model(model);
  request.set_device(device);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + call_timeout_));
  v1::DeviceModel response;
  const absl::Status status = ToAbslStatus(stub_->GetModel(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::Status FeedbackClient::Delete(const std::string& model, const std::string& device) const {
  v1::DeleteModelRequest request;
  request.set_model(model);
  request.set_device(device);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + call_timeout_));
  v1::DeleteModelResponse response;
  return ToAbslStatus(stub_->DeleteModel(&context, request, &response));
}

}  // namespace packhouse::client
