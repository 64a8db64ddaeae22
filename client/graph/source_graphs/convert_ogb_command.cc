#include "client/graph/source_graphs/convert_ogb_command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/graph/source_graphs/graph_import_command.h"
#include "client/graph/source_graphs/ogb_tables.h"
#include "client/graph/source_graphs/table_writers.h"
#include "service/base/command_line/table.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

struct ConvertOgbArguments {
  std::string folder;
  std::string name;
  std::string output;
  uint32_t shards = 1;
  std::vector<std::string> reverses;
};

// `seeds-PART.csv` with the ids of a split's nodes, as samplers take them.
absl::Status WriteSeeds(const std::string& path, const OgbSplit& split,
                        const UnigraphOptions& options) {
  std::ofstream file(path, std::ios::binary);
  file << "id\n";
  for (const int64_t node : split.nodes) {
    file << UnigraphId(split.node_set, node, options) << '\n';
  }
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status ConvertOgb(const ConvertOgbArguments& arguments) {
  PH_ASSIGN_OR_RETURN(SourceTables tables, OpenOgbTables(arguments.folder, arguments.name));
  ShowNotes(tables.notes);
  PH_RETURN_IF_ERROR(AddReverses(arguments.reverses, &tables));
  PH_ASSIGN_OR_RETURN(const OgbSplits splits, ReadOgbSplits(arguments.folder));
  ShowNotes(splits.notes);
  UnigraphOptions options;
  options.shards = arguments.shards;
  options.ids_have_set_names = tables.schema.node_sets().size() > 1;
  PH_RETURN_IF_ERROR(MakeFolder(arguments.output));
  for (const OgbSplit& split : splits.parts) {
    // One set has the task's nodes; its files have the plain names.
    PH_RETURN_IF_ERROR(
        WriteSeeds(absl::StrCat(arguments.output, "/seeds-", split.part, ".csv"), split, options));
  }
  PH_ASSIGN_OR_RETURN(const WrittenTables written,
                      WriteUnigraph(tables, arguments.output, options));
  std::cout << arguments.output << ": wrote " << Grouped(written.num_nodes) << " nodes and "
            << Grouped(written.num_edges) << " edges, with graph_schema.pbtxt\n";
  return absl::OkStatus();
}

}  // namespace

void AddConvertOgbCommand(CLI::App& tfgnn, ExitCode& code) {
  auto arguments = std::make_shared<ConvertOgbArguments>();
  CLI::App* const command = tfgnn.add_subcommand(
      "convert-ogb",
      "Write a downloaded data set of OGB (one large graph) as a unigraph: "
      "graph_schema.pbtxt, nodes-SET.tfrecords, edges-SET.tfrecords, and seeds-train.csv, "
      "seeds-valid.csv, seeds-test.csv of its split");
  command->add_option("folder", arguments->folder, "The folder that has raw/ and split/")
      ->required()
      ->type_name("FOLDER");
  AddOgbNameOption(arguments->name, *command);
  command->add_option("--output", arguments->output, "A folder, which is made")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--shards", arguments->shards, "Files of each table")
      ->check(CLI::Range(1, 99'999))
      ->type_name("COUNT")
      ->capture_default_str();
  command
      ->add_option("--reverse", arguments->reverses,
                   "Also declare the edge set NAME, the reverse of EDGE_SET, as in "
                   "written=writes; may be repeated")
      ->type_name("NAME=EDGE_SET");
  command->callback([arguments, &code] {
    const absl::Status status = ConvertOgb(*arguments);
    code = status.ok() ? kExitOk : Fail(status);
  });
}

}  // namespace packhouse::client
