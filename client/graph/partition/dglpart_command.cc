// Text files of the pipeline around ParMETIS, cut by the engines here.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "client/graph/partition/partition_arguments.h"
#include "client/graph/partition/partition_commands.h"
#include "service/base/command_line/table.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "service/wings/partition/jobs/partition_report.h"

namespace packhouse::client {
namespace {

struct DglpartArguments {
  ParmetisPartition partition;
  std::string method = "automatic";
};

ExitCode RunDglpart(const DglpartArguments& arguments) {
  ParmetisPartition partition = arguments.partition;
  partition.options.method = MethodOf(arguments.method);
  const absl::StatusOr<std::unique_ptr<AssignmentEngine>> engine = FindMetis();
  const absl::StatusOr<Assignment> made =
      PartitionParmetisFolder(partition, engine.ok() ? engine->get() : nullptr);
  if (!made.ok()) return Fail(made.status());
  std::cout << partition.output << ": " << Grouped(made->num_parts) << " parts by "
            << MethodName(made->method) << " (" << made->reason << "), " << Grouped(made->cut_edges)
            << " edges are cut\n";
  for (const std::string& note : made->notes) std::cerr << "packhouse: " << note << '\n';
  for (const BalanceReport& balance : made->balance) {
    if (balance.met) continue;
    std::cerr << "packhouse: " << balance.name << ": the largest part has " << balance.achieved
              << " of the mean, " << balance.asked << " was asked for"
              << (balance.dropped.empty() ? "" : ": ") << balance.dropped << '\n';
  }
  return kExitOk;
}

}  // namespace

void AddPartitionDglpart(CLI::App& partition, ExitCode& code) {
  const auto arguments = std::make_shared<DglpartArguments>();
  ParmetisPartition& words = arguments->partition;
  words.options.num_parts = 0;
  CLI::App* const command = partition.add_subcommand(
      "dglpart",
      "Cut the text files of the pipeline around ParMETIS, as pm_dglpart does; then convert them");
  command
      ->add_option("--input-dir", words.input_folder,
                   "Has NAME_nodes.txt, NAME_edges.txt and NAME_stats.txt")
      ->required();
  command->add_option("--graph-name", words.graph_name, "NAME")->required();
  command->add_option("--parts", words.options.num_parts, "How many parts")
      ->check(CLI::Range(1, 65536))
      ->required();
  AddMethodOption(arguments->method, *command);
  command->add_option("--imbalance", words.options.imbalance, "The largest part over the mean")
      ->capture_default_str();
  command->add_option("--seed", words.options.seed, "Seed")->capture_default_str();
  command->add_option("--output", words.output, "The new folder, for p000-NAME_nodes.txt and so on")
      ->required();
  command->callback([arguments, &code] { code = RunDglpart(*arguments); });
}

}  // namespace packhouse::client
