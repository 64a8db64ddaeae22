// The calls of DatasetService except Append; for Append there is DatasetAppender.
#ifndef PACKHOUSE_CLIENT_CPP_DATASET_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_DATASET_CLIENT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/servers.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

struct DatasetClientOptions {
  // The time of each try of a call: a hanging server ends it with DEADLINE_EXCEEDED.
  absl::Duration call_timeout = absl::Minutes(1);
  // The time of a verification or an export, which reads all of a data set.
  absl::Duration verify_timeout = absl::Hours(24);
  // How every call is retried. If the first try worked and its answer was lost, a retry gets an
  // error such as NOT_FOUND; the result is then that of the first try.
  RetryOptions retry;
};

// Every call blocks. Errors are the server's, see DatasetService. Of several servers, reads and
// Seal() go on at the next one while one is away; Create() and Delete() stay with the first.
// Thread-safe if the functions in RetryOptions are.
class DatasetClient {
 public:
  explicit DatasetClient(Servers servers, DatasetClientOptions options = {});

  // ALREADY_EXISTS may be caused by this very call, if its first try worked and the answer was
  // lost. Get shows the existing data set.
  absl::StatusOr<v1::Dataset> Create(const v1::CreateDatasetRequest& request) const;
  absl::StatusOr<v1::Dataset> Seal(const std::string& name) const;
  absl::StatusOr<v1::GetDatasetResponse> Get(const std::string& name, bool include_histogram) const;
  // All data sets in ascending order of names, read page by page. Memory grows with the number of
  // data sets.
  absl::StatusOr<std::vector<v1::Dataset>> List(uint32_t page_size = 0) const;
  absl::Status Delete(const std::string& name) const;
  // Calls `progress` with each response except the last. The last is the result; it reports damage,
  // which is not an error. A verification that breaks off starts anew.
  absl::StatusOr<v1::VerifyDatasetResponse> Verify(
      const std::string& name,
      absl::FunctionRef<void(const v1::VerifyDatasetResponse&)> progress) const;
  // Calls `take` with each response, in order; it may move the examples out. An error of `take`
  // ends the call and is returned. A call that breaks off goes on where it was: each graph comes
  // once.
  using TakeExported = absl::FunctionRef<absl::Status(v1::ExportDatasetResponse&)>;
  absl::Status Export(const v1::ExportDatasetRequest& request, TakeExported take) const;
  // The same of an epoch, in its order (LoaderService.ExportEpoch).
  absl::Status ExportEpoch(const v1::ExportEpochRequest& request, TakeExported take) const;

 private:
  using Stub = v1::DatasetService::Stub;

  // `start` begins the call for what is left of the request.
  template <typename Request, typename Start>
  absl::Status ExportFrom(Request rest, Start start, const TakeExported& take) const;

  const CallWay anywhere_;
  // For what is not safe to repeat at another server.
  const CallWay at_home_;
  const CallWay slowly_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_DATASET_CLIENT_H_
