#include "client/cli/tune_stream.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "client/cli/arguments.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {

absl::StatusOr<TuneOutcome> RequestTune(
    v1::PlanningService::StubInterface& stub, const v1::TuneRequest& request,
    absl::FunctionRef<void(const v1::TuneProgress&)> on_progress) {
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  const auto reader = stub.Tune(&context, request);
  TuneOutcome outcome;
  bool recommended = false;
  v1::TuneResponse response;
  while (reader->Read(&response)) {
    switch (response.event_case()) {
      case v1::TuneResponse::kProgress:
        outcome.progress = std::move(*response.mutable_progress());
        on_progress(outcome.progress);
        break;
      case v1::TuneResponse::kCell:
        outcome.cells.push_back(std::move(*response.mutable_cell()));
        break;
      case v1::TuneResponse::kFrontier:
        outcome.frontier.push_back(std::move(*response.mutable_frontier()));
        break;
      case v1::TuneResponse::kRecommendation:
        outcome.recommendation = std::move(*response.mutable_recommendation());
        recommended = true;
        break;
      case v1::TuneResponse::EVENT_NOT_SET:
        // An event of a newer server.
        break;
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return ToAbslStatus(status);
  if (!recommended || outcome.recommendation.shapes().empty()) {
    return absl::InternalError("the server's answer ended without a recommendation");
  }
  return outcome;
}

}  // namespace packhouse::client
