// The partitions of a server's source graphs: the calls of PartitioningService.
#ifndef PACKHOUSE_CLIENT_CPP_PARTITION_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_PARTITION_CLIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/servers.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "packhouse/v1/partitioning.pb.h"

namespace packhouse::client {

struct PartitionClientOptions {
  // The time of each try of a call: a hanging server ends it with DEADLINE_EXCEEDED.
  absl::Duration call_timeout = absl::Minutes(1);
  // The time of MakeDataset().
  absl::Duration long_timeout = absl::Hours(24);
  // How every call is retried, also while the server is away.
  RetryOptions retry;
};

// Every call blocks. Errors are the server's, see PartitioningService. Of several servers, all but
// Delete() go on at the next one while one is away. Thread-safe if the functions in RetryOptions
// are.
class PartitionClient {
 public:
  explicit PartitionClient(Servers servers, PartitionClientOptions options = {});

  absl::StatusOr<v1::PartitionJob> Partition(const v1::PartitionRequest& request) const;
  absl::StatusOr<v1::PartitionJob> Get(const std::string& graph, const std::string& name) const;
  absl::StatusOr<std::vector<v1::PartitionJob>> List(const std::string& graph) const;
  absl::StatusOr<v1::PartitionJob> Cancel(const std::string& graph, const std::string& name) const;
  // A retry that finds nothing, since the first try worked, is OK.
  absl::Status Delete(const std::string& graph, const std::string& name) const;

  // Asks twice a second until the work has ended, for any time, and calls `progress` with each
  // answer; if that returns false, this ends with ABORTED, and the work goes on. The partition that
  // is done; why it failed; CANCELLED. A server that is away is waited for as RetryOptions says.
  absl::StatusOr<v1::PartitionJob> Wait(
      const std::string& graph, const std::string& name,
      absl::FunctionRef<bool(const v1::PartitionJob&)> progress) const;

  // Makes the parts a data set, and calls `progress` with each response. A call that breaks off
  // goes on where it was.
  absl::StatusOr<v1::Dataset> MakeDataset(
      const v1::PartitionDatasetRequest& request,
      absl::FunctionRef<void(const v1::PartitionDatasetResponse&)> progress) const;

  // Writes the files of a partition that is done into a new folder, for any time. The folder
  // appears when it has all files; until then there is `folder`.partial. ALREADY_EXISTS if it is
  // there; UNAVAILABLE naming a file that cannot be written. `finish`, unless it is empty, may add
  // files to `folder`.partial, which it is called with when all files are there; its error is
  // Download's.
  absl::Status Download(
      const v1::PartitionJob& job, const std::string& folder,
      const std::function<absl::Status(const std::string& partial)>& finish = nullptr) const;

 private:
  absl::Status DownloadFile(const v1::PartitionJob& job, const v1::PartitionFile& file,
                            const std::string& path) const;

  using Stub = v1::PartitioningService::Stub;

  const CallWay anywhere_;
  // For what is not safe to repeat at another server.
  const CallWay at_home_;
  const CallWay slowly_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_PARTITION_CLIENT_H_
