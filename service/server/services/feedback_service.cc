#include "service/server/services/feedback_service.h"

#include "absl/strings/str_cat.h"
#include "packhouse/v1/feedback.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/server/wire/wire_feedback.h"

namespace packhouse::rpc {
namespace {

absl::StatusOr<v1::ReportResponse> TakeReport(const v1::ReportRequest& request,
                                              FeedbackStore& feedback, const CallContext& context) {
  PH_ASSIGN_OR_RETURN(const FeedbackReport report, FeedbackReportFromWire(request));
  PH_ASSIGN_OR_RETURN(
      const uint64_t num_reports,
      feedback.Report(report.key, report.components, report.observations, context.clock->Now()));
  for (const BatchObservation& observation : report.observations) {
    if (!observation.out_of_memory || context.log.failures == nullptr) continue;
    std::string shape;
    for (size_t k = 0; k < report.components.size(); ++k) {
      absl::StrAppend(&shape, k == 0 ? "" : ", ", report.components[k], " ",
                      observation.capacities[k]);
    }
    context.log.failures->Log("device out of memory", LogLevel::kWarning, "device out of memory",
                              {{"model", report.key.model},
                               {"device", report.key.device},
                               {"job", request.job().substr(0, 128)},
                               {"rank_group", request.rank_group()},
                               {"shape", shape},
                               {"batches", observation.num_batches}});
  }
  v1::ReportResponse response;
  response.set_num_reports(num_reports);
  return response;
}

v1::DeviceModel Described(const FeedbackKey& key, const KeptFeedback& kept,
                          const FeedbackStore& feedback, bool with_shapes) {
  const std::shared_ptr<const MeasuredModel> model = feedback.ModelOf(key);
  v1::DeviceModel wire;
  DeviceModelToWire(key, kept, model == nullptr ? MeasuredModel() : *model, with_shapes, wire);
  return wire;
}

absl::StatusOr<v1::DeviceModel> DescribedModel(const FeedbackKey& key,
                                               const FeedbackStore& feedback) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  PH_ASSIGN_OR_RETURN(const KeptFeedback kept, feedback.Get(key));
  return Described(key, kept, feedback, /*with_shapes=*/true);
}

absl::StatusOr<v1::ListModelsResponse> List(const FeedbackStore& feedback,
                                            const CallContext& context) {
  v1::ListModelsResponse response;
  PH_ASSIGN_OR_RETURN(const auto all, feedback.All());
  for (const auto& [key, kept] : all) {
    if (context.authorizer == nullptr ||
        context.authorizer->MaySee(context.principal(), key.model)) {
      *response.add_models() = Described(key, kept, feedback, /*with_shapes=*/false);
    }
  }
  return response;
}

absl::StatusOr<v1::DeleteModelResponse> Delete(const v1::DeleteModelRequest& request,
                                               FeedbackStore& feedback,
                                               const CallContext& context) {
  const FeedbackKey key = {request.model(), request.device()};
  PH_RETURN_IF_ERROR(feedback.Delete(key));
  LogDeletion(context.log, context.client, "measured model",
              absl::StrCat(key.model, "/", key.device));
  return v1::DeleteModelResponse();
}

}  // namespace

FeedbackService::FeedbackService(const CallContext& context, FeedbackStore* feedback)
    : EarlyService(v1::FeedbackService::service_full_name(), context) {
  Serve({
      Row(Method::kReport, Waits::kStore,
          [feedback](const v1::ReportRequest& request, RequestCall& call) {
            return TakeReport(request, *feedback, call.context());
          }),
      Row(Method::kGetModel, Waits::kTurns,
          [feedback](const v1::GetModelRequest& request, RequestCall& /*call*/) {
            return DescribedModel({request.model(), request.device()}, *feedback);
          }),
      Row(Method::kListModels, Waits::kTurns,
          [feedback](const v1::ListModelsRequest& /*request*/, RequestCall& call) {
            return List(*feedback, call.context());
          }),
      Row(Method::kDeleteModel, Waits::kStore,
          [feedback](const v1::DeleteModelRequest& request, RequestCall& call) {
            return Delete(request, *feedback, call.context());
          }),
  });
}

}  // namespace packhouse::rpc
