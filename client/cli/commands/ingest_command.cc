#include "client/cli/commands/ingest_command.h"

#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/device_arguments.h"
#include "client/cli/files/graph_source.h"
#include "client/cli/ingest.h"
#include "client/cli/reports/dataset_report.h"
#include "client/cli/reports/ingest_progress.h"
#include "client/cli/tfgnn/examples_source.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

constexpr uint64_t kMinChunkBytes = uint64_t{4} << 10;
// Below the bound that servers have for a message, unless they are told otherwise.
constexpr uint64_t kMaxChunkBytes = uint64_t{32} << 20;
constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
constexpr absl::Duration kLineInterval = absl::Seconds(10);

struct IngestArguments {
  std::string server;
  std::string source;
  std::string dataset;
  std::string producer;
  std::string groups;
  std::string max_bytes;
  std::vector<std::string> max_rows;
  bool cuts_oversize = false;
  std::string chunk_bytes;
  // Set: the source has tf.Examples.
  std::string graph_schema;
  ExamplesOptions examples;
  bool seal = false;
  bool quiet = false;
};

// Shows progress on stderr: a bar on one line of a terminal, which goes at the end; elsewhere a
// line now and then.
class ProgressDisplay {
 public:
  ProgressDisplay(bool quiet, IngestProgress progress)
      : quiet_(quiet),
        on_terminal_(isatty(STDERR_FILENO) != 0),
        progress_(std::move(progress)),
        next_(absl::Now() + (on_terminal_ ? absl::ZeroDuration() : kLineInterval)) {}
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay() { Clear(); }

  void Show(const IngestTotals& totals) {
    const absl::Time now = absl::Now();
    progress_.Update(totals, now);
    if (quiet_ || now < next_) return;
    if (on_terminal_) {
      std::cerr << "\r\x1b[K" << progress_.Bar() << std::flush;
      is_shown_ = true;
      next_ = now + kBarInterval;
    } else {
      std::cerr << "packhouse: " << progress_.Line() << '\n';
      next_ = now + kLineInterval;
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
  const bool quiet_;
  const bool on_terminal_;
  IngestProgress progress_;
  absl::Time next_;
  bool is_shown_ = false;
};

void Report(const IngestArguments& arguments, const IngestResult& result, absl::Duration elapsed) {
  const IngestTotals& totals = result.totals;
  const double seconds = absl::ToDoubleSeconds(elapsed);
  std::cout << absl::StrFormat(
      "%s: stored %s graphs, %s had been there; %s in %.2f s, %s\n", arguments.dataset,
      Grouped(totals.graphs_stored), Grouped(totals.graphs_present), BytesText(totals.bytes),
      seconds, RateText(seconds > 0 ? static_cast<double>(totals.bytes) / seconds : 0));
  if (totals.pieces_stored > totals.graphs_stored) {
    std::cout << "graphs beyond the bounds were cut: they are stored as "
              << Grouped(totals.pieces_stored) << " graphs with their pieces\n";
  }
  std::cout << DatasetTable({result.dataset});
  if (!arguments.quiet && result.graphs_before > 0 && totals.graphs_present == 0 &&
      totals.graphs_stored > 0) {
    std::cerr << "packhouse: the data set had " << Grouped(result.graphs_before)
              << " graphs before, which were not taken for these: they came from another source, "
                 "or with another --chunk-bytes or --producer\n";
  }
}

struct OpenedSource {
  std::unique_ptr<GraphSource> source;
  // The same, if it is of tf.Examples.
  ExamplesSource* examples = nullptr;
};

absl::StatusOr<OpenedSource> OpenSource(const IngestArguments& arguments) {
  OpenedSource opened;
  if (arguments.graph_schema.empty()) {
    absl::StatusOr<std::unique_ptr<GraphSource>> source =
        OpenGraphSource(arguments.source, arguments.groups);
    if (!source.ok()) return source.status();
    opened.source = *std::move(source);
    return opened;
  }
  if (!arguments.groups.empty()) {
    return absl::InvalidArgumentError("--groups names an array; records have none");
  }
  ExamplesOptions options = arguments.examples;
  options.graph_schema = arguments.graph_schema;
  options.pattern = arguments.source;
  absl::StatusOr<std::unique_ptr<ExamplesSource>> source = ExamplesSource::Open(options);
  if (!source.ok()) return source.status();
  opened.examples = source->get();
  opened.source = *std::move(source);
  return opened;
}

// Those that were left out here, or by the server.
void ReportSkipped(const ExamplesSource& source, const IngestTotals& totals) {
  const uint64_t num_skipped = source.num_skipped() + totals.num_skipped;
  if (num_skipped == 0) return;
  std::cerr << "packhouse: left out " << Grouped(num_skipped) << " malformed records\n";
  for (const std::string& message : source.skipped()) std::cerr << "  " << message << '\n';
  for (const v1::SkippedExample& skipped : totals.skipped) {
    std::cerr << "  " << source.Describe(skipped.graph_id(), skipped.message()) << '\n';
  }
}

ExitCode RunIngest(const IngestArguments& arguments) {
  IngestOptions options;
  options.dataset = arguments.dataset;
  options.producer = arguments.producer;
  options.seal = arguments.seal;
  if (!arguments.max_bytes.empty() && !ParseBytes(arguments.max_bytes, options.max_bytes)) {
    return Misuse(absl::InvalidArgumentError(absl::StrCat(
        "--max-bytes '", arguments.max_bytes, "': must be a number of bytes, as in 10GiB")));
  }
  if (!arguments.chunk_bytes.empty() &&
      (!ParseBytes(arguments.chunk_bytes, options.chunk_bytes) ||
       options.chunk_bytes < kMinChunkBytes || options.chunk_bytes > kMaxChunkBytes)) {
    return Misuse(absl::InvalidArgumentError(
        absl::StrCat("--chunk-bytes '", arguments.chunk_bytes, "': must be a number of bytes from ",
                     BytesText(kMinChunkBytes), " to ", BytesText(kMaxChunkBytes))));
  }
  const absl::StatusOr<OpenedSource> opened = OpenSource(arguments);
  if (!opened.ok()) return Fail(opened.status());
  GraphSource& source = *opened->source;
  const auto& components = source.schema().components();
  const absl::StatusOr<v1::Limits> max_rows =
      ParseLimits(arguments.max_rows, {components.begin(), components.end()}, "--max-rows");
  if (!max_rows.ok()) return Misuse(max_rows.status());
  options.max_rows.assign(max_rows->capacities().begin(), max_rows->capacities().end());
  options.cuts_oversize = arguments.cuts_oversize;
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());

  uint64_t bytes = 0;
  for (uint64_t i = 0; i < source.num_graphs(); ++i) bytes += source.GraphBytes(i);
  const absl::Time start = absl::Now();
  ProgressDisplay display(arguments.quiet, IngestProgress(source.num_graphs(), bytes, start));
  options.on_progress = [&](const IngestTotals& totals) { display.Show(totals); };
  options.retry.on_wait = [&](const absl::Status& status, absl::Duration wait) {
    display.ShowRetry(status, wait);
  };
  const absl::StatusOr<IngestResult> result = Ingest(options, connection->channel, source);
  display.Clear();
  if (!result.ok()) return Fail(result.status());
  if (!arguments.quiet) Report(arguments, *result, absl::Now() - start);
  if (opened->examples != nullptr) ReportSkipped(*opened->examples, result->totals);
  return kExitOk;
}

}  // namespace

void AddIngestCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<IngestArguments>();
  CLI::App* const command =
      app.add_subcommand("ingest",
                         "Store graphs in a data set. After a crash, run the same command again. "
                         "It goes on and stores nothing twice");
  command
      ->add_option("source", arguments->source,
                   "FILE.npz of graphs (node_offsets, edge_offsets, edge_index, x, ...; or, of "
                   "several kinds of nodes and edges, paper.offsets, paper.x, "
                   "author.writes.paper.offsets, author.writes.paper.edge_index, ...), or CSV of "
                   "sizes (num_nodes,num_edges,...), .gz is fine; - reads sizes from stdin. With "
                   "--graph-schema TFRecord files of tf.Examples: FILE, a glob, or FILE@N")
      ->required()
      ->type_name("SOURCE");
  AddServerOption(arguments->server, *command);
  command->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  command
      ->add_option("--dataset", arguments->dataset,
                   "The data set. It is created if the server does not have it")
      ->required()
      ->type_name("NAME");
  command->add_flag("--seal", arguments->seal,
                    "Take no more graphs afterwards, so that epochs can be loaded");
  command
      ->add_option("--groups", arguments->groups,
                   "Array with the group id of each graph, for groups that stay together")
      ->type_name("ARRAY");
  command
      ->add_option("--graph-schema", arguments->graph_schema,
                   "TF-GNN's schema of the records, as text or binary")
      ->type_name("SCHEMA");
  command
      ->add_option("--key-prefix", arguments->examples.key_prefix,
                   "Comes before every key of the records")
      ->type_name("TEXT");
  command
      ->add_option("--readout", arguments->examples.readout,
                   "Give each graph of tf.Examples a read-out from the first node of a set")
      ->type_name("KEY=NODE_SET");
  command->add_flag("--skip-malformed", arguments->examples.skip_malformed,
                    "Leave out malformed records, and count them");
  command
      ->add_option("--max-bytes", arguments->max_bytes,
                   "Most bytes the data set may take on the server's disk, as in 10GiB")
      ->type_name("BYTES");
  CLI::Option* const max_rows =
      command
          ->add_option(
              "--max-rows", arguments->max_rows,
              "Most rows of a component in one graph, as in nodes=4000; repeat it per "
              "component. A larger graph ends the ingest, unless --oversize says otherwise")
          ->type_name("COMPONENT=ROWS")
          ->allow_extra_args(false);
  const std::map<std::string, bool> policies = {{"error", false}, {"partition", true}};
  command
      ->add_option("--oversize", arguments->cuts_oversize,
                   "Graphs beyond --max-rows: error, or partition: they are cut into pieces that "
                   "fit, and the pieces are stored")
      ->type_name("POLICY")
      ->transform(CLI::CheckedTransformer(policies).description(""))
      ->needs(max_rows);
  command
      ->add_option("--chunk-bytes", arguments->chunk_bytes,
                   "Bytes that are stored at once, 1MiB by default. An ingest that was interrupted "
                   "goes on only with the same value")
      ->type_name("BYTES");
  command
      ->add_option("--producer", arguments->producer,
                   "The name under which the server remembers how far this source is; made from "
                   "its content by default, and remembered for a week")
      ->type_name("NAME");
  command->add_flag("--quiet", arguments->quiet, "Print errors only");
  command->callback([arguments, &code] { code = RunIngest(*arguments); });
}

}  // namespace packhouse::client
