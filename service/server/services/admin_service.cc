#include "service/server/services/admin_service.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/server/calls/response_source.h"
#include "service/server/calls_grpc/server_streaming_call.h"
#include "service/server/calls_grpc/unary_call.h"
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

// The last response of a snapshot.
class SnapshotAnswer final : public ResponseSource<v1::TakeSnapshotResponse> {
 public:
  explicit SnapshotAnswer(v1::TakeSnapshotResponse response) : response_(std::move(response)) {}
  absl::StatusOr<std::optional<v1::TakeSnapshotResponse>> Next() override {
    return std::exchange(response_, std::nullopt);
  }

 private:
  std::optional<v1::TakeSnapshotResponse> response_;
};

}  // namespace

AdminService::AdminService(const CallContext& context, AdminActions actions, AdminView view)
    : EarlyService(v1::AdminService::service_full_name()),
      context_(context),
      actions_(std::move(actions)),
      view_(std::move(view)) {
  Serve("GetServer", &AdminService::GetServer);
  Serve("ListClients", &AdminService::ListClients);
  Serve("SetLogLevel", &AdminService::SetLogLevel);
  Serve("Reload", &AdminService::Reload);
  Serve("Drain", &AdminService::Drain);
  Serve("MoveJob", &AdminService::MoveJob);
  Serve("TakeSnapshot", &AdminService::TakeSnapshot);
}

CallReactor* AdminService::GetServer(grpc::CallbackServerContext* call) {
  return RunUnary<v1::GetServerRequest>(
      context_, Method::kGetServer, call,
      [this](const v1::GetServerRequest& /*parsed*/) -> absl::StatusOr<v1::GetServerResponse> {
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
        for (const QuotaReading& reading : view_.quotas()) {
          QuotaToWire(reading, *status.add_quotas());
        }
        if (view_.jobs != nullptr) {
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
        }
        return status;
      });
}

CallReactor* AdminService::ListClients(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ListClientsRequest>(
      context_, Method::kListClients, call,
      [this](const v1::ListClientsRequest& /*parsed*/) -> absl::StatusOr<v1::ListClientsResponse> {
        v1::ListClientsResponse response;
        std::vector<OpenCallInfo> calls;
        if (context_.call_table != nullptr) calls = context_.call_table->List();
        ClientsToWire(calls, view_.sessions(), response);
        return response;
      });
}

CallReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* call) {
  return RunUnary<v1::SetLogLevelRequest>(
      context_, Method::kSetLogLevel, call,
      [this](const v1::SetLogLevelRequest& parsed) -> absl::StatusOr<v1::SetLogLevelResponse> {
        if (!actions_.set_log_level || !actions_.log_level) return NotHere();
        PH_ASSIGN_OR_RETURN(const std::string level, LogLevelFromWire(parsed.level()));
        v1::SetLogLevelResponse response;
        response.set_before(LogLevelToWire(actions_.log_level()));
        actions_.set_log_level(level);
        return response;
      });
}

CallReactor* AdminService::Reload(grpc::CallbackServerContext* call) {
  // Files are read: on the pool that waits for the disk.
  return RunUnary<v1::ReloadRequest>(
      context_.OnAppendPool(), Method::kReload, call,
      [this](const v1::ReloadRequest& /*parsed*/) -> absl::StatusOr<v1::ReloadResponse> {
        if (!actions_.reload) return NotHere();
        actions_.reload();
        v1::ReloadResponse response;
        FilesToWire(actions_, response);
        return response;
      });
}

CallReactor* AdminService::Drain(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DrainRequest>(
      context_, Method::kDrain, call,
      [this](const v1::DrainRequest& /*parsed*/) -> absl::StatusOr<v1::DrainResponse> {
        if (!actions_.drain) return NotHere();
        v1::DrainResponse response;
        response.set_was_draining(view_.is_draining());
        // A second signal would end the process at once.
        if (!response.was_draining()) actions_.drain();
        return response;
      });
}

CallReactor* AdminService::MoveJob(grpc::CallbackServerContext* call) {
  // It waits for etcd: on the pool that waits for the disk.
  return RunUnary<v1::MoveJobRequest>(
      context_.OnAppendPool(), Method::kMoveJob, call,
      [this, call](const v1::MoveJobRequest& parsed) -> absl::StatusOr<v1::MoveJobResponse> {
        if (view_.jobs == nullptr) {
          return absl::FailedPreconditionError("this server shares its jobs with no other");
        }
        PH_ASSIGN_OR_RETURN(const auto job, OpenJob(view_.jobs, parsed.job(), call));
        PH_RETURN_IF_ERROR(job->Summary(1).status());
        PH_RETURN_IF_ERROR(view_.jobs->Move(parsed.job(), parsed.address()));
        return v1::MoveJobResponse();
      });
}

CallReactor* AdminService::TakeSnapshot(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::TakeSnapshotRequest, v1::TakeSnapshotResponse>;
  return Call::Start(
      context_, *call, Method::kTakeSnapshot,
      [this](const v1::TakeSnapshotRequest& parsed, ProgressSink<v1::TakeSnapshotResponse>& sink)
          -> absl::StatusOr<std::unique_ptr<Call::Source>> {
        PH_RETURN_IF_ERROR(CheckSnapshotName(parsed.name()));
        if (!actions_.snapshot) {
          return absl::FailedPreconditionError(
              "the server was started without a folder for data, or without one for snapshots");
        }
        v1::TakeSnapshotResponse response;
        // It waits for the disk, and leaves planning to others.
        PH_ASSIGN_OR_RETURN(
            const SnapshotReport report,
            actions_.snapshot(parsed.name(), view_.histograms, [&](const SnapshotReport& now) {
              SnapshotToWire(now, response);
              sink.Report(response);
              return !sink.given_up_while_waiting();
            }));
        SnapshotToWire(report, response);
        response.set_is_done(true);
        return std::make_unique<SnapshotAnswer>(std::move(response));
      });
}

}  // namespace packhouse::rpc
