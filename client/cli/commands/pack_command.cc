#include "client/cli/commands/pack_command.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/files/device_file.h"
#include "client/cli/next_fit.h"
#include "client/cli/reports/pack_report.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/pack_stream.h"
#include "client/graph/files/sizes_file.h"

namespace packhouse::client {
namespace {

// Bounds the memory of an expanded histogram to some gigabytes.
constexpr uint64_t kMaxGraphs = uint64_t{1} << 28;
// With messages of this size, the cost of the message itself does not matter.
constexpr std::size_t kGraphsPerChunk = 8192;

struct PackArguments {
  std::string server;
  std::string sizes;
  std::vector<std::string> limits;
  std::string device;
  uint32_t calibration_graphs = 0;
  uint32_t look_ahead = 0;
  uint32_t max_age = 0;
  bool watches_drift = false;
  v1::Padding padding = v1::PADDING_NONE;
  std::optional<uint64_t> shuffle_seed;
  std::string output;
};

// `ids` has one id per row, or is empty: then row i is graph i.
absl::Status SendAll(const GraphSizes& sizes, const std::vector<uint64_t>& ids,
                     PackStream& stream) {
  for (std::size_t begin = 0; begin < sizes.num_rows; begin += kGraphsPerChunk) {
    const std::size_t graphs = std::min(kGraphsPerChunk, sizes.num_rows - begin);
    const std::size_t width = sizes.components.size();
    v1::SizeTable table;
    table.set_num_graphs(graphs);
    if (ids.empty()) {
      table.set_first_id(begin);
    } else {
      AppendLittleEndian(absl::MakeConstSpan(ids).subspan(begin, graphs),
                         *table.mutable_graph_ids());
    }
    AppendLittleEndian(absl::MakeConstSpan(sizes.values).subspan(begin * width, graphs * width),
                       *table.mutable_counts());
    if (absl::Status status = stream.SendSizes(std::move(table)); !status.ok()) return status;
  }
  return stream.HalfClose();
}

// Takes in one batch and checks what a user relies on: ids are the file's, none comes twice.
absl::Status Receive(const v1::Batch& batch, PackResult& result) {
  const LittleEndianView<uint64_t> ids(batch.graph_ids());
  if (static_cast<std::size_t>(batch.real_rows_size()) != result.totals.rows.size()) {
    return absl::InternalError(absl::StrCat("batch ", batch.id(), " has ", batch.real_rows_size(),
                                            " real_rows, expected ", result.totals.rows.size()));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= result.batch_of_graph.size() || result.batch_of_graph[ids[i]] != kNoBatch) {
      return absl::InternalError(absl::StrCat("batch ", batch.id(), " has graph ", ids[i],
                                              ", which was not sent or came in a batch before"));
    }
    result.batch_of_graph[ids[i]] = batch.id();
  }
  ++result.totals.batches;
  result.totals.graphs += ids.size();
  for (std::size_t k = 0; k < result.totals.rows.size(); ++k) {
    result.totals.rows[k] += batch.real_rows(static_cast<int>(k));
    if (result.tuned) result.totals.padded_rows[k] += batch.rows(static_cast<int>(k));
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(PackStream& stream, PackResult& result) {
  while (true) {
    absl::StatusOr<std::optional<v1::PackResponse>> response = stream.Next();
    if (!response.ok()) return response.status();
    if (!response->has_value()) return absl::OkStatus();
    if ((*response)->has_batch()) {
      if (absl::Status status = Receive((*response)->batch(), result); !status.ok()) return status;
    } else if ((*response)->has_tuned()) {
      result.tuned = (*response)->tuned();
      result.totals.padded_rows.resize(result.totals.rows.size());
    } else if ((*response)->has_drifted()) {
      result.drifted.push_back((*response)->drifted());
    } else if ((*response)->has_rejected()) {
      const auto& rejections = (*response)->rejected().rejections();
      if (!result.first_rejected && !rejections.empty()) result.first_rejected = rejections[0];
      result.totals.rejected += static_cast<uint64_t>(rejections.size());
    }
  }
}

absl::StatusOr<PackResult> PackSizes(const PackArguments& arguments, const PackTarget& target,
                                     const GraphSizes& sizes, const std::vector<uint64_t>& ids) {
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return connection.status();
  const auto stub = v1::PackingService::NewStub(connection->channel);
  v1::PackOpen open;
  open.mutable_schema()->mutable_components()->Add(sizes.components.begin(),
                                                   sizes.components.end());
  if (target.device) {
    *open.mutable_device_profile() = *target.device;
    open.mutable_calibration()->set_num_graphs(arguments.calibration_graphs);
  } else {
    *open.mutable_limits() = target.limits;
  }
  open.set_padding(arguments.padding);
  open.set_look_ahead(arguments.look_ahead);
  open.set_max_age(arguments.max_age);
  open.set_payload(v1::PAYLOAD_SIZES);
  if (arguments.watches_drift) open.mutable_drift();
  absl::StatusOr<std::unique_ptr<PackStream>> stream = PackStream::Open(*stub, open);
  if (!stream.ok()) return stream.status();

  PackResult result;
  result.opened = (*stream)->opened();
  result.totals.rows.resize(sizes.components.size() + 1);
  result.batch_of_graph.assign(sizes.num_rows, kNoBatch);
  const auto start = std::chrono::steady_clock::now();
  // Its status is that of the stream; the reader gets it.
  std::thread writer([&] { (void)SendAll(sizes, ids, **stream); });
  const absl::Status received = ReceiveAll(**stream, result);
  if (!received.ok()) (*stream)->Cancel();
  writer.join();
  result.elapsed = std::chrono::steady_clock::now() - start;
  if (!received.ok()) return received;
  if (result.totals.graphs + result.totals.rejected != sizes.num_rows) {
    return absl::InternalError(absl::StrCat(result.totals.graphs, " graphs came back and ",
                                            result.totals.rejected, " were rejected of ",
                                            sizes.num_rows));
  }
  return result;
}

absl::Status WriteAssignment(const std::string& path, const PackResult& result) {
  std::ofstream file(path);
  file << "graph_id,batch_id\n";
  for (std::size_t graph = 0; graph < result.batch_of_graph.size(); ++graph) {
    const uint64_t batch = result.batch_of_graph[graph];
    if (batch != kNoBatch) file << graph << ',' << batch << '\n';
  }
  file.close();
  if (!file) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// A stream that loses most of its graphs is not what anybody wants, though the server did as told.
ExitCode CheckRejected(const PackArguments& arguments, const PackingTotals& totals) {
  if (totals.rejected <= totals.graphs) return kExitOk;
  return Fail(absl::OutOfRangeError(absl::StrCat(
      totals.rejected, " of ", totals.graphs + totals.rejected,
      " graphs, which is most of them, do not fit the limits and are left out: raise ",
      arguments.device.empty() ? "--limit"
                               : "what the profile of --device allows (max_rows, memory_bytes)")));
}

absl::StatusOr<PackTarget> TargetOf(const PackArguments& arguments,
                                    const std::vector<std::string>& components) {
  if (arguments.device.empty() == arguments.limits.empty()) {
    return absl::InvalidArgumentError(
        "--limit or --device is needed: the limits, or the device to choose them for; not both");
  }
  PackTarget target;
  if (arguments.device.empty()) {
    if (arguments.calibration_graphs != 0) {
      return absl::InvalidArgumentError("--calibration-graphs chooses limits: it needs --device");
    }
    absl::StatusOr<v1::Limits> limits = ParseLimits(arguments.limits, components);
    if (!limits.ok()) return limits.status();
    target.limits = *std::move(limits);
    return target;
  }
  absl::StatusOr<v1::DeviceProfile> device = ReadDeviceFile(arguments.device);
  if (!device.ok()) return device.status();
  target.device = *std::move(device);
  return target;
}

ExitCode RunPack(const PackArguments& arguments) {
  absl::StatusOr<GraphSizes> sizes = ReadSizesFile(arguments.sizes);
  if (!sizes.ok()) return Fail(sizes.status());
  const absl::StatusOr<PackTarget> target = TargetOf(arguments, sizes->components);
  if (!target.ok()) return Misuse(target.status());
  sizes = ExpandHistogram(*std::move(sizes), kMaxGraphs);
  if (!sizes.ok()) {
    return Fail(absl::Status(sizes.status().code(),
                             absl::StrCat(arguments.sizes, ": ", sizes.status().message())));
  }
  std::vector<uint64_t> ids;
  if (arguments.shuffle_seed.has_value()) ids = ShuffleRows(*arguments.shuffle_seed, *sizes);
  const absl::StatusOr<PackResult> result = PackSizes(arguments, *target, *sizes, ids);
  if (!result.ok()) return Fail(result.status());
  PrintPackReport({.sizes = arguments.sizes,
                   .device = arguments.device,
                   .is_padded = arguments.padding != v1::PADDING_NONE,
                   .shuffle_seed = arguments.shuffle_seed},
                  *target, *sizes, *result);
  if (!arguments.output.empty()) {
    if (absl::Status status = WriteAssignment(arguments.output, *result); !status.ok()) {
      return Fail(status);
    }
  }
  return CheckRejected(arguments, result->totals);
}

}  // namespace

void AddPackCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* const command =
      app.add_subcommand("pack", "Stream graph sizes and see how full the batches are");
  AddSizesOption(arguments->sizes, *command);
  AddLimitOption(arguments->limits, *command);
  command
      ->add_option("--device", arguments->device,
                   "Instead of --limit: a device profile, for which the server chooses the limits; "
                   "JSON with the fields of packhouse.v1.DeviceProfile")
      ->type_name("FILE.json");
  command
      ->add_option("--calibration-graphs", arguments->calibration_graphs,
                   "With --device: from how many of the first graphs; 0: 2,000")
      ->type_name("N");
  command->add_option("--look-ahead", arguments->look_ahead,
                      "Graphs the packer may choose from; 0 is the server's default");
  command->add_option("--max-age", arguments->max_age,
                      "Graphs after which a graph is in the next pack; 0: four look-aheads");
  const std::map<std::string, v1::Padding> paddings = {{"none", v1::PADDING_NONE},
                                                       {"masked", v1::PADDING_MASKED},
                                                       {"graph", v1::PADDING_GRAPH},
                                                       {"tfgnn", v1::PADDING_TFGNN}};
  command
      ->add_option(
          "--padding", arguments->padding,
          "none, masked, graph (keeps a graph and its first row free), or tfgnn (keeps a graph "
          "free)")
      ->type_name("KIND")
      ->transform(CLI::CheckedTransformer(paddings));
  command
      ->add_option("--shuffle", arguments->shuffle_seed,
                   "Send the graphs in a random order made from this seed. A histogram has them "
                   "sorted, and no stream is sorted")
      ->type_name("SEED");
  command->add_flag("--drift", arguments->watches_drift,
                    "Tell when the sizes change so that other limits would waste less. In an order "
                    "by kind they change with each kind: see --shuffle");
  command->add_option("--output", arguments->output, "Write graph_id,batch_id (row numbers from 0)")
      ->type_name("FILE.csv");
  AddServerOption(arguments->server, *command);
  command->callback([arguments, &code] { code = RunPack(*arguments); });
}

}  // namespace packhouse::client
