#include "client/cpp/job_client.h"

#include "packhouse/v1/loader.grpc.pb.h"

namespace packhouse::client {

absl::StatusOr<std::vector<v1::Job>> JobClient::List(uint32_t page_size) const {
  v1::ListJobsRequest request;
  request.set_page_size(page_size);
  return ListAll(safely_, &v1::LoaderService::Stub::ListJobs, request,
                 &v1::ListJobsResponse::mutable_jobs);
}

absl::StatusOr<v1::Job> JobClient::Get(const std::string& job) const {
  v1::GetJobRequest request;
  request.set_job(job);
  return Call(safely_, &v1::LoaderService::Stub::GetJob, request);
}

absl::Status JobClient::Delete(const std::string& job) const {
  v1::DeleteJobRequest request;
  request.set_job(job);
  return Call(once_, &v1::LoaderService::Stub::DeleteJob, request).status();
}

absl::StatusOr<v1::Epoch> JobClient::GetEpoch(const v1::EpochSpec& spec) const {
  v1::GetEpochRequest request;
  *request.mutable_epoch() = spec;
  request.set_company(true);
  return Call(safely_, &v1::LoaderService::Stub::GetEpoch, request);
}

}  // namespace packhouse::client
