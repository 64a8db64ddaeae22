#include "client/cli/size_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/histogram.grpc.pb.h"

namespace packhouse::client {

void AddSizeSourceOptions(SizeSource& source, CLI::App& command) {
  AddSizesOption(source.file, command);
  command.get_option("--sizes")->required(false);
  command.add_option("--dataset", source.dataset, "The sizes of a data set of the server")
      ->type_name("NAME");
  command.add_option("--histogram", source.histogram, "The sizes of a histogram of the server")
      ->type_name("NAME");
}

absl::Status CheckSizeSource(const SizeSource& source, const std::string& server) {
  const int given = !source.file.empty() + !source.dataset.empty() + !source.histogram.empty();
  if (given != 1) {
    return absl::InvalidArgumentError("one of --sizes, --dataset and --histogram is needed");
  }
  if (source.file.empty() && server.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        NameOfSizes(source), ": needs --server: a server that is started for this command alone ",
        "has none"));
  }
  return absl::OkStatus();
}

std::string NameOfSizes(const SizeSource& source) {
  if (!source.file.empty()) return NameOfFile(source.file);
  return source.dataset.empty() ? absl::StrCat("histogram ", source.histogram)
                                : absl::StrCat("data set ", source.dataset);
}

absl::StatusOr<GraphSizes> ReadSizes(const SizeSource& source, const std::string& server) {
  if (!source.file.empty()) return ReadSizesFile(source.file);
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(server);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<v1::Histogram> stored =
      StoredSizes(connection->channel, source.dataset, source.histogram);
  if (!stored.ok()) return stored.status();
  return SizesOf(*stored);
}

absl::StatusOr<v1::Histogram> StoredSizes(const std::shared_ptr<grpc::Channel>& channel,
                                          const std::string& dataset,
                                          const std::string& histogram) {
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  if (!dataset.empty()) {
    v1::GetDatasetRequest request;
    request.set_name(dataset);
    request.set_include_histogram(true);
    v1::GetDatasetResponse response;
    const grpc::Status status =
        v1::DatasetService::NewStub(channel)->GetDataset(&context, request, &response);
    if (!status.ok()) return ToAbslStatus(status);
    return std::move(*response.mutable_histogram());
  }
  v1::GetHistogramRequest request;
  request.set_histogram(histogram);
  v1::GetHistogramResponse response;
  const grpc::Status status =
      v1::HistogramService::NewStub(channel)->GetHistogram(&context, request, &response);
  if (!status.ok()) return ToAbslStatus(status);
  return std::move(*response.mutable_histogram());
}

}  // namespace packhouse::client
