#include "service/server/services/loader_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "service/access/policy.h"
#include "service/base/mixture_name.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/services/job_lists.h"
#include "service/server/services/lane_source.h"
#include "service/server/wire/epoch_words.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_memory.h"

namespace packhouse::rpc {
namespace {

using Source = ResponseSource<LoadReply>;

// Of a job that is asked for.
constexpr size_t kMaxShownEpochs = 10'000;

// `cursor`: the request's, without its signature.
absl::StatusOr<std::unique_ptr<LoadSession>> Join(const v1::LoadRequest& request,
                                                  absl::string_view cursor, EpochRequest epoch,
                                                  Loader& loader, std::shared_ptr<Job> job,
                                                  RequestCall& call) {
  PH_ASSIGN_OR_RETURN(JoinRequest join, JoinRequestFromWire(request, epoch, cursor));
  PH_ASSIGN_OR_RETURN(const size_t max_in_flight, MaxInFlightFromWire(request.max_in_flight()));
  join.words = WordsOf(request.epoch());
  join.client = call.context().client;
  join.now = call.context().clock->Now();
  return loader.StartLoad(std::move(job), std::move(epoch), std::move(join), max_in_flight,
                          call.Waker(), call.cancellation());
}

absl::StatusOr<v1::AcknowledgeResponse> Acknowledged(const v1::AcknowledgeRequest& request,
                                                     Job& job, const TextSigner* signer,
                                                     absl::Time now) {
  if (request.batches().size() > static_cast<int>(kMaxAcknowledged)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batches: ", request.batches().size(), ", at most ", kMaxAcknowledged));
  }
  const std::vector<uint64_t> batches(request.batches().begin(), request.batches().end());
  PH_ASSIGN_OR_RETURN(
      AcknowledgeResult result,
      job.Acknowledge(request.epoch(), request.session(), request.generation(), batches, now));
  v1::AcknowledgeResponse response;
  response.set_num_new(result.num_new);
  response.set_cursor(SignedCursor(signer, std::move(result.cursor)));
  return response;
}

absl::Status ReadSharer(const v1::GetEpochRequest& request, const EpochRequest& epoch,
                        const CallContext& context, Loader::Sharer& sharer) {
  v1::LoadRequest load;
  load.set_attempt(request.attempt());
  load.set_cursor(request.cursor());
  if (request.has_generation()) load.set_generation(request.generation());
  if (request.has_ranked()) *load.mutable_ranked() = request.ranked();
  if (request.has_dynamic()) *load.mutable_dynamic() = request.dynamic();
  if (request.has_evaluation()) {
    *load.mutable_evaluation() = request.evaluation();
    PH_ASSIGN_OR_RETURN(sharer.evaluation, EvaluationFromWire(load, epoch));
    return absl::OkStatus();
  }
  if (load.ByteSizeLong() == 0) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const std::string cursor, CursorFromClient(context, load.cursor()));
  PH_ASSIGN_OR_RETURN(sharer.worker, JoinRequestFromWire(load, epoch, cursor));
  return absl::OkStatus();
}

// With a lane, if the request asks for one. `session`: whom `source` serves; null for evaluations.
std::unique_ptr<Source> WithLane(const v1::LoadRequest& request, const LoadableEpoch& epoch,
                                 std::unique_ptr<Source> source, LoadSession* session,
                                 LaneDoor* door, RequestCall& call) {
  if (!request.lane()) return source;
  auto lane = OfferLane(epoch, door, call.Waker());
  if (lane.ok()) {
    call.context().ListLane((*lane)->open_flag());
    if (session != nullptr) session->ListSharing((*lane)->open_flag());
  }
  return std::make_unique<LaneSource>(std::move(source), std::move(lane), door, epoch.schema(),
                                      call.context().clock, call.Waker());
}

absl::StatusOr<v1::ReportStepResponse> Reported(const v1::ReportStepRequest& request, Job& job,
                                                const TextSigner* signer) {
  PH_ASSIGN_OR_RETURN(std::string cursor,
                      job.CursorAtStep(request.epoch(), request.generation(), request.steps()));
  v1::ReportStepResponse response;
  response.set_cursor(SignedCursor(signer, std::move(cursor)));
  return response;
}

absl::StatusOr<v1::DeleteJobResponse> Deleted(const v1::DeleteJobRequest& request, Job& job,
                                              const CallContext& context) {
  PH_RETURN_IF_ERROR(job.Forget());
  LogDeletion(context.log, context.client, "job", request.job());
  return v1::DeleteJobResponse();
}

absl::StatusOr<v1::Job> Shown(const Job& job, const std::string& owner) {
  PH_ASSIGN_OR_RETURN(JobSummary summary, job.Summary(kMaxShownEpochs));
  summary.owner = owner;
  v1::Job wire;
  JobToWire(summary, wire);
  return wire;
}

}  // namespace

