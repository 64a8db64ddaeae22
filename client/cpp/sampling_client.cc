#include "client/cpp/sampling_client.h"

#include <utility>

#include "client/cpp/call.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

SamplingClient::SamplingClient(Servers servers, SamplingClientOptions options)
    : servers_(std::move(servers)),
      options_(std::move(options)),
      stub_(v1::SamplingService::NewStub(servers_.current())) {}

absl::StatusOr<v1::EstimateSizesResponse> SamplingClient::EstimateSizes(
    const v1::EstimateSizesRequest& request) const {
  return Call(WithRetry(servers_, options_.retry, "EstimateSizes", options_.call_timeout),
              &v1::SamplingService::Stub::EstimateSizes, request);
}

absl::StatusOr<v1::SampleDatasetResponse> SamplingClient::SampleDataset(
    const v1::SampleDatasetRequest& request,
    absl::FunctionRef<void(const v1::SampleDatasetResponse&)> progress) const {
  Retrier retrier(servers_, options_.retry, "SampleDataset");
  while (true) {
    grpc::ClientContext context;
    const auto responses =
        v1::SamplingService::NewStub(retrier.channel())->SampleDataset(&context, request);
    v1::SampleDatasetResponse response;
    bool has_ended = false;
    while (!has_ended && responses->Read(&response)) {
      has_ended = response.has_dataset();
      retrier.Reset();
      if (!has_ended) progress(response);
    }
    absl::Status status = ToAbslStatus(responses->Finish());
    if (status.ok() && has_ended) return response;
    if (status.ok()) status = absl::InternalError("the server did not say what it has made");
    if (!retrier.WaitAfter(status)) return status;
  }
}

}  // namespace packhouse::client
