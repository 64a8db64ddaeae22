// Running a server: AdminService.
#ifndef PACKHOUSE_CLIENT_CPP_ADMIN_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_ADMIN_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/job_calls.h"
#include "client/cpp/job_servers.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "packhouse/v1/admin.pb.h"

namespace packhouse::client {

// Every call blocks, for at most `call_timeout`, and is made once. Errors are the server's, see
// AdminService. Thread-safe.
class AdminClient {
 public:
  explicit AdminClient(const std::shared_ptr<grpc::Channel>& channel,
                       absl::Duration call_timeout = absl::Minutes(1),
                       JobServers::Connect connect = &JobServers::ConnectToOwner)
      : channel_(channel),
        once_(Once(channel, call_timeout)),
        at_owner_(AtOwner(channel, call_timeout, std::move(connect), Repeat::kNever)) {}

  absl::StatusOr<v1::GetServerResponse> GetServer() const;
  absl::StatusOr<v1::ListClientsResponse> ListClients() const;
  // The level before.
  absl::StatusOr<v1::LogLevel> SetLogLevel(v1::LogLevel level) const;
  absl::StatusOr<std::vector<v1::ServerFile>> Reload() const;
  // Whether it had begun before.
  absl::StatusOr<bool> Drain() const;

  // Moves a job to the server at `address`. Asks the job's owner, if the server that was asked
  // names it.
  absl::Status MoveJob(const std::string& job, const std::string& address) const;

  // Blocks for as long as the snapshot takes. `progress` may be null; false stops it with
  // CANCELLED.
  using Progress = std::function<bool(const v1::TakeSnapshotResponse&)>;
  absl::StatusOr<v1::TakeSnapshotResponse> TakeSnapshot(const std::string& name,
                                                        const Progress& progress = nullptr) const;

 private:
  using Stub = v1::AdminService::Stub;

  const std::shared_ptr<grpc::Channel> channel_;
  const CallWay once_;
  const CallWay at_owner_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_ADMIN_CLIENT_H_
