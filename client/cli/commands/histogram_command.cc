#include "client/cli/commands/histogram_command.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/plots/gnuplot.h"
#include "client/cli/plots/histogram_plot.h"
#include "client/cli/reports/histogram_summary.h"
#include "client/cli/size_source.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/status.h"
#include "client/graph/files/sizes_file.h"
#include "grpcpp/client_context.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kGraphsPerRequest = 8192;

struct HistogramArguments {
  std::string server;
  std::string sizes;
  std::string name;
  std::string dataset;
  std::string csv;
  std::string plot;
  std::vector<std::string> axes;
  std::vector<std::string> limits;
};

absl::Status CheckAnswer(uint64_t counted, uint64_t sent) {
  if (counted == sent) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server counted ", counted, " of ", sent, " graphs"));
}

// Streams one size for each graph, and waits for the answer to each request.
absl::Status ObserveSizes(v1::HistogramService::StubInterface& stub, const std::string& name,
                          const GraphSizes& sizes) {
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  const auto stream = stub.Observe(&context);
  const std::size_t width = sizes.components.size();
  absl::Status counted;
  // Without rows there is one request, too: it makes the histogram.
  for (std::size_t begin = 0; begin == 0 || begin < sizes.num_rows; begin += kGraphsPerRequest) {
    const std::size_t graphs = std::min(kGraphsPerRequest, sizes.num_rows - begin);
    v1::ObserveRequest request;
    if (begin == 0) {
      request.set_histogram(name);
      request.mutable_components()->Add(sizes.components.begin(), sizes.components.end());
    }
    request.mutable_sizes()->set_num_graphs(graphs);
    AppendLittleEndian(absl::MakeConstSpan(sizes.values).subspan(begin * width, graphs * width),
                       *request.mutable_sizes()->mutable_counts());
    v1::ObserveResponse response;
    // After a failure the stream's status has the reason.
    if (!stream->Write(request) || !stream->Read(&response)) break;
    counted = CheckAnswer(response.num_counted(), graphs);
    if (!counted.ok()) break;
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  return status.ok() ? counted : ToAbslStatus(status);
}

absl::Status MergeCounts(v1::HistogramService::StubInterface& stub, const std::string& name,
                         const GraphSizes& sizes) {
  absl::StatusOr<v1::Histogram> addend = MakeHistogram(sizes);
  if (!addend.ok()) return addend.status();
  v1::MergeHistogramRequest request;
  request.set_histogram(name);
  *request.mutable_addend() = *std::move(addend);
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  v1::MergeHistogramResponse response;
  return ToAbslStatus(stub.MergeHistogram(&context, request, &response));
}

// Counts the file in a temporary histogram on the server.
absl::StatusOr<v1::Histogram> CountFile(const std::shared_ptr<grpc::Channel>& channel,
                                        const GraphSizes& sizes) {
  const auto stub = v1::HistogramService::NewStub(channel);
  std::random_device random;
  const std::string name = absl::StrFormat("packhouse-cli/%08x%08x", random(), random());
  const absl::Status counted =
      sizes.is_histogram() ? MergeCounts(*stub, name, sizes) : ObserveSizes(*stub, name, sizes);
  absl::StatusOr<v1::Histogram> histogram = counted.ok()
                                                ? StoredSizes(channel, /*dataset=*/"", name)
                                                : absl::StatusOr<v1::Histogram>(counted);
  // After a failure there may be nothing to remove, and the failure matters more.
  v1::DeleteHistogramRequest request;
  request.set_histogram(name);
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  v1::DeleteHistogramResponse response;
  (void)stub->DeleteHistogram(&context, request, &response);
  return histogram;
}

absl::Status PrintSummary(const std::string& name, const v1::Histogram& histogram,
                          std::size_t distinct) {
  const absl::StatusOr<std::string> summary = HistogramSummary(histogram);
  if (!summary.ok()) return summary.status();
  std::cout << absl::StrFormat("%d graphs of %d sizes in %s\n\n", histogram.num_graphs(), distinct,
                               name)
            << *summary;
  return absl::OkStatus();
}

ExitCode RunHistogram(const HistogramArguments& arguments) {
  const int num_sources = (arguments.sizes.empty() ? 0 : 1) + (arguments.name.empty() ? 0 : 1) +
                          (arguments.dataset.empty() ? 0 : 1);
  if (num_sources != 1) {
    return Misuse(absl::InvalidArgumentError("one of --sizes, --name and --dataset is needed"));
  }
  for (const auto& [option, value, what] :
       {std::tuple("--name", &arguments.name, "histograms"),
        std::tuple("--dataset", &arguments.dataset, "data sets")}) {
    if (value->empty() || !arguments.server.empty()) continue;
    return Misuse(absl::InvalidArgumentError(
        absl::StrCat(option, " '", *value, "' needs --server: a server that is started for this ",
                     "command has no ", what)));
  }
  if (!arguments.limits.empty() && arguments.plot.empty()) {
    return Misuse(absl::InvalidArgumentError("--limit draws lines: it needs --plot"));
  }
  absl::StatusOr<GraphSizes> sizes = GraphSizes{};
  if (!arguments.sizes.empty()) {
    sizes = ReadSizesFile(arguments.sizes);
    if (!sizes.ok()) return Fail(sizes.status());
  }
  absl::StatusOr<v1::Histogram> histogram = absl::UnknownError("");
  {
    const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
    if (!connection.ok()) return Fail(connection.status());
    histogram = arguments.sizes.empty()
                    ? StoredSizes(connection->channel, arguments.dataset, arguments.name)
                    : CountFile(connection->channel, *sizes);
  }
  if (!histogram.ok()) return Fail(histogram.status());
  absl::StatusOr<GraphSizes> counted = SizesOf(*histogram);
  if (!counted.ok()) return Fail(counted.status());

  const std::string name = !arguments.dataset.empty() ? "data set " + arguments.dataset
                           : arguments.name.empty()   ? NameOfFile(arguments.sizes)
                                                      : "histogram " + arguments.name;
  std::string script;
  if (!arguments.plot.empty()) {
    const absl::StatusOr<v1::Limits> limits = ParseLimits(arguments.limits, counted->components);
    if (!limits.ok()) return Misuse(limits.status());
    HistogramView view;
    view.components = arguments.axes.empty() ? counted->components : arguments.axes;
    if (limits->capacities_size() > 0) {
      view.shapes = {CapacitiesAlong(view.components, *limits)};
    }
    const absl::StatusOr<std::string> picture =
        HistogramPicture(arguments.plot,
                         absl::StrCat(name, ": ", Grouped(histogram->num_graphs()), " graphs, ",
                                      Grouped(counted->num_rows), " sizes"),
                         view, *counted);
    if (!picture.ok()) {
      return Misuse(
          absl::InvalidArgumentError(absl::StrCat("--plot, --axes: ", picture.status().message())));
    }
    script = *picture;
  }
  if (absl::Status status = PrintSummary(name, *histogram, counted->num_rows); !status.ok()) {
    return Fail(status);
  }
  if (!arguments.csv.empty()) {
    if (absl::Status status = WriteHistogramFile(arguments.csv, *counted); !status.ok()) {
      return Fail(status);
    }
  }
  if (!arguments.plot.empty()) {
    if (absl::Status status = DrawWithGnuplot(script, arguments.plot); !status.ok()) {
      return Fail(status);
    }
  }
  return kExitOk;
}

}  // namespace

void AddHistogramCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<HistogramArguments>();
  CLI::App* const command =
      app.add_subcommand("histogram", "Sum up the sizes of graphs, write or draw their histogram");
  command
      ->add_option("--sizes", arguments->sizes,
                   "CSV of graph sizes (num_nodes,num_edges,...), one graph a row or with a column "
                   "`count`; .gz is fine")
      ->type_name("FILE");
  command->add_option("--name", arguments->name, "Use a histogram of the server instead")
      ->type_name("NAME");
  command->add_option("--dataset", arguments->dataset, "Use the sizes of a data set of the server")
      ->type_name("NAME");
  command->add_option("--csv", arguments->csv, "Write num_nodes,num_edges,...,count")
      ->type_name("FILE");
  command->add_option("--plot", arguments->plot, "Draw it (with gnuplot): FILE.svg or FILE.png")
      ->type_name("FILE");
  AddAxesOption(arguments->axes, "else all", *command);
  AddLimitOption(arguments->limits, *command);
  AddServerOption(arguments->server, *command);
  command->callback([arguments, &code] { code = RunHistogram(*arguments); });
}

}  // namespace packhouse::client
