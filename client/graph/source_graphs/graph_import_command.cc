#include "client/graph/source_graphs/graph_import_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/graph/byte_words.h"
#include "client/graph/source_graphs/graph_import.h"
#include "service/base/command_line/readable.h"
#include "service/base/command_line/table.h"

namespace packhouse::client {
namespace {

constexpr uint64_t kLeastChunkBytes = uint64_t{4} << 10;
// Below the bound that servers have for a message, unless they are told otherwise.
constexpr uint64_t kMostChunkBytes = uint64_t{32} << 20;

// Progress on stderr: on a terminal one line that is written again, elsewhere a line now and then.
class ImportDisplay {
 public:
  explicit ImportDisplay(bool quiet)
      : quiet_(quiet), on_terminal_(isatty(STDERR_FILENO) != 0), start_(absl::Now()) {
    next_ = start_ + Interval();
  }
  ImportDisplay(const ImportDisplay&) = delete;
  ImportDisplay& operator=(const ImportDisplay&) = delete;
  ~ImportDisplay() { Clear(); }

  void Show(const GraphImportTotals& totals, double sealed) {
    const absl::Time now = absl::Now();
    if (quiet_ || now < next_) return;
    next_ = now + Interval();
    std::string line;
    if (sealed >= 0) {
      line = absl::StrFormat("sealing, %.0f %%", 100 * sealed);
    } else {
      const double seconds = absl::ToDoubleSeconds(now - start_);
      line = absl::StrCat(Grouped(totals.nodes), " nodes, ", Grouped(totals.edges), " edges, ",
                          RateText(static_cast<double>(totals.bytes) / seconds));
    }
    if (on_terminal_) {
      std::cerr << "\r\x1b[K" << line << std::flush;
      is_shown_ = true;
    } else {
      std::cerr << "packhouse: " << line << '\n';
    }
  }

  void ShowRetry(const absl::Status& status, absl::Duration wait) {
    if (quiet_) return;
    Clear();
    std::cerr << "packhouse: " << status.message() << " ["
              << absl::StatusCodeToString(status.code()) << "], trying again in "
              << absl::FormatDuration(wait) << '\n';
  }

  void Clear() {
    if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;
    is_shown_ = false;
  }

 private:
  absl::Duration Interval() const {
    return on_terminal_ ? absl::Milliseconds(100) : absl::Seconds(10);
  }

  const bool quiet_;
  const bool on_terminal_;
  const absl::Time start_;
  absl::Time next_;
  bool is_shown_ = false;
};

absl::Status SetBytes(const std::string& option, const std::string& text, uint64_t least,
                      uint64_t most, uint64_t* bytes) {
  if (text.empty()) return absl::OkStatus();
  if (ParseBytes(text, *bytes) && *bytes >= least && *bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " '", text,
                                                 "': must be a number of bytes from ",
                                                 BytesText(least), " to ", BytesText(most)));
}

absl::StatusOr<GraphImportOptions> OptionsOf(const GraphImportArguments& arguments) {
  GraphImportOptions options;
  options.graph = arguments.graph;
  options.producer = arguments.producer;
  options.seal = arguments.seal;
  options.appended_only = arguments.appended_only;
  options.lookup = arguments.lookup == "source"   ? v1::EDGE_LOOKUP_BY_SOURCE
                   : arguments.lookup == "target" ? v1::EDGE_LOOKUP_BY_TARGET
                                                  : v1::EDGE_LOOKUP_BOTH;
  options.duplicates = arguments.duplicates == "first"  ? v1::DUPLICATE_NODES_FIRST
                       : arguments.duplicates == "last" ? v1::DUPLICATE_NODES_LAST
                                                        : v1::DUPLICATE_NODES_REFUSE;
  uint64_t chunk_bytes = options.chunk_bytes;
  absl::Status status = SetBytes("--chunk-bytes", arguments.chunk_bytes, kLeastChunkBytes,
                                 kMostChunkBytes, &chunk_bytes);
  options.chunk_bytes = chunk_bytes;
  if (status.ok()) {
    status = SetBytes("--max-bytes", arguments.max_bytes, 1, uint64_t{1} << 62, &options.max_bytes);
  }
  if (!status.ok()) return status;
  return options;
}

void ReportImport(const GraphImportResult& result, absl::Duration elapsed) {
  const GraphImportTotals& totals = result.totals;
  const double seconds = absl::ToDoubleSeconds(elapsed);
  std::cout << absl::StrFormat(
      "%s: %s nodes and %s edges, %s of these rows had been there; %s in %.2f s\n",
      result.graph.name(), Grouped(totals.nodes), Grouped(totals.edges),
      Grouped(totals.rows_present), BytesText(totals.bytes), seconds);
  TextTable table({{"set", ""}, {"rows", ""}, {"from", ""}, {"to", ""}});
  const v1::SourceGraphSchema& schema = result.graph.schema();
  for (int i = 0; i < std::min(schema.node_sets_size(), result.graph.num_nodes_size()); ++i) {
    table.AddRow({schema.node_sets(i).name(), Grouped(result.graph.num_nodes(i))});
  }
  for (int i = 0; i < std::min(schema.edge_sets_size(), result.graph.num_edges_size()); ++i) {
    table.AddRow({schema.edge_sets(i).name(), Grouped(result.graph.num_edges(i)),
                  schema.edge_sets(i).source(), schema.edge_sets(i).target()});
  }
  std::cout << table.Render();
  const bool is_sealed = result.graph.state() == v1::SOURCE_GRAPH_STATE_SEALED;
  std::cout << (is_sealed ? "sealed, " : "open, ") << BytesText(result.graph.num_bytes())
            << " on disk\n";
}

struct ImportCommandArguments {
  GraphImportArguments into;
  std::string source;
  std::string ogb_name;
  std::vector<std::string> reverses;
};

ExitCode RunImport(const ImportCommandArguments& arguments) {
  absl::StatusOr<SourceTables> tables = OpenSourceTables(arguments.source, arguments.ogb_name);
  if (!tables.ok()) return Fail(tables.status());
  ShowNotes(tables->notes);
  const absl::Status status = AddReverses(arguments.reverses, &*tables);
  if (!status.ok()) return Misuse(status);
  return RunGraphImport(arguments.into, *tables);
}

}  // namespace

