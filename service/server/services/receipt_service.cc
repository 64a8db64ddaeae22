#include "service/server/services/receipt_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/planning_call.h"
#include "service/server/calls_grpc/server_streaming_call.h"
#include "service/server/services/job_place.h"
#include "service/server/services/rebuild_source.h"
#include "service/server/services/receipt_plans.h"
#include "service/server/wire/epoch_words.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse::rpc {
namespace {

// What the words name, besides the job, must be allowed too: the request need not name it.
absl::Status CheckRightToTrain(const CallContext& context, const Principal& principal,
                               const v1::EpochSpec& spec) {
  if (context.authorizer == nullptr) return absl::OkStatus();
  Demand demand;
  demand.right = Right::kTrain;
  demand.kind = spec.has_samples() ? "source graph" : "data set";
  demand.name = spec.has_samples() ? spec.samples().sub_graphs().graph() : spec.dataset();
  return context.authorizer->Check(principal, demand);
}

absl::StatusOr<std::unique_ptr<ResponseSource<RebuildReply>>> Rebuild(
    const v1::RebuildBatchesRequest& request, const DatasetStore& datasets, const EpochKinds* kinds,
    Loader& loader, const Job& job, const CallContext& context, const Principal& principal,
    const GivenUp& given_up, const Making& making) {
  if (!request.words().job().empty() || request.words().epoch() != 0) {
    return absl::InvalidArgumentError("words: have no job and no epoch, the request has them");
  }
  const EpochKey key = {request.job(), request.epoch()};
  PH_ASSIGN_OR_RETURN(const Job::Opened opened, job.OpenedNear(key.epoch));
  const bool is_remembered = opened.identity.key == key;
  v1::EpochSpec spec = request.words();
  if (request.has_words()) {
    spec.set_job(key.job);
    spec.set_epoch(key.epoch);
  } else if (opened.words.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "epoch ", opened.identity.key.epoch, " of job ", Quoted(key.job),
        ": its words are not kept (they take more than ", kMaxWordsBytes, " bytes): give them"));
  } else {
    PH_ASSIGN_OR_RETURN(spec, SpecOfWords(opened.words, key));
  }
  PH_RETURN_IF_ERROR(CheckRightToTrain(context, principal, spec));
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                      OpenEpochRequest(spec, datasets, kinds, context.working, memory));
  PH_ASSIGN_OR_RETURN(auto made, loader.Rebuild(std::move(epoch), opened, given_up));
  std::optional<uint64_t> words_of_epoch;
  if (!is_remembered && !request.has_words()) words_of_epoch = opened.identity.key.epoch;
  return RebuildSource::Open(std::move(made), {request.numbers().begin(), request.numbers().end()},
                             words_of_epoch, making);
}

}  // namespace

ReceiptService::ReceiptService(const CallContext& context, const HistogramStore* histograms,
                               const DatasetStore* datasets, const EpochKinds* kinds,
                               Loader* loader, Jobs* jobs)
    : EarlyService(v1::ReceiptService::service_full_name()),
      context_(context),
      histograms_(histograms),
      datasets_(datasets),
      kinds_(kinds),
      loader_(loader),
      jobs_(jobs) {
  Serve("Replan", &ReceiptService::Replan);
  Serve("RebuildBatches", &ReceiptService::RebuildBatches);
}

CallReactor* ReceiptService::Replan(grpc::CallbackServerContext* call) {
  // Until the answer is sent.
  auto answer = std::make_shared<MemoryHold>();
  // A caller who is nobody is refused before this is used.
  const Principal principal = context_.PrincipalOf(CredentialsOf(*call)).value_or(Principal());
  return PlanningCall<v1::ReplanRequest, v1::ReplanResponse>::Start(
      context_, *call, Method::kPlan,
      [this, answer, principal](const v1::ReplanRequest& parsed,
                                PlanningTurn& turn) -> absl::StatusOr<v1::ReplanResponse> {
        if (parsed.source_case() != v1::ReplanRequest::SOURCE_NOT_SET) {
          return PlanAgain(parsed, *histograms_, datasets_, context_, turn, *answer);
        }
        return PlanOfLedger(parsed, jobs_, datasets_, context_, principal, turn, *answer);
      });
}

CallReactor* ReceiptService::RebuildBatches(grpc::CallbackServerContext* call) {
  const Principal principal = context_.PrincipalOf(CredentialsOf(*call)).value_or(Principal());
  return ServerStreamingCall<v1::RebuildBatchesRequest, RebuildReply>::Start(
      context_, *call, Method::kLoad,
      [this, call, principal](const v1::RebuildBatchesRequest& parsed,
                              ProgressSink<RebuildReply>& sink)
          -> absl::StatusOr<std::unique_ptr<ResponseSource<RebuildReply>>> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs_, parsed.job(), call));
        const GivenUp given_up([&sink] { return sink.given_up(); },
                               [&sink] { return sink.given_up_while_waiting(); });
        return Rebuild(parsed, *datasets_, kinds_, *loader_, *job, context_, principal, given_up,
                       Making(context_.working, [&sink] { return sink.given_up(); }));
      });
}

}  // namespace packhouse::rpc
