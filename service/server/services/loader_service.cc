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
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/planning_call.h"
#include "service/server/calls_grpc/server_streaming_call.h"
#include "service/server/calls_grpc/unary_call.h"
#include "service/server/services/job_lists.h"
#include "service/server/services/job_place.h"
#include "service/server/services/lane_source.h"
#include "service/server/services/load_source.h"
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
                                                  ClientId client, absl::Time now, Loader& loader,
                                                  std::shared_ptr<Job> job,
                                                  std::function<void()> wake,
                                                  const GivenUp& given_up) {
  PH_ASSIGN_OR_RETURN(JoinRequest join, JoinRequestFromWire(request, epoch, cursor));
  PH_ASSIGN_OR_RETURN(const size_t max_in_flight, MaxInFlightFromWire(request.max_in_flight()));
  join.words = WordsOf(request.epoch());
  join.client = std::move(client);
  join.now = now;
  return loader.StartLoad(std::move(job), std::move(epoch), std::move(join), max_in_flight,
                          std::move(wake), given_up);
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

absl::StatusOr<v1::Epoch> Described(const v1::GetEpochRequest& request, const CallContext& context,
                                    const DatasetStore& datasets, const EpochKinds* kinds,
                                    Loader& loader, Job* job, const MeasuredModels* measured,
                                    const GivenUp& given_up, bool at_once) {
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                      OpenEpochRequest(request.epoch(), datasets, kinds, context.working, memory,
                                       measured, at_once));
  Loader::Sharer sharer;
  PH_RETURN_IF_ERROR(ReadSharer(request, epoch, context, sharer));
  PH_ASSIGN_OR_RETURN(const Loader::Description description,
                      loader.Describe(job, std::move(epoch), given_up, sharer, request.company()));
  v1::Epoch response;
  EpochToWire(*description.epoch, description.progress, response);
  if (description.company) CompanyToWire(*description.company, *response.mutable_company());
  SignCursors(context.signer, response);
  return response;
}

// With a lane, if the request asks for one. `session`: whom `source` serves; null for evaluations.
std::unique_ptr<Source> WithLane(const v1::LoadRequest& request, const LoadableEpoch& epoch,
                                 std::unique_ptr<Source> source, LoadSession* session,
                                 LaneDoor* door, Clock* clock, ProgressSink<LoadReply>& sink) {
  if (!request.lane()) return source;
  auto lane = OfferLane(epoch, door, sink.Waker());
  if (lane.ok()) {
    sink.SetLane((*lane)->open_flag());
    if (session != nullptr) session->ListSharing((*lane)->open_flag());
  }
  return std::make_unique<LaneSource>(std::move(source), std::move(lane), door, epoch.schema(),
                                      clock, sink.Waker());
}

// For results that are given only if they are ready; otherwise CANCELLED.
GivenUp OnlyIfReady() {
  return [] { return true; };
}

absl::StatusOr<v1::ReportStepResponse> Reported(const v1::ReportStepRequest& request, Job& job,
                                                const TextSigner* signer) {
  PH_ASSIGN_OR_RETURN(std::string cursor,
                      job.CursorAtStep(request.epoch(), request.generation(), request.steps()));
  v1::ReportStepResponse response;
  response.set_cursor(SignedCursor(signer, std::move(cursor)));
  return response;
}

}  // namespace

LoaderService::LoaderService(const CallContext& context, const DatasetStore* datasets,
                             const EpochKinds* kinds, Loader* loader, Jobs* jobs,
                             PackObserverFactory* observers, const MeasuredModels* measured,
                             LaneDoor* lanes, const ExampleFormat& format)
    : EarlyService(v1::LoaderService::service_full_name()),
      context_(context),
      append_context_(context.OnAppendPool()),
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
  Serve("Load", &LoaderService::Load);
  Serve("Acknowledge", &LoaderService::Acknowledge);
  Serve("GetEpoch", &LoaderService::GetEpoch);
  Serve("ExportEpoch", &LoaderService::ExportEpoch);
  Serve("ReportStep", &LoaderService::ReportStep);
  Serve("DeleteJob", &LoaderService::DeleteJob);
  Serve("ListJobs", &LoaderService::ListJobs);
  Serve("GetJob", &LoaderService::GetJob);
}

