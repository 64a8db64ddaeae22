#include "client/cpp/dataset_client.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

DatasetClient::DatasetClient(Servers servers, DatasetClientOptions options)
    : servers_(std::move(servers)), home_(servers_.current()), options_(std::move(options)) {}

absl::Status DatasetClient::Try(absl::Duration timeout, CallOnChannel call) const {
  return CallWithRetry(servers_, options_.retry, "DatasetService", timeout, call);
}

absl::Status DatasetClient::TryAtHome(CallOnChannel call, bool* was_retried) const {
  return CallWithRetry(home_, options_.retry, "DatasetService", options_.call_timeout, call,
                       was_retried);
}

absl::StatusOr<v1::Dataset> DatasetClient::Create(const v1::CreateDatasetRequest& request) const {
  v1::Dataset dataset;
  absl::Status status = TryAtHome([&](const auto& channel, grpc::ClientContext& context) {
    return v1::DatasetService::NewStub(channel)->CreateDataset(&context, request, &dataset);
  });
  if (!status.ok()) return status;
  return dataset;
}

absl::StatusOr<v1::Dataset> DatasetClient::Seal(const std::string& name) const {
  v1::SealDatasetRequest request;
  request.set_name(name);
  v1::Dataset dataset;
  absl::Status status =
      Try(options_.call_timeout, [&](const auto& channel, grpc::ClientContext& context) {
        return v1::DatasetService::NewStub(channel)->SealDataset(&context, request, &dataset);
      });
  if (!status.ok()) return status;
  return dataset;
}

absl::StatusOr<v1::GetDatasetResponse> DatasetClient::Get(const std::string& name,
                                                          bool include_histogram) const {
  v1::GetDatasetRequest request;
  request.set_name(name);
  request.set_include_histogram(include_histogram);
  v1::GetDatasetResponse response;
  absl::Status status =
      Try(options_.call_timeout, [&](const auto& channel, grpc::ClientContext& context) {
        return v1::DatasetService::NewStub(channel)->GetDataset(&context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<std::vector<v1::Dataset>> DatasetClient::List(uint32_t page_size) const {
  std::vector<v1::Dataset> datasets;
  v1::ListDatasetsRequest request;
  request.set_page_size(page_size);
  do {
    v1::ListDatasetsResponse response;
    absl::Status status =
        Try(options_.call_timeout, [&](const auto& channel, grpc::ClientContext& context) {
          return v1::DatasetService::NewStub(channel)->ListDatasets(&context, request, &response);
        });
    if (!status.ok()) return status;
    if (!response.next_page_token().empty() && response.next_page_token() == request.page_token()) {
      return absl::InternalError("the server's next page is the one that it has just sent");
    }
    datasets.insert(datasets.end(), std::make_move_iterator(response.mutable_datasets()->begin()),
                    std::make_move_iterator(response.mutable_datasets()->end()));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return datasets;
}

absl::Status DatasetClient::Delete(const std::string& name) const {
  v1::DeleteDatasetRequest request;
  request.set_name(name);
  v1::DeleteDatasetResponse response;
  bool was_retried = false;
  absl::Status status = TryAtHome(
      [&](const auto& channel, grpc::ClientContext& context) {
        return v1::DatasetService::NewStub(channel)->DeleteDataset(&context, request, &response);
      },
      &was_retried);
  if (was_retried && absl::IsNotFound(status)) return absl::OkStatus();
  return status;
}

absl::StatusOr<v1::VerifyDatasetResponse> DatasetClient::Verify(
    const std::string& name,
    absl::FunctionRef<void(const v1::VerifyDatasetResponse&)> progress) const {
  v1::VerifyDatasetRequest request;
  request.set_name(name);
  v1::VerifyDatasetResponse last;
  absl::Status status =
      Try(options_.verify_timeout, [&](const auto& channel, grpc::ClientContext& context) {
        const auto stream = v1::DatasetService::NewStub(channel)->VerifyDataset(&context, request);
        v1::VerifyDatasetResponse response;
        last.Clear();
        while (stream->Read(&response)) {
          if (!response.finished()) progress(response);
          last = response;
        }
        return stream->Finish();
      });
  if (!status.ok()) return status;
  if (!last.finished()) return absl::InternalError("the verification ended without a result");
  return last;
}

template <typename Request, typename Start>
absl::Status DatasetClient::ExportFrom(Request rest, Start start, const TakeExported& take) const {
  absl::Status taken;
  bool has_all = false;
  const absl::Status status =
      Try(options_.verify_timeout, [&](const auto& channel, grpc::ClientContext& context) {
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
      });
  return taken.ok() ? status : taken;
}

absl::Status DatasetClient::Export(const v1::ExportDatasetRequest& request,
                                   TakeExported take) const {
  return ExportFrom(
      request,
      [](const auto& channel, grpc::ClientContext& context, const v1::ExportDatasetRequest& rest) {
        return v1::DatasetService::NewStub(channel)->ExportDataset(&context, rest);
      },
      take);
}

absl::Status DatasetClient::ExportEpoch(const v1::ExportEpochRequest& request,
                                        TakeExported take) const {
  return ExportFrom(
      request,
      [](const auto& channel, grpc::ClientContext& context, const v1::ExportEpochRequest& rest) {
        return v1::LoaderService::NewStub(channel)->ExportEpoch(&context, rest);
      },
      take);
}

}  // namespace packhouse::client
