// The jobs that a server knows: LoaderService's ListJobs, GetJob and DeleteJob.
#ifndef PACKHOUSE_CLIENT_CPP_JOB_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_JOB_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// Every call blocks, for at most `call_timeout`, and is made once. Errors are the server's, see
// LoaderService. Thread-safe.
class JobClient {
 public:
  explicit JobClient(const std::shared_ptr<grpc::Channel>& channel,
                     absl::Duration call_timeout = absl::Minutes(1))
      : call_timeout_(call_timeout), stub_(v1::LoaderService::NewStub(channel)) {}

  // All jobs in ascending order of names, read page by page.
  absl::StatusOr<std::vector<v1::Job>> List(uint32_t page_size = 0) const;
  absl::StatusOr<v1::Job> Get(const std::string& job) const;
  absl::Status Delete(const std::string& job) const;

 private:
  const absl::Duration call_timeout_;
  const std::unique_ptr<v1::LoaderService::Stub> stub_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOB_CLIENT_H_