LoaderService::LoaderService(const CallContext& context, const DatasetStore* datasets,
                             const EpochKinds* kinds, Loader* loader, Jobs* jobs,
                             PackObserverFactory* observers, const MeasuredModels* measured,
                             LaneDoor* lanes, const ExampleFormat& format)
    : EarlyService(v1::LoaderService::service_full_name(), context),
      datasets_(datasets),
      kinds_(kinds),
      loader_(loader),
      jobs_(jobs),
      observers_(observers),
      timer_(std::make_shared<LeaseTimer>(context.clock, context.stream_pool, jobs)),
      measured_(measured),
      lanes_(lanes),
      format_(format),
      retention_(std::make_shared<RetentionTimer>(
          context.clock, context.append_pool, jobs,
          jobs == nullptr ? absl::InfiniteDuration() : jobs->epoch_retention())) {
  retention_->Start();
  const absl::Status lacks = jobs == nullptr ? NoDataFolder() : absl::OkStatus();
  Serve({
      Row(Method::kLoad, Waits::kPlansUnlessReady, lacks,
          [this](const v1::LoadRequest& request, ProgressSink<LoadReply>& sink) {
            return Load(request, sink);
          }),
      Row(Method::kAcknowledge, Waits::kStore, lacks,
          [this](const v1::AcknowledgeRequest& request,
                 RequestCall& call) -> absl::StatusOr<v1::AcknowledgeResponse> {
            PH_ASSIGN_OR_RETURN(const auto job, JobOf(request, call));
            return Acknowledged(request, *job, context_.signer, context_.clock->Now());
          }),
      Row(Method::kGetEpoch, Waits::kPlansUnlessReady, lacks,
          [this](const v1::GetEpochRequest& request, RequestCall& call) {
            return Describe(request, call);
          }),
      Row(Method::kExportEpoch, Waits::kPlans, lacks,
          [this](const v1::ExportEpochRequest& request,
                 ProgressSink<v1::ExportDatasetResponse>& sink) { return Export(request, sink); }),
      Row(Method::kReportStep, Waits::kTurns, lacks,
          [this](const v1::ReportStepRequest& request,
                 RequestCall& call) -> absl::StatusOr<v1::ReportStepResponse> {
            PH_ASSIGN_OR_RETURN(const auto job, JobOf(request, call));
            return Reported(request, *job, context_.signer);
          }),
      Row(Method::kDeleteJob, Waits::kStore, lacks,
          [this](const v1::DeleteJobRequest& request,
                 RequestCall& call) -> absl::StatusOr<v1::DeleteJobResponse> {
            PH_ASSIGN_OR_RETURN(const auto job, JobOf(request, call));
            return Deleted(request, *job, call.context());
          }),
      Row(Method::kListJobs, Waits::kTurns, lacks,
          [this](const v1::ListJobsRequest& request, RequestCall& call) {
            return PageOfJobs(request, call.context(), *jobs_);
          }),
      Row(Method::kGetJob, Waits::kTurns, lacks,
          [this](const v1::GetJobRequest& request, RequestCall& call) -> absl::StatusOr<v1::Job> {
            PH_ASSIGN_OR_RETURN(const auto job, JobOf(request, call));
            return Shown(*job, jobs_->address());
          }),
  });
}

LoaderService::~LoaderService() {
  timer_->Stop();
  retention_->Stop();
}