absl::StatusOr<std::shared_ptr<Job>> LoaderService::OpenNamedJob(
    const std::string& job, grpc::CallbackServerContext* call) const {
  if (job.empty() && jobs_ != nullptr) return nullptr;
  return OpenJob(jobs_, job, call);
}

LoaderService::~LoaderService() {
  timer_->Stop();
  retention_->Stop();
}

CallReactor* LoaderService::Load(grpc::CallbackServerContext* call) {
  const auto open = [this, client = context_.ClientOf(CredentialsOf(*call))](
                        const v1::LoadRequest& parsed, ProgressSink<LoadReply>& sink,
                        const GivenUp& given_up,
                        bool at_once) -> absl::StatusOr<std::unique_ptr<Source>> {
    if (loader_ == nullptr) return NoDataFolder();
    PH_RETURN_IF_ERROR(early_end_.status());
    Jobs::Place place;
    if (!parsed.has_evaluation()) {
      PH_RETURN_IF_ERROR(CheckJobName(parsed.epoch().job()));
      PH_ASSIGN_OR_RETURN(place, jobs_->Open(parsed.epoch().job()));
      if (place.job == nullptr) return std::make_unique<RedirectSource>(std::move(place.owner));
    }
    const std::string& named = parsed.epoch().has_samples()
                                   ? parsed.epoch().samples().sub_graphs().graph()
                                   : parsed.epoch().dataset();
    const PackedFor packed_for = {NamespaceOf(NamesInMixture(named).front()), named};
    MemoryHold memory;
    PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                        OpenEpochRequest(parsed.epoch(), *datasets_, kinds_, context_.working,
                                         memory, measured_, at_once));
    TakeRanks(parsed, epoch);
    if (parsed.has_evaluation()) {
      PH_ASSIGN_OR_RETURN(EvaluationRequest steps, EvaluationFromWire(parsed, epoch));
      PH_ASSIGN_OR_RETURN(auto evaluation, loader_->Evaluate(std::move(epoch), std::move(steps),
                                                             client, sink.Waker(), given_up));
      const LoadableEpoch& of = evaluation->epoch();
      auto observer = observers_->ForStream(of.schema().sizes(), packed_for);
      return WithLane(
          parsed, of,
          std::make_unique<EvaluationSource>(std::move(evaluation), std::move(observer),
                                             &early_end_, sink.Waker(), context_.signer),
          nullptr, lanes_, context_.clock, sink);
    }
    PH_ASSIGN_OR_RETURN(const std::string cursor, CursorFromClient(context_, parsed.cursor()));
    PH_ASSIGN_OR_RETURN(auto session,
                        Join(parsed, cursor, std::move(epoch), client, context_.clock->Now(),
                             *loader_, place.job, sink.Waker(), given_up));
    LoadSession* const joined = session.get();
    const LoadableEpoch& of = joined->epoch();
    auto observer = observers_->ForStream(of.schema().sizes(), packed_for);
    return WithLane(
        parsed, of,
        std::make_unique<LoadSource>(
            context_.clock, std::move(place.job), std::move(session), std::move(observer),
            [timer = timer_](absl::Time expiry) { timer->Arm(expiry); }, sink.Waker(),
            context_.signer),
        joined, lanes_, context_.clock, sink);
  };
  return ServerStreamingCall<v1::LoadRequest, LoadReply>::Start(
      context_, *call, Method::kLoad,
      [open](const v1::LoadRequest& parsed, ProgressSink<LoadReply>& sink) {
        return open(parsed, sink,
                    GivenUp([&sink] { return sink.given_up(); },
                            [&sink] { return sink.given_up_while_waiting(); }),
                    /*at_once=*/false);
      },
      [open](const v1::LoadRequest& parsed,
             ProgressSink<LoadReply>& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
        auto source = open(parsed, sink, OnlyIfReady(), /*at_once=*/true);
        if (absl::IsCancelled(source.status())) return nullptr;
        return source;
      });
}

CallReactor* LoaderService::Acknowledge(grpc::CallbackServerContext* call) {
  return RunUnary<v1::AcknowledgeRequest>(
      append_context_, Method::kAcknowledge, call,
      [this,
       call](const v1::AcknowledgeRequest& parsed) -> absl::StatusOr<v1::AcknowledgeResponse> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs_, parsed.job(), call));
        return Acknowledged(parsed, *job, context_.signer, context_.clock->Now());
      });
}

