#include "client/graph/tfgnn/tfgnn_commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/graph/files/input_file.h"
#include "client/graph/source_graphs/convert_ogb_command.h"
#include "client/graph/tfgnn/tfrecord_files.h"
#include "google/protobuf/text_format.h"
#include "service/base/command_line/table.h"
#include "service/base/in_file.h"
#include "service/base/seeded_random.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "service/wings/tfgnn/random_graphs.h"
#include "tensorflow/core/example/example.pb.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kShownRows = 3;

ExitCode RunValidate(const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadInputFile(path);
  if (!bytes.ok()) return Fail(bytes.status());
  const auto fail = [&path](const absl::Status& status) { return Fail(InFile(path, status)); };
  const absl::StatusOr<tensorflow_gnn::GraphSchema> schema = tfgnn::ParseGraphSchema(*bytes);
  if (!schema.ok()) return fail(schema.status());
  const absl::StatusOr<std::vector<std::string>> warnings = tfgnn::ValidateGraphSchema(*schema);
  if (!warnings.ok()) return fail(warnings.status());
  for (const std::string& warning : *warnings) {
    std::cerr << "packhouse: warning: " << path << ": " << warning << '\n';
  }
  const absl::StatusOr<tfgnn::GraphSets> sets = tfgnn::GraphSets::FromTfgnn(*schema);
  if (!sets.ok()) return fail(sets.status());
  TextTable table({{"tensor", ""}, {"type", ""}, {"along", ""}, {"points into", ""}});
  for (const TensorSpec& tensor : sets->schema().tensors()) {
    tfgnn::Feature type;
    type.shape.assign(tensor.row_shape.begin(), tensor.row_shape.end());
    type.dtype = tensor.dtype;
    table.AddRow(
        {tensor.name, TypeText(type), std::string(sets->schema().sizes().name(tensor.component)),
         tensor.index_into ? std::string(sets->schema().sizes().name(*tensor.index_into)) : ""});
  }
  std::cout << path << ": valid: " << sets->node_sets().size() << " node sets, "
            << sets->edge_sets().size() << " edge sets; in packhouse "
            << sets->schema().num_components() << " components and these tensors\n"
            << table.Render();
  return kExitOk;
}

struct PrintArguments {
  TfgnnArguments common;
  std::string mode = "json";
};

std::string Shortened(const Json& rows) {
  const Json shown(rows.begin(),
                   rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), kShownRows)));
  std::string text = shown.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t kMaxShown = 70;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return rows.size() > kShownRows ? text + " ..." : text;
}

void PrintTable(const tfgnn::GraphSets& sets, const GraphChunk& graph) {
  TextTable table({{"set", ""}, {"rows", ""}, {"feature", ""}, {"type", ""}, {"first values", ""}});
  const auto add = [&](const tfgnn::RowSet& set, const std::string& name) {
    const std::string rows = absl::StrCat(graph.count(0, set.component));
    if (set.features.empty()) table.AddRow({name, rows});
    for (const tfgnn::Feature& feature : set.features) {
      table.AddRow(
          {name, rows, feature.name, TypeText(feature), Shortened(FeatureRows(feature, graph, 0))});
    }
  };
  if (!sets.context().features.empty()) add(sets.context(), "(context)");
  for (const tfgnn::RowSet& set : sets.node_sets()) add(set, set.name);
  for (const tfgnn::EdgeSet& set : sets.edge_sets()) {
    add(set, absl::StrCat(set.name, " (", sets.node_sets()[set.source_set].name, " -> ",
                          sets.node_sets()[set.target_set].name, ")"));
  }
  std::cout << "record " << graph.sizes().graph_id(0) << '\n' << table.Render() << '\n';
}

ExitCode RunPrint(const PrintArguments& arguments) {
  const absl::StatusOr<tfgnn::GraphSets> sets = ReadGraphSets(arguments.common.graph_schema);
  if (!sets.ok()) return Fail(sets.status());
  const absl::Status status = ForEachExample(
      *sets, arguments.common.examples, [&](const GraphChunk& graph, absl::string_view record) {
        if (arguments.mode == "json") {
          std::cout
              << GraphJson(*sets, graph, 0).dump(-1, ' ', false, Json::error_handler_t::replace)
              << '\n';
        } else if (arguments.mode == "table") {
          PrintTable(*sets, graph);
        } else {
          tensorflow::Example example;
          if (!example.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
            return absl::InvalidArgumentError(
                absl::StrCat("record ", graph.sizes().graph_id(0), ": protobuf does not parse it"));
          }
          std::string text;
          google::protobuf::TextFormat::PrintToString(example, &text);
          std::cout << "# record " << graph.sizes().graph_id(0) << '\n' << text;
        }
        return absl::OkStatus();
      });
  return status.ok() ? kExitOk : Fail(status);
}

