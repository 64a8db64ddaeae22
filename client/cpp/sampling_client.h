// Sub-graphs of source graphs: estimates of their sizes, and data sets of them.
#ifndef PACKHOUSE_CLIENT_CPP_SAMPLING_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_SAMPLING_CLIENT_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/servers.h"
#include "packhouse/v1/sampling.grpc.pb.h"
#include "packhouse/v1/sampling.pb.h"

namespace packhouse::client {

struct SamplingClientOptions {
  // The time of each try of EstimateSizes().
  absl::Duration call_timeout = absl::Minutes(1);
  // How calls are retried.
  RetryOptions retry;
};

// Every call blocks. Errors are the server's, see SamplingService. Thread-safe if the functions in
// RetryOptions are. Of several servers, calls go on at the next one while one is away. For
// SamplingService.Sample use stub(), of the first.
class SamplingClient {
 public:
  explicit SamplingClient(Servers servers, SamplingClientOptions options = {});

  absl::StatusOr<v1::EstimateSizesResponse> EstimateSizes(
      const v1::EstimateSizesRequest& request) const;
  // Calls `progress` with each response except the last, which is the result. A call that breaks
  // off goes on where it was.
  absl::StatusOr<v1::SampleDatasetResponse> SampleDataset(
      const v1::SampleDatasetRequest& request,
      absl::FunctionRef<void(const v1::SampleDatasetResponse&)> progress) const;

  v1::SamplingService::StubInterface& stub() const { return *stub_; }

 private:
  const Servers servers_;
  const SamplingClientOptions options_;
  const std::unique_ptr<v1::SamplingService::Stub> stub_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_SAMPLING_CLIENT_H_
