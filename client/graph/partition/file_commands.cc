// Commands that work on the files of partitions.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/graph/partition/partition_arguments.h"
#include "client/graph/partition/partition_commands.h"
#include "service/base/command_line/table.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_exports.h"
#include "service/wings/partition/jobs/original_order.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"

namespace packhouse::client {
namespace {

struct ConvertArguments {
  ParmetisConversion conversion;
  std::string node_attributes = "float32";
  std::string edge_attributes = "float32";
};

struct ExportArguments {
  std::string graph;
  std::string format = "metis";
  std::string output;
  std::string name = "graph";
  uint64_t chunks = 1;
};

DType AttributeType(const std::string& name) {
  for (const DType dtype : {DType::kFloat64, DType::kInt32, DType::kInt64}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return DType::kFloat32;
}

ExitCode RunConvert(const ConvertArguments& arguments) {
  ParmetisConversion conversion = arguments.conversion;
  conversion.node_attributes = AttributeType(arguments.node_attributes);
  conversion.edge_attributes = AttributeType(arguments.edge_attributes);
  const absl::StatusOr<PartitionJson> json = ConvertParmetisFolder(conversion);
  if (!json.ok()) return Fail(json.status());
  std::cout << conversion.output << ": " << Grouped(json->num_nodes) << " nodes and "
            << Grouped(json->num_edges) << " edges in " << Grouped(json->parts.size())
            << " parts\n";
  return kExitOk;
}

ExitCode RunExport(const ExportArguments& arguments) {
  const absl::StatusOr<std::unique_ptr<const SourceGraph>> source = ReadLocalGraph(arguments.graph);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<HomogeneousGraph> graph = HomogeneousGraph::Create(source->get());
  if (!graph.ok()) return Fail(graph.status());
  if (arguments.format == "parmetis") {
    const absl::Status status = WriteParmetisFolder(*graph, arguments.output, arguments.name);
    return status.ok() ? kExitOk : Fail(status);
  }
  if (arguments.format == "chunked") {
    const absl::StatusOr<std::vector<std::string>> notes =
        WriteChunkedFolder(*graph, {arguments.name, arguments.chunks}, arguments.output);
    if (!notes.ok()) return Fail(notes.status());
    for (const std::string& note : *notes) std::cerr << "packhouse: " << note << '\n';
    return kExitOk;
  }
  const std::string partial = arguments.output + ".partial";
  absl::Status status = RemoveFolder(partial);
  if (status.ok()) {
    status = WriteDurably(partial, [&graph](ByteSink& sink) {
               return WriteMetisGraphOf(*graph, sink);
             }).status();
  }
  if (status.ok()) status = RenameDurably(partial, arguments.output);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddPartitionRestore(CLI::App& partition, ExitCode& code) {
  struct RestoreArguments {
    RestoreRequest request;
    int64_t part = -1;
  };
  const auto arguments = std::make_shared<RestoreArguments>();
  CLI::App* const command = partition.add_subcommand(
      "restore", "Put rows that trainers made, such as embeddings, into the original order");
  command
      ->add_option("ROWS", arguments->request.inputs,
                   "One .npy file with all rows in the order of new ids, or one for each part")
      ->required();
  command->add_option("--partition", arguments->request.json, "NAME.json of the partition")
      ->required()
      ->type_name("DIR/NAME.json");
  command->add_option(
      "--type", arguments->request.type,
      "Node type, or edge type source:relation:target; needed if there are several");
  command->add_option("--part", arguments->part, "ROWS has the rows of this part alone")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--output", arguments->request.output, "The .npy file to write")->required();
  command->callback([arguments, &code] {
    RestoreRequest request = arguments->request;
    if (arguments->part >= 0) request.part = static_cast<uint64_t>(arguments->part);
    const absl::StatusOr<uint64_t> rows = RestoreRows(request);
    if (rows.ok()) std::cout << request.output << ": " << Grouped(*rows) << " rows\n";
    code = rows.ok() ? kExitOk : Fail(rows.status());
  });
}

void AddPartitionConvert(CLI::App& partition, ExitCode& code) {
  const auto arguments = std::make_shared<ConvertArguments>();
  ParmetisConversion& conversion = arguments->conversion;
  CLI::App* const command = partition.add_subcommand(
      "convert", "Make a partition of what the pipeline around ParMETIS wrote");
  command->add_option("--schema", conversion.schema, "The JSON file of types and their ids")
      ->required();
  command->add_option("--input-dir", conversion.input_folder, "Has p000-NAME_nodes.txt and so on")
      ->required();
  command->add_option("--graph-name", conversion.graph_name, "NAME")->required();
  command->add_option("--num-parts", conversion.num_parts, "How many parts")->required();
  command->add_option("--num-node-weights", conversion.num_weights, "Weights of each node")
      ->required();
  command->add_option(
      "--removed-edges", conversion.removed_edges,
      "Self loops and duplicates that were taken out; NAME_removed_edges.txt in the "
      "input is found by itself");
  for (auto [option, value] : {std::pair("--node-attr-dtype", &arguments->node_attributes),
                               std::pair("--edge-attr-dtype", &arguments->edge_attributes)}) {
    command->add_option(option, *value, "The type of attributes")
        ->check(CLI::IsMember({"float32", "float64", "int32", "int64"}))
        ->capture_default_str();
  }
  command->add_option("--output", conversion.output, "The new folder of the partition")->required();
  command->callback([arguments, &code] { code = RunConvert(*arguments); });
}

void AddPartitionExport(CLI::App& partition, ExitCode& code) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* const command =
      partition.add_subcommand("export", "Write a graph for other partitioners");
  command->add_option("GRAPH", arguments->graph, "As for `partition`")->required();
  command
      ->add_option("--format", arguments->format,
                   "metis: a graph file; parmetis: a folder of text files; chunked: a folder with "
                   "metadata.json, from which DGL's newer pipeline partitions")
      ->check(CLI::IsMember({"metis", "parmetis", "chunked"}))
      ->capture_default_str();
  command->add_option("--name", arguments->name, "NAME of the text files, or in metadata.json")
      ->capture_default_str();
  command->add_option("--chunks", arguments->chunks, "chunked: files for each table")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--output", arguments->output, "The file or the folder to write")->required();
  command->callback([arguments, &code] { code = RunExport(*arguments); });
}

void AddPartitionOriginalIds(CLI::App& partition, ExitCode& code) {
  struct Arguments {
    std::string folder;
    std::string name = "graph";
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* const command = partition.add_subcommand(
      "orig-ids", "Write orig_nids.dgl and orig_eids.dgl into the folder of a partition");
  // No group: it is hidden.
  command->group("");
  command->add_option("FOLDER", arguments->folder, "That of the partition")->required();
  command->add_option("--name", arguments->name, "NAME of FOLDER/NAME.json")->capture_default_str();
  command->callback([arguments, &code] {
    const absl::Status status = AddOriginalIds(arguments->folder, arguments->name);
    code = status.ok() ? kExitOk : Fail(status);
  });
}

}  // namespace packhouse::client
