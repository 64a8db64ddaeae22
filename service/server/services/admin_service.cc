#include "service/server/services/admin_service.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/server/services/job_place.h"
#include "service/server/services/wire_admin.h"

namespace packhouse::rpc {
namespace {

absl::Status NotHere() {
  return absl::FailedPreconditionError("this server runs inside another program, which does that");
}

template <typename Message>
void FilesToWire(const AdminActions& actions, Message& wire) {
  if (!actions.files) return;
  for (const FileState& file : actions.files()) FileToWire(file, *wire.add_files());
}

void SnapshotToWire(const SnapshotReport& report, v1::TakeSnapshotResponse& wire) {
  wire.set_folder(report.folder);
  wire.set_num_files(report.num_files);
  wire.set_num_bytes(report.num_bytes);
  wire.set_num_kept_files(report.num_kept_files);
  wire.set_num_kept_bytes(report.num_kept_bytes);
  wire.set_total_bytes(report.total_bytes);
}

absl::StatusOr<v1::ListClientsResponse> Clients(const CallContext& context, const AdminView& view) {
  v1::ListClientsResponse response;
  std::vector<OpenCallInfo> calls;
  if (context.call_table != nullptr) calls = context.call_table->List();
  ClientsToWire(calls, view.sessions(), response);
  return response;
}

absl::StatusOr<v1::SetLogLevelResponse> SetLogLevel(const v1::SetLogLevelRequest& request,
                                                    const AdminActions& actions) {
  PH_ASSIGN_OR_RETURN(const std::string level, LogLevelFromWire(request.level()));
  v1::SetLogLevelResponse response;
  response.set_before(LogLevelToWire(actions.log_level()));
  actions.set_log_level(level);
  return response;
}

absl::StatusOr<v1::ReloadResponse> Reload(const AdminActions& actions) {
  actions.reload();
  v1::ReloadResponse response;
  FilesToWire(actions, response);
  return response;
}

absl::StatusOr<v1::DrainResponse> Drain(const AdminActions& actions, const AdminView& view) {
  v1::DrainResponse response;
  response.set_was_draining(view.is_draining());
  // A second signal would end the process at once.
  if (!response.was_draining()) actions.drain();
  return response;
}

absl::StatusOr<v1::MoveJobResponse> MoveJob(const v1::MoveJobRequest& request, Jobs& jobs,
                                            RequestCall& call) {
  PH_ASSIGN_OR_RETURN(const auto job, OpenJob(jobs, request.job(), call.headers()));
  PH_RETURN_IF_ERROR(job->Summary(1).status());
  PH_RETURN_IF_ERROR(jobs.Move(request.job(), request.address()));
  return v1::MoveJobResponse();
}

absl::StatusOr<v1::TakeSnapshotResponse> TakeSnapshot(
    const v1::TakeSnapshotRequest& request, const AdminActions& actions, const AdminView& view,
    ProgressSink<v1::TakeSnapshotResponse>& sink) {
  PH_RETURN_IF_ERROR(CheckSnapshotName(request.name()));
  v1::TakeSnapshotResponse response;
  // It waits for the disk, and leaves planning to others.
  PH_ASSIGN_OR_RETURN(const SnapshotReport report, actions.snapshot(request.name(), view.histograms,
                                                                    [&](const SnapshotReport& now) {
                                                                      SnapshotToWire(now, response);
                                                                      sink.Report(response);
                                                                      return !sink.LeaveTurn();
                                                                    }));
  SnapshotToWire(report, response);
  response.set_is_done(true);
  return response;
}

}  // namespace

AdminService::AdminService(const CallContext& context, AdminActions actions, AdminView view)
    : EarlyService(v1::AdminService::service_full_name(), context),
      actions_(std::move(actions)),
      view_(std::move(view)) {
  const auto needs = [](bool is_there) { return is_there ? absl::OkStatus() : NotHere(); };
  const absl::Status lacks_cluster =
      view_.jobs != nullptr
          ? absl::OkStatus()
          : absl::FailedPreconditionError("this server shares its jobs with no other");
  const absl::Status lacks_snapshots =
      actions_.snapshot
          ? absl::OkStatus()
          : absl::FailedPreconditionError(
                "the server was started without a folder for data, or without one for snapshots");
  Serve({
      Row(Method::kGetServer, Waits::kTurns,
          [this](const v1::GetServerRequest& /*request*/, RequestCall& /*call*/)
              -> absl::StatusOr<v1::GetServerResponse> { return ServerNow(); }),
      Row(Method::kListClients, Waits::kTurns,
          [this](const v1::ListClientsRequest& /*request*/, RequestCall& call) {
            return Clients(call.context(), view_);
          }),
      Row(Method::kSetLogLevel, Waits::kTurns, needs(actions_.set_log_level && actions_.log_level),
          [this](const v1::SetLogLevelRequest& request, RequestCall& /*call*/) {
            return SetLogLevel(request, actions_);
          }),
      // Files are read.
      Row(Method::kReload, Waits::kStore, needs(actions_.reload != nullptr),
          [this](const v1::ReloadRequest& /*request*/, RequestCall& /*call*/) {
            return Reload(actions_);
          }),
      Row(Method::kDrain, Waits::kTurns, needs(actions_.drain != nullptr),
          [this](const v1::DrainRequest& /*request*/, RequestCall& /*call*/) {
            return Drain(actions_, view_);
          }),
      Row(Method::kMoveJob, Waits::kStore, lacks_cluster,
          [this](const v1::MoveJobRequest& request, RequestCall& call) {
            return MoveJob(request, *view_.jobs, call);
          }),
      Row(Method::kTakeSnapshot, Waits::kPlans, lacks_snapshots,
          [this](const v1::TakeSnapshotRequest& request,
                 ProgressSink<v1::TakeSnapshotResponse>& sink) {
            return TakeSnapshot(request, actions_, view_, sink);
          }),
  });
}

v1::GetServerResponse AdminService::ServerNow() const {
  v1::GetServerResponse status;
  status.set_version(actions_.version);
  TimeToWire(actions_.started, *status.mutable_started());
  status.set_is_draining(view_.is_draining());
  if (actions_.log_level) status.set_log_level(LogLevelToWire(actions_.log_level()));
  status.set_num_connections(view_.num_connections());
  for (const AdminView::Share& share : view_.memory()) {
    v1::MemoryShare& wire = *status.add_memory();
    wire.set_name(share.name);
    wire.set_held_bytes(share.held_bytes);
    wire.set_bound_bytes(share.bound_bytes);
  }
  FilesToWire(actions_, status);
  for (const QuotaReading& reading : view_.quotas()) QuotaToWire(reading, *status.add_quotas());
  if (view_.jobs == nullptr) return status;
  std::vector<std::string> members = view_.jobs->members();
  std::sort(members.begin(), members.end());
  // Where a server was killed, and started again.
  members.erase(std::unique(members.begin(), members.end()), members.end());
  for (std::string& address : members) {
    v1::ClusterMember& wire = *status.add_members();
    wire.set_is_this(address == view_.jobs->address());
    wire.set_address(std::move(address));
  }
  for (const auto& job : view_.jobs->Here()) status.add_owned_jobs(job->name());
  return status;
}

}  // namespace packhouse::rpc