ExitCode RunGraphImport(const GraphImportArguments& arguments, const SourceTables& tables) {
  absl::StatusOr<GraphImportOptions> options = OptionsOf(arguments);
  if (!options.ok()) return Misuse(options.status());
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  const absl::Time start = absl::Now();
  ImportDisplay display(arguments.quiet);
  options->on_progress = [&](const GraphImportTotals& totals, double sealed) {
    display.Show(totals, sealed);
  };
  options->retry.on_wait = [&](const absl::Status& status, absl::Duration wait) {
    display.ShowRetry(status, wait);
  };
  const absl::StatusOr<GraphImportResult> result =
      ImportGraph(*options, connection->servers, tables);
  display.Clear();
  if (!result.ok()) return Fail(result.status());
  ShowNotes(result->notes);
  if (!arguments.quiet) ReportImport(*result, absl::Now() - start);
  return kExitOk;
}

void AddOgbNameOption(std::string& name, CLI::App& command) {
  command
      .add_option("--ogb-name", name,
                  "Which data set of OGB the folder has, as in ogbn-arxiv, where its own name does "
                  "not say it: OGB adds to some the edges the other way. as-is: take the edges as "
                  "the files have them")
      ->type_name("NAME");
}

void ShowNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << "packhouse: " << Readable(note) << '\n';
}

void AddGraphImportOptions(GraphImportArguments& arguments, CLI::App& command) {
  AddServerOption(arguments.server, kOwnServer, command);
  command.get_option("--server")->description("HOST:PORT or unix:PATH");
  command
      .add_option("--graph", arguments.graph,
                  "The source graph. It is created if the server does not have it")
      ->type_name("NAME");
  command.add_flag("--seal", arguments.seal,
                   "Take no more rows afterwards, and build what is sampled from");
  command
      .add_option("--lookup", arguments.lookup,
                  "By which end the edges of a new graph can be looked up: sampling needs the "
                  "source, and also the target of sets that have a reverse")
      ->check(CLI::IsMember({"both", "source", "target"}))
      ->capture_default_str();
  command
      .add_option("--duplicates", arguments.duplicates,
                  "What --seal does with a node that is there twice with different rows")
      ->check(CLI::IsMember({"refuse", "first", "last"}))
      ->capture_default_str();
  command.add_flag(
      "--appended-only", arguments.appended_only,
      "--seal refuses an edge that ends at a node without a row. Otherwise such a node "
      "gets zeros in every column, and a line tells of it");
  command
      .add_option("--max-bytes", arguments.max_bytes,
                  "Most bytes that a new graph may take on the server's disk, as in 10GiB")
      ->type_name("BYTES");
  command
      .add_option("--chunk-bytes", arguments.chunk_bytes,
                  "Bytes that are stored at once, 4MiB by default. An import that was interrupted "
                  "goes on only with the same value")
      ->type_name("BYTES");
  command
      .add_option("--producer", arguments.producer,
                  "The name under which the server remembers how far this source is; made from "
                  "the files' names, lengths and times by default, and remembered for a week")
      ->type_name("NAME");
  command.add_flag("--quiet", arguments.quiet, "Print errors only");
}

void AddGraphImportCommand(CLI::App& graph, ExitCode& code) {
  auto arguments = std::make_shared<ImportCommandArguments>();
  CLI::App* const command =
      graph.add_subcommand("import",
                           "Store a large graph. After a crash, run the same command again. It "
                           "goes on and stores nothing twice");
  command
      ->add_option("source", arguments->source,
                   "A unigraph of TF-GNN (schema.pbtxt, or its folder); arrays of numpy (FILE.npz, "
                   "or a folder of nodes/SET/COLUMN.npy and edges/SOURCE.NAME.TARGET/...); DGL's "
                   "chunked graph (metadata.json, or its folder); or the folder of a data set that "
                   "OGB downloaded")
      ->required()
      ->type_name("SOURCE");
  AddGraphImportOptions(arguments->into, *command);
  command->get_option("--server")->required();
  command->get_option("--graph")->required();
  AddOgbNameOption(arguments->ogb_name, *command);
  command
      ->add_option(
          "--reverse", arguments->reverses,
          "Also have the edge set NAME, the reverse of EDGE_SET, as in written=writes; may "
          "be repeated")
      ->type_name("NAME=EDGE_SET");
  command->callback([arguments, &code] { code = RunImport(*arguments); });
}

}  // namespace packhouse::client
