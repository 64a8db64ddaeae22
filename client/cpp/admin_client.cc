#include "client/cpp/admin_client.h"

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {
namespace {

// Makes a call with one answer.
template <typename Response, typename Request>
absl::StatusOr<Response> Ask(v1::AdminService::Stub& stub, absl::Duration timeout,
                             const Request& request,
                             grpc::Status (v1::AdminService::Stub::*method)(grpc::ClientContext*,
                                                                            const Request&,
                                                                            Response*)) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  Response response;
  const absl::Status status = ToAbslStatus((stub.*method)(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace

absl::StatusOr<v1::GetServerResponse> AdminClient::GetServer() const {
  return Ask<v1::GetServerResponse>(*stub_, call_timeout_, v1::GetServerRequest(),
                                    &v1::AdminService::Stub::GetServer);
}

absl::StatusOr<v1::ListClientsResponse> AdminClient::ListClients() const {
  return Ask<v1::ListClientsResponse>(*stub_, call_timeout_, v1::ListClientsRequest(),
                                      &v1::AdminService::Stub::ListClients);
}

absl::StatusOr<v1::LogLevel> AdminClient::SetLogLevel(v1::LogLevel level) const {
  v1::SetLogLevelRequest request;
  request.set_level(level);
  const auto response = Ask<v1::SetLogLevelResponse>(*stub_, call_timeout_, request,
                                                     &v1::AdminService::Stub::SetLogLevel);
  if (!response.ok()) return response.status();
  return response->before();
}

absl::StatusOr<std::vector<v1::ServerFile>> AdminClient::Reload() const {
  const auto response = Ask<v1::ReloadResponse>(*stub_, call_timeout_, v1::ReloadRequest(),
                                                &v1::AdminService::Stub::Reload);
  if (!response.ok()) return response.status();
  return std::vector<v1::ServerFile>(response->files().begin(), response->files().end());
}

absl::StatusOr<bool> AdminClient::Drain() const {
  const auto response = Ask<v1::DrainResponse>(*stub_, call_timeout_, v1::DrainRequest(),
                                               &v1::AdminService::Stub::Drain);
  if (!response.ok()) return response.status();
  return response->was_draining();
}

absl::Status AdminClient::MoveJob(const std::string& job, const std::string& address) const {
  v1::MoveJobRequest request;
  request.set_job(job);
  request.set_address(address);
  v1::MoveJobResponse response;
  return job_calls_.Call([&](const auto& channel, auto& context) {
    return v1::AdminService::NewStub(channel)->MoveJob(&context, request, &response);
  });
}

absl::StatusOr<v1::TakeSnapshotResponse> AdminClient::TakeSnapshot(const std::string& name,
                                                                   const Progress& progress) const {
  v1::TakeSnapshotRequest request;
  request.set_name(name);
  grpc::ClientContext context;
  const auto reader = stub_->TakeSnapshot(&context, request);
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
