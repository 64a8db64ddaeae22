#include "client/cpp/admin_client.h"

#include "absl/status/status.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {
absl::StatusOr<v1::GetServerResponse> AdminClient::GetServer() const {
  return Call(once_, &Stub::GetServer, v1::GetServerRequest());
}

absl::StatusOr<v1::ListClientsResponse> AdminClient::ListClients() const {
  return Call(once_, &Stub::ListClients, v1::ListClientsRequest());
}

absl::StatusOr<v1::LogLevel> AdminClient::SetLogLevel(v1::LogLevel level) const {
  v1::SetLogLevelRequest request;
  request.set_level(level);
  const auto response = Call(once_, &Stub::SetLogLevel, request);
  if (!response.ok()) return response.status();
  return response->before();
}

absl::StatusOr<std::vector<v1::ServerFile>> AdminClient::Reload() const {
  const auto response = Call(once_, &Stub::Reload, v1::ReloadRequest());
  if (!response.ok()) return response.status();
  return std::vector<v1::ServerFile>(response->files().begin(), response->files().end());
}

absl::StatusOr<bool> AdminClient::Drain() const {
  const auto response = Call(once_, &Stub::Drain, v1::DrainRequest());
  if (!response.ok()) return response.status();
  return response->was_draining();
}

absl::Status AdminClient::MoveJob(const std::string& job, const std::string& address) const {
  v1::MoveJobRequest request;
  request.set_job(job);
  request.set_address(address);
  return Call(at_owner_, &Stub::MoveJob, request).status();
}

absl::StatusOr<v1::TakeSnapshotResponse> AdminClient::TakeSnapshot(const std::string& name,
                                                                   const Progress& progress) const {
  v1::TakeSnapshotRequest request;
  request.set_name(name);
  grpc::ClientContext context;
  const auto reader = Stub(channel_).TakeSnapshot(&context, request);
  v1::TakeSnapshotResponse response;
  bool goes_on = true;
  while (goes_on && reader->Read(&response)) {
    if (progress) goes_on = progress(response);
    if (!goes_on) context.TryCancel();
  }
  while (!goes_on && reader->Read(&response)) {
  }
  const absl::Status status = ToAbslStatus(reader->Finish());
  if (!status.ok()) return status;
  if (!response.is_done()) return absl::InternalError("the server did not say that it is done");
  return response;
}

}  // namespace packhouse::client
