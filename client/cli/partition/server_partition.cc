#include "client/cli/partition/server_partition.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/channel.h"
#include "client/cpp/partition_client.h"
#include "client/graph/partition/partition_commands.h"
#include "client/graph/partition/partition_table.h"
#include "service/partition_jobs/original_ids.h"

namespace packhouse::client {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// From now on until its end SIGINT is counted, and does not end the program. Calls have deadlines.
class Interrupts {
 public:
  Interrupts() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int /*signal*/) { interrupted = interrupted + 1; };
    ::sigaction(SIGINT, &action, &before_);
  }
  ~Interrupts() { ::sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_ = {};
};

v1::PartitionMethod MethodToWire(PartMethod method) {
  switch (method) {
    case PartMethod::kAutomatic:
      return v1::PARTITION_METHOD_AUTOMATIC;
    case PartMethod::kMetis:
      return v1::PARTITION_METHOD_METIS;
    case PartMethod::kRandom:
      return v1::PARTITION_METHOD_RANDOM;
    case PartMethod::kStreaming:
      break;
  }
  return v1::PARTITION_METHOD_STREAMING;
}

PartMethod MethodOfWire(v1::PartitionMethod method) {
  switch (method) {
    case v1::PARTITION_METHOD_METIS:
      return PartMethod::kMetis;
    case v1::PARTITION_METHOD_RANDOM:
      return PartMethod::kRandom;
    default:
      return PartMethod::kStreaming;
  }
}

v1::PartitionRequest RequestOf(const PartitionArguments& arguments, const PartitionPlan& plan) {
  v1::PartitionRequest request;
  const PartitionOptions& options = plan.options;
  request.set_graph(arguments.graph);
  request.set_name(plan.name);
  request.set_num_parts(options.num_parts);
  request.set_method(MethodToWire(options.method));
  request.set_recursive(options.scheme == PartScheme::kRecursive);
  request.set_objective(options.objective == PartObjective::kVolume ? v1::PARTITION_OBJECTIVE_VOLUME
                                                                    : v1::PARTITION_OBJECTIVE_CUT);
  request.set_best_quality(options.quality == PartQuality::kBest);
  request.set_num_hops(options.num_hops);
  request.set_halo(options.halo == HaloKind::kInEdges ? v1::PARTITION_HALO_IN_EDGES
                                                      : v1::PARTITION_HALO_ALL);
  request.set_trainers_per_machine(options.trainers_per_machine);
  for (const PlannedClasses& given : plan.classes) {
    v1::PartitionClasses& classes = *request.add_balance_node_sets();
    classes.set_node_set(given.node_set);
    for (const std::string& column : given.columns) classes.add_columns(column);
  }
  request.set_balance_edges(options.balance_edges);
  request.set_imbalance(options.imbalance);
  request.set_seed(options.seed);
  if (plan.npy) request.add_formats(v1::PARTITION_FORMAT_NPY);
  if (plan.safetensors) request.add_formats(v1::PARTITION_FORMAT_SAFETENSORS);
  if (plan.forms.coo) request.add_graph_forms("coo");
  if (plan.forms.csr) request.add_graph_forms("csr");
  if (plan.forms.csc) request.add_graph_forms("csc");
  request.set_mapping(plan.mapping);
  request.set_assignment(plan.assignment);
  request.set_without_files(arguments.without_files);
  return request;
}

PartitionReport ReportOf(const v1::PartitionReport& wire) {
  PartitionReport report;
  Assignment& assignment = report.assignment;
  assignment.num_parts = static_cast<uint32_t>(wire.parts_size());
  assignment.method = MethodOfWire(wire.method());
  assignment.reason = wire.reason();
  assignment.notes.assign(wire.notes().begin(), wire.notes().end());
  assignment.cut_edges = wire.num_cut_edges();
  assignment.volume = wire.volume();
  for (const v1::PartitionBalance& from : wire.balance()) {
    assignment.balance.push_back({from.name(), from.total(), from.largest(), from.asked(),
                                  from.achieved(), from.met(), from.dropped()});
  }
  report.num_nodes = wire.num_nodes();
  report.num_edges = wire.num_edges();
  for (const v1::PartitionPart& from : wire.parts()) {
    report.parts.push_back({from.num_inner_nodes(), from.num_halo_nodes(), from.num_inner_edges(),
                            from.num_halo_edges(), from.num_cut_edges(), from.num_bytes()});
    assignment.nodes_of_part.push_back(from.num_inner_nodes());
    assignment.edges_of_part.push_back(from.num_inner_edges());
  }
  return report;
}

// One line that is written again, where somebody looks at it.
void ShowLine(const std::string& line) {
  if (::isatty(STDERR_FILENO) != 0) std::cerr << "\r\x1b[K" << line << std::flush;
}

std::string LineOf(const v1::PartitionJob& job) {
  if (job.state() == v1::PARTITION_STATE_WAITING) return "waiting for its turn";
  if (job.state() != v1::PARTITION_STATE_RUNNING) return "";
  std::string phase = v1::PartitionPhase_Name(job.phase());
  phase = absl::AsciiStrToLower(phase.substr(phase.rfind('_') + 1));
  std::string line = absl::StrFormat("%3.0f %%  %s", job.share_done() * 100, phase);
  if (job.estimated_seconds_left() > 0) {
    absl::StrAppendFormat(&line, ", about %.0f s left", job.estimated_seconds_left());
  }
  return line;
}

