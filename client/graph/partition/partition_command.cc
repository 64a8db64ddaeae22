#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/graph/partition/partition_arguments.h"
#include "client/graph/partition/partition_commands.h"
#include "client/graph/partition/partition_table.h"
#include "service/wings/partition/engines/metis_engine.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition/jobs/partition_run.h"

namespace packhouse::client {
namespace {

constexpr const char* kPhases[] = {"reading", "assigning", "refining", "numbering", "writing"};

// A line that is written over, where somebody looks at it.
RunWatch ShowProgress() {
  RunWatch watch;
  if (::isatty(STDERR_FILENO) == 0) return watch;
  watch.progress = [last = -1](RunPhase phase, double share) mutable {
    const int percent = static_cast<int>(share * 100);
    if (percent == last) return;
    last = percent;
    std::cerr << absl::StrFormat("\r%3d %%  %-9s", percent, kPhases[static_cast<int>(phase)])
              << (percent == 100 ? "\r                \r" : "") << std::flush;
  };
  return watch;
}

ExitCode RunPartitionCommand(const PartitionArguments& arguments) {
  if (arguments.graph.empty() || arguments.output.empty()) {
    return Misuse(absl::InvalidArgumentError("GRAPH and --output DIR are required"));
  }
  if (arguments.parts == 0 && arguments.assignment.empty()) {
    return Misuse(absl::InvalidArgumentError("--parts N is required"));
  }
  const absl::StatusOr<std::unique_ptr<const SourceGraph>> graph = ReadLocalGraph(arguments.graph);
  if (!graph.ok()) return Fail(graph.status());
  const auto& sets = (*graph)->schema().node_sets();
  absl::StatusOr<PartitionPlan> plan = PlanOf(arguments, sets.size() == 1 ? sets[0].name : "");
  if (!plan.ok()) return Misuse(plan.status());
  plan->metis_weights = IsMetisGraphPath(arguments.graph);
  std::optional<GivenParts> given;
  if (!arguments.assignment.empty()) {
    const absl::StatusOr<HomogeneousGraph> homogeneous = HomogeneousGraph::Create(graph->get());
    if (!homogeneous.ok()) return Fail(homogeneous.status());
    absl::StatusOr<FolderAssignment> read =
        ReadAssignmentFolder(arguments.assignment, *homogeneous);
    if (!read.ok()) return Fail(read.status());
    if (arguments.parts != 0 && static_cast<uint64_t>(arguments.parts) != read->num_parts) {
      return Misuse(absl::InvalidArgumentError(
          absl::StrCat("--parts ", arguments.parts, ": --assignment ", arguments.assignment,
                       " has ", read->num_parts, " parts; leave --parts out to take these")));
    }
    plan->options.num_parts = read->num_parts;
    given = GivenParts{std::move(read->part), absl::StrCat("as ", arguments.assignment, " says")};
  }
  // Without the program, METIS is asked for in vain, and automatic streams.
  absl::StatusOr<std::unique_ptr<AssignmentEngine>> engine = FindMetis();
  const absl::StatusOr<PartitionReport> report =
      RunPartition(**graph, *plan, arguments.output, engine.ok() ? engine->get() : nullptr,
                   arguments.json ? RunWatch{} : ShowProgress(), given);
  if (!report.ok()) return Fail(report.status());
  if (arguments.json) {
    std::cout << ReportText(*report);
  } else {
    std::cout << PartitionTable(*report) << '\n' << PartitionPicture(*report);
  }
  return kExitOk;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AssignmentEngine>> FindMetis() {
  return MakeMetisEngine(MetisProgramHere());
}

void AddPartitionCommand(CLI::App& app, ExitCode& code) {
  CLI::App* const command =
      app.add_subcommand("partition", "Cut a large graph into parts for DGL's trainers");
  const auto arguments = std::make_shared<PartitionArguments>();
  AddPartitionOptions(*arguments, *command);
  AddPartitionRestore(*command, code);
  AddPartitionConvert(*command, code);
  AddPartitionExport(*command, code);
  AddPartitionDglpart(*command, code);
  AddPartitionOriginalIds(*command, code);
  command->callback([arguments, command, &code] {
    if (command->get_subcommands().empty()) code = RunPartitionCommand(*arguments);
  });
}

}  // namespace packhouse::client
