#include "client/cpp/job_client.h"

#include <iterator>

#include "packhouse/v1/loader.grpc.pb.h"

namespace packhouse::client {

absl::StatusOr<std::vector<v1::Job>> JobClient::List(uint32_t page_size) const {
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  request.set_page_size(page_size);
  do {
    v1::ListJobsResponse response;
    const absl::Status status = calls_.Call(
        [&](const auto& channel, auto& context) {
          return v1::LoaderService::NewStub(channel)->ListJobs(&context, request, &response);
        },
        JobCalls::Repeat::kSafe);
    if (!status.ok()) return status;
    if (!response.next_page_token().empty() && response.next_page_token() == request.page_token()) {
      return absl::InternalError("the server's next page is the one that it has just sent");
    }
    jobs.insert(jobs.end(), std::make_move_iterator(response.mutable_jobs()->begin()),
                std::make_move_iterator(response.mutable_jobs()->end()));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

absl::StatusOr<v1::Job> JobClient::Get(const std::string& job) const {
  v1::GetJobRequest request;
  request.set_job(job);
  v1::Job response;
  const absl::Status status = calls_.Call(
      [&](const auto& channel, auto& context) {
        return v1::LoaderService::NewStub(channel)->GetJob(&context, request, &response);
      },
      JobCalls::Repeat::kSafe);
  if (!status.ok()) return status;
  return response;
}

absl::Status JobClient::Delete(const std::string& job) const {
  v1::DeleteJobRequest request;
  request.set_job(job);
  v1::DeleteJobResponse response;
  return calls_.Call([&](const auto& channel, auto& context) {
    return v1::LoaderService::NewStub(channel)->DeleteJob(&context, request, &response);
  });
}

absl::StatusOr<v1::Epoch> JobClient::GetEpoch(const v1::EpochSpec& spec) const {
  v1::GetEpochRequest request;
  *request.mutable_epoch() = spec;
  v1::Epoch response;
  const absl::Status status = calls_.Call(
      [&](const auto& channel, auto& context) {
        return v1::LoaderService::NewStub(channel)->GetEpoch(&context, request, &response);
      },
      JobCalls::Repeat::kSafe);
  if (!status.ok()) return status;
  return response;
}

}  // namespace packhouse::client