// Waits; after a SIGINT cancels the partition.
absl::StatusOr<v1::PartitionJob> WaitOrCancel(const PartitionClient& client,
                                              const v1::PartitionRequest& request) {
  auto job = client.Wait(request.graph(), request.name(), [](const v1::PartitionJob& now) {
    ShowLine(LineOf(now));
    return interrupted == 0;
  });
  ShowLine("");
  if (interrupted == 0) return job;
  job = client.Cancel(request.graph(), request.name());
  if (!job.ok() || job->state() == v1::PARTITION_STATE_DONE) return job;
  return absl::CancelledError(absl::StrCat("partition '", request.name(), "' of '", request.graph(),
                                           "' was cancelled; the same command goes on with it"));
}

absl::Status MakeParts(const PartitionClient& client, const PartitionArguments& arguments) {
  v1::PartitionDatasetRequest request;
  request.set_graph(arguments.graph);
  request.set_partition(arguments.name);
  request.set_dataset(arguments.dataset);
  request.set_halo(arguments.dataset_halo);
  const auto made = client.MakeDataset(request, [](const v1::PartitionDatasetResponse& response) {
    ShowLine(absl::StrCat(response.num_graphs(), " of ", response.num_graphs_total(),
                          " parts in the data set"));
  });
  ShowLine("");
  return made.status();
}

}  // namespace

ExitCode RunServerPartition(const PartitionArguments& arguments) {
  if (arguments.graph.empty()) {
    return Misuse(absl::InvalidArgumentError("GRAPH, the name of a source graph, is required"));
  }
  if (arguments.parts == 0) return Misuse(absl::InvalidArgumentError("--parts N is required"));
  if (!arguments.assignment.empty()) {
    return Misuse(absl::InvalidArgumentError(
        "--assignment: not with --server, which takes no files; `packhouse partition` without it "
        "partitions graphs in files"));
  }
  if (!arguments.memory.empty()) {
    return Misuse(absl::InvalidArgumentError(
        "--memory: not with --server, whose --memory-budget bounds what its partitions take"));
  }
  if (!arguments.time_limit.empty()) {
    return Misuse(
        absl::InvalidArgumentError("--time-limit: not with --server, where METIS works as long as "
                                   "it needs; Ctrl-C cancels the partition"));
  }
  if (arguments.original_ids && arguments.output.empty()) {
    return Misuse(absl::InvalidArgumentError(
        "--orig-ids: with --server they are made of the files that --output DIR downloads"));
  }
  if (arguments.without_files && !arguments.output.empty()) {
    return Misuse(absl::InvalidArgumentError("--output: not with --without-files"));
  }
  if (arguments.detach && (!arguments.output.empty() || !arguments.dataset.empty())) {
    return Misuse(absl::InvalidArgumentError("--detach: not with --output or --dataset"));
  }
  const absl::StatusOr<PartitionPlan> plan = PlanOf(arguments, "");
  if (!plan.ok()) return Misuse(plan.status());
  std::optional<Interrupts> interrupts(std::in_place);
  absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  const PartitionClient client(connection->channel);
  const v1::PartitionRequest request = RequestOf(arguments, *plan);
  absl::StatusOr<v1::PartitionJob> job = client.Partition(request);
  if (!job.ok()) return Fail(job.status());
  if (arguments.detach) {
    std::cout << "partition '" << request.name() << "' of '" << request.graph()
              << "' has begun; the same command without --detach waits for it\n";
    return kExitOk;
  }
  if (job->state() != v1::PARTITION_STATE_DONE) {
    std::cerr << "waiting for partition '" << request.name() << "' of '" << request.graph()
              << "'; Ctrl-C cancels it\n";
  }
  job = WaitOrCancel(client, request);
  // From here on Ctrl-C ends the program.
  interrupts.reset();
  if (!job.ok()) return Fail(job.status());
  if (!arguments.output.empty()) {
    const absl::Status downloaded =
        client.Download(*job, arguments.output, [&](const std::string& partial) {
          return arguments.original_ids ? AddOriginalIds(partial, arguments.name)
                                        : absl::OkStatus();
        });
    if (!downloaded.ok()) return Fail(downloaded);
  }
  if (!arguments.dataset.empty()) {
    const absl::Status made = MakeParts(client, arguments);
    if (!made.ok()) return Fail(made);
  }
  const PartitionReport report = ReportOf(job->report());
  if (arguments.json) {
    std::cout << ReportText(report);
  } else {
    std::cout << PartitionTable(report) << '\n' << PartitionPicture(report);
  }
  return kExitOk;
}

void AddPartitionCommands(CLI::App& app, ExitCode& code) {
  const std::shared_ptr<PartitionArguments> arguments = AddPartitionCommand(app, code);
  CLI::App& command = *app.get_subcommand("partition");
  AddServerOption(arguments->server, command);
  CLI::Option* const server =
      command.get_option("--server")
          ->description(
              "GRAPH is a source graph of this server, which cuts it and keeps the result");
  command
      .add_option("--dataset", arguments->dataset,
                  "Make the parts a data set of the server, for epochs that join parts")
      ->type_name("NAME")
      ->needs(server);
  command
      .add_flag("--dataset-halo", arguments->dataset_halo,
                "Parts of the data set have copies of the nodes at which their edges begin")
      ->needs("--dataset");
  command
      .add_flag("--without-files", arguments->without_files,
                "No files of parts: for --dataset with a fine partition")
      ->needs(server);
  command.add_flag("--detach", arguments->detach, "Begin, and do not wait for the end")
      ->needs(server);
  command.callback([arguments, &command, &code] {
    if (!command.get_subcommands().empty()) return;
    code =
        arguments->server.empty() ? RunLocalPartition(*arguments) : RunServerPartition(*arguments);
  });
}

}  // namespace packhouse::client
