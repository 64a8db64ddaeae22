#include "client/cli/commands/pack_command.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/files/sizes_file.h"
#include "client/cli/next_fit.h"
#include "client/cli/reports/table.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/pack_stream.h"

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
  uint32_t look_ahead = 0;
  uint32_t max_age = 0;
  v1::Padding padding = v1::PADDING_NONE;
  std::optional<uint64_t> shuffle_seed;
  std::string output;
};

struct PackingTotals {
  uint64_t batches = 0;
  uint64_t graphs = 0;
  // Graphs that alone exceed the capacities; they are in no batch and in no total.
  uint64_t rejected = 0;
  // Real rows per component, then graphs.
  std::vector<uint64_t> rows;
};

struct PackResult {
  v1::PackOpened opened;
  PackingTotals totals;
  // The batch of each graph of the file; kNoBatch if it was rejected.
  std::vector<uint64_t> batch_of_graph;
  std::chrono::duration<double> elapsed{};
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
    } else if ((*response)->has_rejected()) {
      result.totals.rejected += static_cast<uint64_t>((*response)->rejected().rejections_size());
    }
  }
}

absl::StatusOr<PackResult> PackSizes(const PackArguments& arguments, const v1::Limits& limits,
                                     const GraphSizes& sizes, const std::vector<uint64_t>& ids) {
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return connection.status();
  const auto stub = v1::PackingService::NewStub(connection->channel);
  v1::PackOpen open;
  open.mutable_schema()->mutable_components()->Add(sizes.components.begin(),
                                                   sizes.components.end());
  *open.mutable_limits() = limits;
  open.set_padding(arguments.padding);
  open.set_look_ahead(arguments.look_ahead);
  open.set_max_age(arguments.max_age);
  open.set_payload(v1::PAYLOAD_SIZES);
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

// The totals of next-fit for the same graphs.
PackingTotals NextFitTotals(const GraphSizes& sizes, const std::vector<uint64_t>& capacities) {
  const std::size_t width = sizes.components.size();
  const std::vector<uint64_t> batches = NextFit(sizes.values, capacities);
  PackingTotals totals;
  totals.rows.resize(width + 1);
  for (std::size_t row = 0; row < sizes.num_rows; ++row) {
    if (batches[row] == kNoBatch) {
      ++totals.rejected;
      continue;
    }
    totals.batches = batches[row] + 1;
    ++totals.graphs;
    for (std::size_t k = 0; k < width; ++k) totals.rows[k] += sizes.Row(row)[k];
  }
  totals.rows[width] = totals.graphs;
  return totals;
}

void Report(const PackArguments& arguments, const v1::Limits& limits, const GraphSizes& sizes,
            const PackResult& result) {
  std::vector<std::string> components = sizes.components;
  components.emplace_back("graphs");
  const std::vector<uint64_t> capacities = CapacitiesOf(result.opened.limits(), sizes.components);
  const std::vector<uint64_t> usable = CapacitiesOf(result.opened.usable(), sizes.components);
  const uint64_t bound = VolumeBound(result.totals.rows, usable);

  std::cout << absl::StrFormat(
      "%d graphs of %s in %s; limits %s; look-ahead %d\n", sizes.num_rows,
      NameOfFile(arguments.sizes),
      arguments.shuffle_seed.has_value()
          ? absl::StrCat("random order (seed ", *arguments.shuffle_seed, ")")
          : "the file's order",
      Describe(result.opened.limits()), result.opened.look_ahead());
  if (Describe(result.opened.usable()) != Describe(result.opened.limits())) {
    std::cout << "usable beside the padding " << Describe(result.opened.usable()) << '\n';
  }
  std::cout << '\n';

  std::vector<TextTable::Column> columns = {
      {"", ""}, {"graphs", ""}, {"rejected", ""}, {"batches", ""}, {"gap %", ""}};
  // The server itself gives `graphs` a capacity; it says nothing about hardware.
  const auto is_limited = [&](std::size_t k) {
    return std::any_of(limits.capacities().begin(), limits.capacities().end(),
                       [&](const v1::Capacity& c) { return c.component() == components[k]; });
  };
  for (std::size_t k = 0; k < components.size(); ++k) {
    if (is_limited(k)) columns.push_back({components[k] + " %", "efficiency"});
  }
  TextTable table(columns);
  const auto add = [&](const std::string& name, const PackingTotals& totals) {
    std::vector<std::string> cells = {
        name, absl::StrCat(totals.graphs), absl::StrCat(totals.rejected),
        absl::StrCat(totals.batches),
        bound == 0 ? "-"
                   : Percent(static_cast<double>(totals.batches) / static_cast<double>(bound) - 1)};
    for (std::size_t k = 0; k < components.size(); ++k) {
      if (!is_limited(k)) continue;
      cells.push_back(totals.batches == 0 ? "-"
                                          : Percent(static_cast<double>(totals.rows[k]) /
                                                    (static_cast<double>(totals.batches) *
                                                     static_cast<double>(capacities[k]))));
    }
    table.AddRow(std::move(cells));
  };
  add("packhouse", result.totals);
  add("next-fit, in this order", NextFitTotals(sizes, usable));
  add("no fewer batches than", {.batches = bound,
                                .graphs = result.totals.graphs,
                                .rejected = result.totals.rejected,
                                .rows = result.totals.rows});
  std::cout << table.Render();
  std::cout << absl::StrFormat("\n%.0f graphs/s, %.3f s\n",
                               static_cast<double>(sizes.num_rows) / result.elapsed.count(),
                               result.elapsed.count());
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

ExitCode RunPack(const PackArguments& arguments) {
  absl::StatusOr<GraphSizes> sizes = ReadSizesFile(arguments.sizes);
  if (!sizes.ok()) return Fail(sizes.status());
  const absl::StatusOr<v1::Limits> limits = ParseLimits(arguments.limits, sizes->components);
  if (!limits.ok()) return Misuse(limits.status());
  sizes = ExpandHistogram(*std::move(sizes), kMaxGraphs);
  if (!sizes.ok()) {
    return Fail(absl::Status(sizes.status().code(),
                             absl::StrCat(arguments.sizes, ": ", sizes.status().message())));
  }
  std::vector<uint64_t> ids;
  if (arguments.shuffle_seed.has_value()) ids = ShuffleRows(*arguments.shuffle_seed, *sizes);
  const absl::StatusOr<PackResult> result = PackSizes(arguments, *limits, *sizes, ids);
  if (!result.ok()) return Fail(result.status());
  Report(arguments, *limits, *sizes, *result);
  if (!arguments.output.empty()) {
    if (absl::Status status = WriteAssignment(arguments.output, *result); !status.ok()) {
      return Fail(status);
    }
  }
  return kExitOk;
}

}  // namespace

void AddPackCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* const command =
      app.add_subcommand("pack", "Stream graph sizes and see how full the batches are");
  AddSizesOption(arguments->sizes, *command);
  AddLimitOption(arguments->limits, *command);
  command->get_option("--limit")->required();
  command->add_option("--look-ahead", arguments->look_ahead,
                      "Graphs the packer may choose from; 0: the server's default");
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
                   "Send the graphs in a random order made from this seed; a histogram has them "
                   "sorted, which no stream is")
      ->type_name("SEED");
  command->add_option("--output", arguments->output, "Write graph_id,batch_id (row numbers from 0)")
      ->type_name("FILE.csv");
  AddServerOption(arguments->server, *command);
  command->callback([arguments, &code] { code = RunPack(*arguments); });
}

}  // namespace packhouse::client