absl::StatusOr<std::unique_ptr<Source>> LoaderService::Load(const v1::LoadRequest& request,
                                                            ProgressSink<LoadReply>& sink) {
  RequestCall& call = sink.call();
  PH_RETURN_IF_ERROR(early_end_.status());
  Jobs::Place place;
  if (!request.has_evaluation()) {
    PH_RETURN_IF_ERROR(CheckJobName(request.epoch().job()));
    PH_ASSIGN_OR_RETURN(place, jobs_->Open(request.epoch().job()));
    if (place.job == nullptr) return std::make_unique<RedirectSource>(std::move(place.owner));
  }
  const std::string& named = request.epoch().has_samples()
                                 ? request.epoch().samples().sub_graphs().graph()
                                 : request.epoch().dataset();
  const PackedFor packed_for = {NamespaceOf(NamesInMixture(named).front()), named};
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                      OpenEpochRequest(request.epoch(), *datasets_, kinds_, context_.working,
                                       memory, measured_, call.is_trial()));
  TakeRanks(request, epoch);
  if (request.has_evaluation()) {
    PH_ASSIGN_OR_RETURN(EvaluationRequest steps, EvaluationFromWire(request, epoch));
    PH_ASSIGN_OR_RETURN(auto evaluation,
                        loader_->Evaluate(std::move(epoch), std::move(steps), call.context().client,
                                          call.Waker(), call.cancellation()));
    const LoadableEpoch& of = evaluation->epoch();
    auto observer = observers_->ForStream(of.schema().sizes(), packed_for);
    return WithLane(request, of,
                    std::make_unique<EvaluationSource>(std::move(evaluation), std::move(observer),
                                                       &early_end_, call.Waker(), context_.signer),
                    nullptr, lanes_, call);
  }
  PH_ASSIGN_OR_RETURN(const std::string cursor, CursorFromClient(context_, request.cursor()));
  PH_ASSIGN_OR_RETURN(auto session,
                      Join(request, cursor, std::move(epoch), *loader_, place.job, call));
  LoadSession* const joined = session.get();
  const LoadableEpoch& of = joined->epoch();
  auto observer = observers_->ForStream(of.schema().sizes(), packed_for);
  return WithLane(request, of,
                  std::make_unique<LoadSource>(
                      context_.clock, std::move(place.job), std::move(session), std::move(observer),
                      [timer = timer_](absl::Time expiry) { timer->Arm(expiry); }, call.Waker(),
                      context_.signer),
                  joined, lanes_, call);
}

absl::StatusOr<v1::Epoch> LoaderService::Describe(const v1::GetEpochRequest& request,
                                                  RequestCall& call) const {
  std::shared_ptr<Job> job;
  if (!request.epoch().job().empty()) {
    PH_ASSIGN_OR_RETURN(job, OpenJob(*jobs_, request.epoch().job(), call.headers()));
  }
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                      OpenEpochRequest(request.epoch(), *datasets_, kinds_, context_.working,
                                       memory, measured_, call.is_trial()));
  Loader::Sharer sharer;
  PH_RETURN_IF_ERROR(ReadSharer(request, epoch, context_, sharer));
  PH_ASSIGN_OR_RETURN(const Loader::Description description,
                      loader_->Describe(job.get(), std::move(epoch), call.cancellation(), sharer,
                                        request.company()));
  v1::Epoch response;
  EpochToWire(*description.epoch, description.progress, response);
  if (description.company) CompanyToWire(*description.company, *response.mutable_company());
  SignCursors(context_.signer, response);
  return response;
}

absl::StatusOr<std::unique_ptr<ResponseSource<v1::ExportDatasetResponse>>> LoaderService::Export(
    const v1::ExportEpochRequest& request, ProgressSink<v1::ExportDatasetResponse>& sink) const {
  if (!request.epoch().job().empty()) {
    return absl::InvalidArgumentError("epoch.job: must be empty for an export");
  }
  RequestCall& call = sink.call();
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch, OpenEpochRequest(request.epoch(), *datasets_, kinds_,
                                                           context_.working, memory, measured_));
  epoch.use = EpochUse::kExport;
  PH_ASSIGN_OR_RETURN(Sharing ranks, AllRanksOf(epoch));
  const EvaluationRequest all = {std::move(ranks), 0, 0, /*is_of_all_ranks=*/true};
  PH_ASSIGN_OR_RETURN(auto pass, loader_->Evaluate(std::move(epoch), all, call.context().client,
                                                   call.Waker(), call.cancellation()));
  return format_.ExportEpoch(request, std::move(pass), context_.max_response_bytes);
}

}  // namespace packhouse::rpc
