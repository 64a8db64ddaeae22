// One call of Tune, from the request to the complete answer.
#ifndef PACKHOUSE_CLIENT_CLI_TUNE_STREAM_H_
#define PACKHOUSE_CLIENT_CLI_TUNE_STREAM_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "packhouse/v1/planning.grpc.pb.h"

namespace packhouse::client {

struct TuneOutcome {
  // The last one; empty if there was none.
  v1::TuneProgress progress;
  std::vector<v1::TuneCell> cells;
  std::vector<v1::TunedShape> frontier;
  v1::TuneRecommendation recommendation;
};

// Calls Tune and waits for the end of its answer. Calls `on_progress`, in this thread, for each
// progress.
//
// Errors: the server's; INTERNAL if the answer ends without a recommendation.
absl::StatusOr<TuneOutcome> RequestTune(
    v1::PlanningService::StubInterface& stub, const v1::TuneRequest& request,
    absl::FunctionRef<void(const v1::TuneProgress&)> on_progress);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_TUNE_STREAM_H_