CallReactor* LoaderService::GetEpoch(grpc::CallbackServerContext* call) {
  return PlanningCall<v1::GetEpochRequest, v1::Epoch>::Start(
      context_, *call, Method::kGetEpoch,
      [this, call](const v1::GetEpochRequest& parsed,
                   PlanningTurn& turn) -> absl::StatusOr<v1::Epoch> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenNamedJob(parsed.epoch().job(), call));
        return Described(parsed, context_, *datasets_, kinds_, *loader_, job.get(), measured_,
                         GivenUp([&turn] { return turn.GivenUp(); },
                                 [&turn] { return turn.GivenUpWhileWaiting(); }),
                         /*at_once=*/false);
      },
      [this, call](const v1::GetEpochRequest& parsed) -> absl::StatusOr<std::optional<v1::Epoch>> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenNamedJob(parsed.epoch().job(), call));
        auto epoch = Described(parsed, context_, *datasets_, kinds_, *loader_, job.get(), measured_,
                               OnlyIfReady(), /*at_once=*/true);
        if (absl::IsCancelled(epoch.status())) return std::nullopt;
        return epoch;
      });
}

CallReactor* LoaderService::ExportEpoch(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::ExportEpochRequest, v1::ExportDatasetResponse>;
  return Call::Start(
      context_, *call, Method::kExportEpoch,
      [this, client = context_.ClientOf(CredentialsOf(*call))](
          const v1::ExportEpochRequest& parsed, ProgressSink<v1::ExportDatasetResponse>& sink)
          -> absl::StatusOr<std::unique_ptr<Call::Source>> {
        if (loader_ == nullptr) return NoDataFolder();
        if (!parsed.epoch().job().empty()) {
          return absl::InvalidArgumentError("epoch.job: must be empty for an export");
        }
        MemoryHold memory;
        PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                            OpenEpochRequest(parsed.epoch(), *datasets_, kinds_, context_.working,
                                             memory, measured_));
        epoch.use = EpochUse::kExport;
        PH_ASSIGN_OR_RETURN(Sharing ranks, AllRanksOf(epoch));
        const GivenUp given_up([&sink] { return sink.given_up(); },
                               [&sink] { return sink.given_up_while_waiting(); });
        const EvaluationRequest all = {std::move(ranks), 0, 0, /*is_of_all_ranks=*/true};
        PH_ASSIGN_OR_RETURN(
            auto pass, loader_->Evaluate(std::move(epoch), all, client, sink.Waker(), given_up));
        return format_.ExportEpoch(parsed, std::move(pass), context_.max_response_bytes);
      });
}

CallReactor* LoaderService::ReportStep(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ReportStepRequest>(
      context_, Method::kReportStep, call,
      [this, call](const v1::ReportStepRequest& parsed) -> absl::StatusOr<v1::ReportStepResponse> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs_, parsed.job(), call));
        return Reported(parsed, *job, context_.signer);
      });
}

CallReactor* LoaderService::DeleteJob(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DeleteJobRequest>(
      append_context_, Method::kDeleteJob, call,
      [this, call](const v1::DeleteJobRequest& parsed,
                   const CallContext& context) -> absl::StatusOr<v1::DeleteJobResponse> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs_, parsed.job(), call));
        PH_RETURN_IF_ERROR(job->Forget());
        LogDeletion(context.log, context.client, "job", parsed.job());
        return v1::DeleteJobResponse();
      });
}

CallReactor* LoaderService::ListJobs(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ListJobsRequest>(
      context_, Method::kListJobs, call,
      [this](const v1::ListJobsRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::ListJobsResponse> {
        if (jobs_ == nullptr) return NoDataFolder();
        return PageOfJobs(parsed, context, *jobs_);
      });
}

CallReactor* LoaderService::GetJob(grpc::CallbackServerContext* call) {
  return RunUnary<v1::GetJobRequest>(
      context_, Method::kGetJob, call,
      [this, call](const v1::GetJobRequest& parsed) -> absl::StatusOr<v1::Job> {
        PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs_, parsed.job(), call));
        PH_ASSIGN_OR_RETURN(JobSummary summary, job->Summary(kMaxShownEpochs));
        summary.owner = jobs_->address();
        v1::Job wire;
        JobToWire(summary, wire);
        return wire;
      });
}

}  // namespace packhouse::rpc
