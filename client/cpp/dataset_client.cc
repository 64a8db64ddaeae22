#include "client/cpp/dataset_client.h"

#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

DatasetClient::DatasetClient(Servers servers, DatasetClientOptions options)
    : anywhere_(WithRetry(servers, options.retry, "DatasetService", options.call_timeout)),
      at_home_(WithRetry(servers.current(), options.retry, "DatasetService", options.call_timeout)),
      slowly_(WithRetry(servers, options.retry, "DatasetService", options.verify_timeout)) {}

absl::StatusOr<v1::Dataset> DatasetClient::Create(const v1::CreateDatasetRequest& request) const {
  return Call(at_home_, &Stub::CreateDataset, request);
}

absl::StatusOr<v1::Dataset> DatasetClient::Seal(const std::string& name) const {
  v1::SealDatasetRequest request;
  request.set_name(name);
  return Call(anywhere_, &Stub::SealDataset, request);
}

absl::StatusOr<v1::GetDatasetResponse> DatasetClient::Get(const std::string& name,
                                                          bool include_histogram) const {
  v1::GetDatasetRequest request;
  request.set_name(name);
  request.set_include_histogram(include_histogram);
  return Call(anywhere_, &Stub::GetDataset, request);
}

absl::StatusOr<std::vector<v1::Dataset>> DatasetClient::List(uint32_t page_size) const {
  v1::ListDatasetsRequest request;
  request.set_page_size(page_size);
  return ListAll(anywhere_, &Stub::ListDatasets, request,
                 &v1::ListDatasetsResponse::mutable_datasets);
}

absl::Status DatasetClient::Delete(const std::string& name) const {
  v1::DeleteDatasetRequest request;
  request.set_name(name);
  return CallToDelete(at_home_, &Stub::DeleteDataset, request);
}

absl::StatusOr<v1::VerifyDatasetResponse> DatasetClient::Verify(
    const std::string& name,
    absl::FunctionRef<void(const v1::VerifyDatasetResponse&)> progress) const {
  v1::VerifyDatasetRequest request;
  request.set_name(name);
  v1::VerifyDatasetResponse last;
  const absl::Status status = slowly_(
      [&](const auto& channel, grpc::ClientContext& context) {
        const auto stream = Stub(channel).VerifyDataset(&context, request);
        v1::VerifyDatasetResponse response;
        last.Clear();
        while (stream->Read(&response)) {
          if (!response.finished()) progress(response);
          last = response;
        }
        return stream->Finish();
      },
      nullptr);
  if (!status.ok()) return status;
  if (!last.finished()) return absl::InternalError("the verification ended without a result");
  return last;
}

template <typename Request, typename Start>
absl::Status DatasetClient::ExportFrom(Request rest, Start start, const TakeExported& take) const {
  absl::Status taken;
  bool has_all = false;
  const absl::Status status = slowly_(
      [&](const auto& channel, grpc::ClientContext& context) {
        const auto stream = start(channel, context, rest);
        v1::ExportDatasetResponse response;
        while (stream->Read(&response)) {
          const auto num_graphs = static_cast<uint64_t>(response.examples_size());
          taken = take(response);
          if (!taken.ok()) {
            context.TryCancel();
            return stream->Finish();
          }
          rest.set_first_graph(rest.first_graph() + num_graphs);
          if (rest.num_graphs() == 0) continue;
          has_all = rest.num_graphs() <= num_graphs;
          if (!has_all) rest.set_num_graphs(rest.num_graphs() - num_graphs);
        }
        const grpc::Status ended = stream->Finish();
        return has_all ? grpc::Status::OK : ended;
      },
      nullptr);
  return taken.ok() ? status : taken;
}

absl::Status DatasetClient::Export(const v1::ExportDatasetRequest& request,
                                   TakeExported take) const {
  return ExportFrom(
      request,
      [](const auto& channel, grpc::ClientContext& context, const v1::ExportDatasetRequest& rest) {
        return Stub(channel).ExportDataset(&context, rest);
      },
      take);
}

absl::Status DatasetClient::ExportEpoch(const v1::ExportEpochRequest& request,
                                        TakeExported take) const {
  return ExportFrom(
      request,
      [](const auto& channel, grpc::ClientContext& context, const v1::ExportEpochRequest& rest) {
        return v1::LoaderService::Stub(channel).ExportEpoch(&context, rest);
      },
      take);
}

}  // namespace packhouse::client