struct GenerateArguments {
  std::string graph_schema;
  std::string output;
  uint64_t count = 100;
  uint64_t seed = 0;
};

absl::Status Generate(const GenerateArguments& arguments) {
  const absl::StatusOr<tfgnn::GraphSets> sets = ReadGraphSets(arguments.graph_schema);
  if (!sets.ok()) return sets.status();
  const absl::StatusOr<std::vector<std::string>> paths = FilesToWrite(arguments.output);
  if (!paths.ok()) return paths.status();
  const absl::StatusOr<std::unique_ptr<TfrecordWriter>> writer = TfrecordWriter::Create(*paths);
  if (!writer.ok()) return writer.status();
  tfgnn::ExampleEncoder encoder(*sets);
  tfgnn::RowBuilder rows(sets->shared_schema());
  SeededRandom random(arguments.seed);
  std::string record;
  for (uint64_t i = 0; i < arguments.count; ++i) {
    absl::Status status = tfgnn::AppendRandomGraph(*sets, {}, random, rows);
    if (!status.ok()) return status;
    const absl::StatusOr<GraphChunk> graph = rows.Build(i);
    if (!graph.ok()) return graph.status();
    record.clear();
    status = encoder.Append(*graph, 0, &record);
    if (status.ok()) status = (*writer)->Write(record);
    if (!status.ok()) return status;
  }
  return (*writer)->Finish();
}

}  // namespace

void AddGraphSchemaOption(std::string& path, CLI::App& command) {
  command.add_option("--graph-schema", path, "TF-GNN's schema of the records, as text or binary")
      ->required()
      ->type_name("SCHEMA");
}

void AddExamplesOptions(TfgnnArguments& arguments, CLI::App& command) {
  AddGraphSchemaOption(arguments.graph_schema, command);
  command
      .add_option("--examples,examples", arguments.examples.patterns,
                  "TFRecord files of tf.Examples: FILE, a glob, or FILE@N for N shards; gzip is "
                  "fine")
      ->required()
      ->type_name("FILES");
  command.add_option("--key-prefix", arguments.examples.key_prefix, "Comes before every key")
      ->type_name("TEXT");
}

void AddTfgnnValidate(CLI::App& tfgnn, ExitCode& code) {
  auto path = std::make_shared<std::string>();
  CLI::App* const command = tfgnn.add_subcommand(
      "validate", "Check a schema as TF-GNN does, and show which tensors packhouse makes of it");
  command->add_option("schema", *path, "TF-GNN's schema, as text or binary")
      ->required()
      ->type_name("SCHEMA");
  command->callback([path, &code] { code = RunValidate(*path); });
}

void AddTfgnnPrint(CLI::App& tfgnn, ExitCode& code) {
  auto arguments = std::make_shared<PrintArguments>();
  arguments->common.examples.most = 10;
  CLI::App* const command = tfgnn.add_subcommand("print", "Show the graphs of TFRecord files");
  AddExamplesOptions(arguments->common, *command);
  command->add_option("-n,--num-examples", arguments->common.examples.most, "0: all")
      ->type_name("COUNT")
      ->capture_default_str();
  command->add_option("--mode", arguments->mode, "json: a graph a line")
      ->check(CLI::IsMember({"json", "textproto", "table"}))
      ->capture_default_str();
  command->callback([arguments, &code] { code = RunPrint(*arguments); });
}

void AddTfgnnGenerate(CLI::App& tfgnn, ExitCode& code) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* const command =
      tfgnn.add_subcommand("generate", "Write random graphs that obey a schema");
  command->add_option("schema", arguments->graph_schema, "TF-GNN's schema, as text or binary")
      ->required()
      ->type_name("SCHEMA");
  command
      ->add_option("--output", arguments->output, "FILE, or FILE@N for N shards; .gz is compressed")
      ->required()
      ->type_name("FILE");
  command->add_option("-n,--num-examples", arguments->count, "Graphs")
      ->type_name("COUNT")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "The same seed gives the same graphs")
      ->type_name("NUMBER")
      ->capture_default_str();
  command->callback([arguments, &code] {
    const absl::Status status = Generate(*arguments);
    code = status.ok() ? kExitOk : Fail(status);
  });
}

void AddTfgnnCommand(CLI::App& app, ExitCode& code) {
  CLI::App* const command =
      app.add_subcommand("tfgnn", "Work with TF-GNN's schemas and TFRecords of tf.Examples");
  command->require_subcommand(1);
  AddTfgnnValidate(*command, code);
  AddTfgnnPrint(*command, code);
  AddTfgnnGenerate(*command, code);
  AddTfgnnStats(*command, code);
  AddTfgnnSizeConstraints(*command, code);
  AddConvertOgbCommand(*command, code);
}

}  // namespace packhouse::client
