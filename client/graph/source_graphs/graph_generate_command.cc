#include "client/graph/source_graphs/graph_generate_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "client/graph/source_graphs/graph_import_command.h"
#include "client/graph/source_graphs/mag_tables.h"
#include "client/graph/source_graphs/table_writers.h"
#include "service/base/command_line/table.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

struct GenerateMagArguments {
  MagOptions options;
  std::string output;
  std::string format = "npy";
  GraphImportArguments into;
};

absl::Status WriteTables(const GenerateMagArguments& arguments, const SourceTables& tables) {
  PH_ASSIGN_OR_RETURN(const WrittenTables written,
                      arguments.format == "npy"
                          ? WriteArrays(tables, arguments.output)
                          : WriteUnigraph(tables, arguments.output, UnigraphOptions()));
  std::cout << arguments.output << ": wrote " << Grouped(written.num_nodes) << " nodes and "
            << Grouped(written.num_edges) << " edges\n";
  return absl::OkStatus();
}

ExitCode RunGenerateMag(const GenerateMagArguments& arguments) {
  const bool is_stored = !arguments.into.server.empty() && !arguments.into.graph.empty();
  if (is_stored == !arguments.output.empty()) {
    return Misuse(absl::InvalidArgumentError(
        "either --output, or --server and --graph, must say where the graph goes"));
  }
  const absl::StatusOr<SourceTables> tables = OpenMagTables(arguments.options);
  if (!tables.ok()) return Misuse(tables.status());
  if (is_stored) return RunGraphImport(arguments.into, *tables);
  const absl::Status status = WriteTables(arguments, *tables);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddGraphGenerateCommand(CLI::App& graph, ExitCode& code) {
  CLI::App* const generate =
      graph.add_subcommand("generate", "Draw a large graph in the shape of a known one");
  generate->require_subcommand(1);
  auto arguments = std::make_shared<GenerateMagArguments>();
  CLI::App* const mag = generate->add_subcommand(
      "mag",
      "Papers, authors, institutions and fields, as many as OGBN-MAG has: 1,939,743 nodes, "
      "21,111,007 edges, 128 floats a paper. The same scale and seed give the same graph");
  mag->add_option("--scale", arguments->options.scale, "Of all counts")
      ->type_name("FACTOR")
      ->capture_default_str();
  mag->add_option("--seed", arguments->options.seed)->type_name("NUMBER")->capture_default_str();
  mag->add_option("--output", arguments->output, "Write files into a folder, which is made")
      ->type_name("FOLDER");
  mag->add_option("--format", arguments->format,
                  "npy: arrays of numbers; unigraph: TFRecords and a schema, as TF-GNN has them")
      ->check(CLI::IsMember({"npy", "unigraph"}))
      ->capture_default_str();
  AddGraphImportOptions(arguments->into, *mag);
  mag->callback([arguments, &code] { code = RunGenerateMag(*arguments); });
}

}  // namespace packhouse::client
