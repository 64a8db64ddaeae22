// The jobs that a server knows: LoaderService's ListJobs, GetJob and DeleteJob; and
// the epochs that they would load, its GetEpoch.
#ifndef PACKHOUSE_CLIENT_CPP_JOB_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_JOB_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/job_calls.h"
#include "client/cpp/job_servers.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// Every call blocks, for at most `call_timeout`, and is made once; where several servers share the
// jobs, once more at the job's owner, if the server that was asked names it. Of several servers
// that were given, all calls but Delete() are made at the next one if one is away. List() has the
// jobs of all servers, as their owners have said in the last seconds. Errors are the server's, see
// LoaderService. Thread-safe.
class JobClient {
 public:
  explicit JobClient(const Servers& servers, absl::Duration call_timeout = absl::Minutes(1),
                     const JobServers::Connect& connect = &JobServers::ConnectToOwner)
      : safely_(AtOwner(servers, call_timeout, connect, Repeat::kSafe)),
        once_(AtOwner(servers, call_timeout, connect, Repeat::kNever)) {}

  // All jobs in ascending order of names, read page by page.
  absl::StatusOr<std::vector<v1::Job>> List(uint32_t page_size = 0) const;
  absl::StatusOr<v1::Job> Get(const std::string& job) const;
  absl::Status Delete(const std::string& job) const;
  // The figures of an epoch, of a job or of none; opens nothing. The server may have to plan it.
  absl::StatusOr<v1::Epoch> GetEpoch(const v1::EpochSpec& spec) const;

 private:
  const CallWay safely_;
  const CallWay once_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOB_CLIENT_H_
