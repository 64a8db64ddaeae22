#include "service/rpc/loader_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/epochs/making.h"
#include "service/rpc/call_credentials.h"
#include "service/rpc/planning_call.h"
#include "service/rpc/server_streaming_call.h"
#include "service/rpc/unary_call.h"
#include "service/wire/export_source.h"
#include "service/wire/load_source.h"
#include "service/wire/wire_datasets.h"
#include "service/wire/wire_loader.h"
#include "service/wire/wire_memory.h"
#include "service/wire/wire_sampling.h"

namespace packhouse::rpc {
namespace {

using Source = ResponseSource<LoadReply>;

// The data set's schema names the components. `memory` holds the memory of the request's lists.
absl::StatusOr<EpochRequest> RequestOf(const v1::EpochSpec& spec, const DatasetStore& datasets,
                                       const SourceGraphStore* graphs, MemoryBudget* working,
                                       MemoryHold& memory) {
  if (spec.has_samples()) {
    PH_ASSIGN_OR_RETURN(auto source, OpenSubGraphs(spec.samples().sub_graphs(), graphs));
    return SampledRequestFromWire(spec, std::move(source), working);
  }
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets.Get(spec.dataset()));
  PH_ASSIGN_OR_RETURN(memory,
                      Making(working, nullptr).Hold("a subset and weights", BytesOfRequest(spec)));
  return EpochRequestFromWire(spec, *info.schema);
}

absl::Status CheckExport(const v1::EpochSpec& epoch) {
  if (!epoch.job().empty()) {
    return absl::InvalidArgumentError("epoch.job: must be empty for an export");
  }
  if (epoch.has_samples()) {
    return absl::InvalidArgumentError("epoch.samples: sub-graphs are not exported");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadSession>> Join(const v1::LoadRequest& request,
                                                  EpochRequest epoch, ClientId client,
                                                  absl::Time now, Loader& loader,
                                                  std::function<void()> wake,
                                                  const GivenUp& given_up) {
  PH_ASSIGN_OR_RETURN(JoinRequest join, JoinRequestFromWire(request, epoch));
  PH_ASSIGN_OR_RETURN(const size_t max_in_flight, MaxInFlightFromWire(request.max_in_flight()));
  join.client = std::move(client);
  join.now = now;
  return loader.StartLoad(std::move(epoch), std::move(join), max_in_flight, std::move(wake),
                          given_up);
}

absl::StatusOr<v1::AcknowledgeResponse> Acknowledged(const v1::AcknowledgeRequest& request,
                                                     Loader& loader, absl::Time now) {
  if (request.batches().size() > static_cast<int>(kMaxAcknowledged)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batches: ", request.batches().size(), ", at most ", kMaxAcknowledged));
  }
  const std::vector<uint64_t> batches(request.batches().begin(), request.batches().end());
  PH_ASSIGN_OR_RETURN(AcknowledgeResult result,
                      loader.Acknowledge({request.job(), request.epoch()}, request.session(),
                                         request.generation(), batches, now));
  v1::AcknowledgeResponse response;
  response.set_num_new(result.num_new);
  response.set_cursor(std::move(result.cursor));
  return response;
}

absl::StatusOr<v1::Epoch> Described(const v1::GetEpochRequest& request,
                                    const DatasetStore& datasets, const SourceGraphStore* graphs,
                                    Loader& loader, MemoryBudget* working,
                                    const GivenUp& given_up) {
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                      RequestOf(request.epoch(), datasets, graphs, working, memory));
  PH_ASSIGN_OR_RETURN(const Loader::Description description,
                      loader.Describe(std::move(epoch), given_up));
  v1::Epoch response;
  EpochToWire(*description.epoch, description.progress, response);
  return response;
}

// For results that are given only if they are ready; otherwise CANCELLED.
GivenUp OnlyIfReady() {
  return [] { return true; };
}

// The token is the name of a job.
absl::Status CheckPageToken(const std::string& token) {
  if (CheckJobName(token).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("page_token: is not one that ListJobs has given");
}

// The first page after the token that shows something to the caller. Its token names something that
// it may see, too.
v1::ListJobsResponse Listed(const v1::ListJobsRequest& request, const CallContext& context,
                            const Loader& loader) {
  v1::ListJobsResponse listed;
  std::string after = request.page_token();
  do {
    const JobList list = loader.ListJobs(request.page_size(), after);
    after = list.next_page_token;
    for (const JobSummary& job : list.jobs) {
      if (context.authorizer != nullptr &&
          !context.authorizer->MaySee(context.principal(), job.name)) {
        continue;
      }
      JobToWire(job, *listed.add_jobs());
    }
  } while (listed.jobs().empty() && !after.empty());
  if (!after.empty()) {
    listed.set_next_page_token(
        context.authorizer == nullptr ? after : listed.jobs(listed.jobs_size() - 1).job());
  }
  return listed;
}

absl::StatusOr<v1::ReportStepResponse> Reported(const v1::ReportStepRequest& request,
                                                Loader& loader) {
  PH_ASSIGN_OR_RETURN(
      std::string cursor,
      loader.CursorAtStep({request.job(), request.epoch()}, request.generation(), request.steps()));
  v1::ReportStepResponse response;
  response.set_cursor(std::move(cursor));
  return response;
}

}  // namespace

LoaderService::LoaderService(const CallContext& context, const DatasetStore* datasets,
                             const SourceGraphStore* graphs, Loader* loader,
                             PackObserverFactory* observers)
    : EarlyService(v1::LoaderService::service_full_name()),
      context_(context),
      append_context_(context.OnAppendPool()),
      datasets_(datasets),
      graphs_(graphs),
      loader_(loader),
      observers_(observers),
      timer_(std::make_shared<LeaseTimer>(context.clock, context.stream_pool, loader)),
      retention_(std::make_shared<RetentionTimer>(
          context.clock, context.append_pool, loader,
          loader == nullptr ? absl::InfiniteDuration() : loader->epoch_retention())) {
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

LoaderService::~LoaderService() {
  timer_->Stop();
  retention_->Stop();
}

CallReactor* LoaderService::Load(grpc::CallbackServerContext* call) {
  const auto open = [this, client = context_.ClientOf(CredentialsOf(*call))](
                        const v1::LoadRequest& parsed, ProgressSink<LoadReply>& sink,
                        const GivenUp& given_up) -> absl::StatusOr<std::unique_ptr<Source>> {
    if (loader_ == nullptr) return NoDataFolder();
    PH_RETURN_IF_ERROR(early_end_.status());
    MemoryHold memory;
    PH_ASSIGN_OR_RETURN(EpochRequest epoch,
                        RequestOf(parsed.epoch(), *datasets_, graphs_, context_.working, memory));
    if (parsed.has_evaluation()) {
      PH_ASSIGN_OR_RETURN(EvaluationRequest steps, EvaluationFromWire(parsed, epoch));
      PH_ASSIGN_OR_RETURN(auto evaluation, loader_->Evaluate(epoch, std::move(steps), given_up));
      auto observer = observers_->ForStream(evaluation->epoch().plan().schema().sizes());
      return std::make_unique<EvaluationSource>(std::move(evaluation), std::move(observer),
                                                &early_end_);
    }
    PH_ASSIGN_OR_RETURN(auto session, Join(parsed, std::move(epoch), client, context_.clock->Now(),
                                           *loader_, sink.Waker(), given_up));
    auto observer = observers_->ForStream(session->epoch().schema().sizes());
    return std::make_unique<LoadSource>(
        context_.clock, std::move(session), std::move(observer),
        [timer = timer_](absl::Time expiry) { timer->Arm(expiry); }, &early_end_, sink.Waker());
  };
  return ServerStreamingCall<v1::LoadRequest, LoadReply>::Start(
      context_, *call, Method::kLoad,
      [open](const v1::LoadRequest& parsed, ProgressSink<LoadReply>& sink) {
        return open(parsed, sink,
                    GivenUp([&sink] { return sink.given_up(); },
                            [&sink] { return sink.given_up_while_waiting(); }));
      },
      [open](const v1::LoadRequest& parsed,
             ProgressSink<LoadReply>& sink) -> absl::StatusOr<std::unique_ptr<Source>> {
        auto source = open(parsed, sink, OnlyIfReady());
        if (absl::IsCancelled(source.status())) return nullptr;
        return source;
      });
}

CallReactor* LoaderService::Acknowledge(grpc::CallbackServerContext* call) {
  return RunUnary<v1::AcknowledgeRequest>(
      append_context_, Method::kAcknowledge, call,
      [this](const v1::AcknowledgeRequest& parsed) -> absl::StatusOr<v1::AcknowledgeResponse> {
        if (loader_ == nullptr) return NoDataFolder();
        return Acknowledged(parsed, *loader_, context_.clock->Now());
      });
}

CallReactor* LoaderService::GetEpoch(grpc::CallbackServerContext* call) {
  return PlanningCall<v1::GetEpochRequest, v1::Epoch>::Start(
      context_, *call, Method::kGetEpoch,
      [this](const v1::GetEpochRequest& parsed, PlanningTurn& turn) -> absl::StatusOr<v1::Epoch> {
        if (loader_ == nullptr) return NoDataFolder();
        return Described(parsed, *datasets_, graphs_, *loader_, context_.working,
                         GivenUp([&turn] { return turn.GivenUp(); },
                                 [&turn] { return turn.GivenUpWhileWaiting(); }));
      },
      [this](const v1::GetEpochRequest& parsed) -> absl::StatusOr<std::optional<v1::Epoch>> {
        if (loader_ == nullptr) return NoDataFolder();
        auto epoch =
            Described(parsed, *datasets_, graphs_, *loader_, context_.working, OnlyIfReady());
        if (absl::IsCancelled(epoch.status())) return std::nullopt;
        return epoch;
      });
}

CallReactor* LoaderService::ExportEpoch(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::ExportEpochRequest, v1::ExportDatasetResponse>;
  return Call::Start(
      context_, *call, Method::kExportEpoch,
      [this](const v1::ExportEpochRequest& parsed, ProgressSink<v1::ExportDatasetResponse>& sink)
          -> absl::StatusOr<std::unique_ptr<Call::Source>> {
        if (loader_ == nullptr) return NoDataFolder();
        PH_RETURN_IF_ERROR(CheckExport(parsed.epoch()));
        MemoryHold memory;
        PH_ASSIGN_OR_RETURN(const EpochRequest epoch, RequestOf(parsed.epoch(), *datasets_, graphs_,
                                                                context_.working, memory));
        PH_ASSIGN_OR_RETURN(Sharing ranks, AllRanksOf(epoch));
        const GivenUp given_up([&sink] { return sink.given_up(); },
                               [&sink] { return sink.given_up_while_waiting(); });
        PH_ASSIGN_OR_RETURN(auto prepared, loader_->Prepare(epoch, given_up));
        return ExportSource::OpenEpoch(parsed, std::move(prepared), std::move(ranks),
                                       context_.max_response_bytes, context_.working);
      });
}

CallReactor* LoaderService::ReportStep(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ReportStepRequest>(
      context_, Method::kReportStep, call,
      [this](const v1::ReportStepRequest& parsed) -> absl::StatusOr<v1::ReportStepResponse> {
        if (loader_ == nullptr) return NoDataFolder();
        return Reported(parsed, *loader_);
      });
}

CallReactor* LoaderService::DeleteJob(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DeleteJobRequest>(
      append_context_, Method::kDeleteJob, call,
      [this](const v1::DeleteJobRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::DeleteJobResponse> {
        if (loader_ == nullptr) return NoDataFolder();
        PH_RETURN_IF_ERROR(loader_->DeleteJob(parsed.job()));
        LogDeletion(context.log, context.client, "job", parsed.job());
        return v1::DeleteJobResponse();
      });
}

CallReactor* LoaderService::ListJobs(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ListJobsRequest>(
      context_, Method::kListJobs, call,
      [this](const v1::ListJobsRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::ListJobsResponse> {
        if (loader_ == nullptr) return NoDataFolder();
        if (!parsed.page_token().empty()) PH_RETURN_IF_ERROR(CheckPageToken(parsed.page_token()));
        return Listed(parsed, context, *loader_);
      });
}

CallReactor* LoaderService::GetJob(grpc::CallbackServerContext* call) {
  return RunUnary<v1::GetJobRequest>(
      context_, Method::kGetJob, call,
      [this](const v1::GetJobRequest& parsed) -> absl::StatusOr<v1::Job> {
        if (loader_ == nullptr) return NoDataFolder();
        PH_RETURN_IF_ERROR(CheckJobName(parsed.job()));
        PH_ASSIGN_OR_RETURN(const JobSummary job, loader_->GetJob(parsed.job()));
        v1::Job wire;
        JobToWire(job, wire);
        return wire;
      });
}

}  // namespace packhouse::rpc
