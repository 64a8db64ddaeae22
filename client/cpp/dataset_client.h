// The calls of DatasetService but for Append, which is DatasetAppender's.
#ifndef PACKHOUSE_CLIENT_CPP_DATASET_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_DATASET_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/dataset.pb.h"

namespace packhouse::client {

struct DatasetClientOptions {
  // Of each try of a call, so that a server that hangs ends in DEADLINE_EXCEEDED.
  absl::Duration call_timeout = absl::Minutes(1);
  // Of a verification, which reads all of a data set.
  absl::Duration verify_timeout = absl::Hours(24);
  // Every call is tried again as these say; what a retry of a call that had worked sees is taken
  // for what the first try would have.
  RetryOptions retry;
};

// Every call blocks. Errors are the server's, see DatasetService. Thread-safe, but for the
// functions in RetryOptions, which must be so themselves then.
class DatasetClient {
 public:
  explicit DatasetClient(std::shared_ptr<grpc::Channel> channel, DatasetClientOptions options = {});

  // ALREADY_EXISTS may come of this very call, if its first try worked and the answer was lost: Get
  // tells what is there.
  absl::StatusOr<v1::Dataset> Create(const v1::CreateDatasetRequest& request) const;
  absl::StatusOr<v1::Dataset> Seal(const std::string& name) const;
  absl::StatusOr<v1::GetDatasetResponse> Get(const std::string& name, bool include_histogram) const;
  // All of them, in ascending order of names, page by page. Bounds memory by the server's number of
  // data sets.
  absl::StatusOr<std::vector<v1::Dataset>> List(uint32_t page_size = 0) const;
  absl::Status Delete(const std::string& name) const;
  // Calls `progress` with each response but the last, which is the result: damage is in there, and
  // no error. A verification that breaks off begins anew.
  absl::StatusOr<v1::VerifyDatasetResponse> Verify(
      const std::string& name,
      absl::FunctionRef<void(const v1::VerifyDatasetResponse&)> progress) const;

 private:
  // Calls `call` with a fresh context until it is OK or fails for good; returns whether it was
  // tried more than once.
  absl::Status Try(absl::Duration timeout,
                   absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call,
                   bool* was_retried = nullptr) const;

  const std::shared_ptr<grpc::Channel> channel_;
  const DatasetClientOptions options_;
  const std::unique_ptr<v1::DatasetService::Stub> stub_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_DATASET_CLIENT_H_
