#include "client/cpp/feedback_client.h"

#include <iterator>

namespace packhouse::client {

absl::StatusOr<uint64_t> FeedbackClient::Report(const v1::ReportRequest& report) const {
  const auto response = Call(once_, &Stub::Report, report);
  if (!response.ok()) return response.status();
  return response->num_reports();
}

absl::StatusOr<std::vector<v1::DeviceModel>> FeedbackClient::List() const {
  auto response = Call(once_, &Stub::ListModels, v1::ListModelsRequest());
  if (!response.ok()) return response.status();
  return std::vector<v1::DeviceModel>(std::make_move_iterator(response->mutable_models()->begin()),
                                      std::make_move_iterator(response->mutable_models()->end()));
}

absl::StatusOr<v1::DeviceModel> FeedbackClient::Get(const std::string& model,
                                                    const std::string& device) const {
  v1::GetModelRequest request;
  request.set_model(model);
  request.set_device(device);
  return Call(once_, &Stub::GetModel, request);
}

absl::Status FeedbackClient::Delete(const std::string& model, const std::string& device) const {
  v1::DeleteModelRequest request;
  request.set_model(model);
  request.set_device(device);
  return Call(once_, &Stub::DeleteModel, request).status();
}

}  // namespace packhouse::client
