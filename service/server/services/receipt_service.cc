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
#include "service/server/services/job_place.h"
#include "service/server/services/rebuild_source.h"
#include "service/server/services/receipt_plans.h"
#include "service/server/wire/epoch_words.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse::rpc {
namespace {

// What the words name, besides the job, must be allowed too: the request need not name it.
absl::Status CheckRightToTrain(const CallContext& context, const v1::EpochSpec& spec) {
  if (context.authorizer == nullptr) return absl::OkStatus();
  Demand demand;
  demand.right = Right::kTrain;
  demand.kind = spec.has_samples() ? "source graph" : "data set";
  demand.name = spec.has_samples() ? spec.samples().sub_graphs().graph() : spec.dataset();
  return context.authorizer->Check(context.principal(), demand);
}

absl::StatusOr<std::unique_ptr<ResponseSource<RebuildReply>>> Rebuild(
    const v1::RebuildBatchesRequest& request, const DatasetStore& datasets, const EpochKinds* kinds,
    Loader& loader, Jobs& jobs, RequestCall& call) {
  PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs, request.job(), call.headers()));
  if (!request.words().job().empty() || request.words().epoch() != 0) {
    return absl::InvalidArgumentError("words: have no job and no epoch, the request has them");
  }
  const EpochKey key = {request.job(), request.epoch()};
  PH_ASSIGN_OR_RETURN(const Job::Opened opened, job->OpenedNear(key.epoch));
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
  PH_RETURN_IF_ERROR(CheckRightToTrain(call.context(), spec));
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                      OpenEpochRequest(spec, datasets, kinds, call.context().working, memory));
  PH_ASSIGN_OR_RETURN(auto made, loader.Rebuild(std::move(epoch), opened, call.cancellation()));
  std::optional<uint64_t> words_of_epoch;
  if (!is_remembered && !request.has_words()) words_of_epoch = opened.identity.key.epoch;
  return RebuildSource::Open(std::move(made), {request.numbers().begin(), request.numbers().end()},
                             words_of_epoch, Making(call.context().working, call.cancellation()));
}

}  // namespace

ReceiptService::ReceiptService(const CallContext& context, const HistogramStore* histograms,
                               const DatasetStore* datasets, const EpochKinds* kinds,
                               Loader* loader, Jobs* jobs)
    : EarlyService(v1::ReceiptService::service_full_name(), context) {
  Serve({
      Row(Method::kReplan, Waits::kPlans,
          [=](const v1::ReplanRequest& request, RequestCall& call) {
            return request.source_case() == v1::ReplanRequest::SOURCE_NOT_SET
                       ? PlanOfLedger(request, jobs, datasets, call)
                       : PlanAgain(request, *histograms, datasets, call);
          }),
      Row(Method::kRebuildBatches, Waits::kPlans,
          jobs == nullptr ? NoDataFolder() : absl::OkStatus(),
          [=](const v1::RebuildBatchesRequest& request, ProgressSink<RebuildReply>& sink) {
            return Rebuild(request, *datasets, kinds, *loader, *jobs, sink.call());
          }),
  });
}

}  // namespace packhouse::rpc
