// Source graphs: the flags, the store in the data folder, and what is told of it.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/base/status_macros.h"
#include "service/program/byte_flag.h"
#include "service/program/flag_checks.h"
#include "service/program/wing.h"
#include "service/program/wings/graphs_in_folder.h"
#include "service/stores/keys/uses.h"
#include "service/stores/limits/data_folder.h"
#include "service/wings/graphs/services/graph_server.h"
#include "service/wings/graphs/source_graphs/retained_source_graphs.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"

namespace packhouse {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class GraphsWing final : public Wing {
 public:
  void AddFlags(Options& options, CLI::App& app) override {
    app.add_option("--max-source-graph-bytes", options.max_source_graph_bytes,
                   "most bytes of all source graphs on the disk; sealing one takes up to three "
                   "times its size for a while")
        ->transform(BytesFrom(kMiB, uint64_t{1} << 45));
    app.add_option("--max-source-graphs", options.max_source_graphs, "most source graphs")
        ->check(CLI::Range(1, 65'536));
    app.add_option("--source-graph-retention", retention_,
                   "source graphs that nobody has used for this long are deleted; as "
                   "--dataset-retention")
        ->check(IsRetention);
  }
  absl::Status CheckFlags(Options& options) override {
    // Checked.
    options.source_graph_retention = ParseRetention(retention_).value_or(Retention());
    return CheckRetention("--source-graph-retention", options.source_graph_retention, options);
  }

  absl::Status OpenFolder(const Options& options) override {
    FileSourceGraphStore::Options files;
    files.folder = SourceGraphsFolder(options.data_dir);
    files.max_bytes = options.max_source_graph_bytes;
    files.max_graphs = options.max_source_graphs;
    PH_ASSIGN_OR_RETURN(stored_, FileSourceGraphStore::Open(files));
    return absl::OkStatus();
  }
  std::optional<OpenedGraphs> opened_graphs() const override {
    if (stored_ == nullptr) return std::nullopt;
    return OpenedGraphsIn(stored_);
  }

  absl::StatusOr<rpc::MakeServerWing> Serve(ServedSources& sources) override {
    SourceGraphStore* graphs = stored_.get();
    const Retention& retention = sources.options->source_graph_retention;
    period_ = retention.Period();
    if (SharedStores* const shared = sources.stores->shared(); shared != nullptr) {
      graphs = shared->source_graphs();
      PH_ASSIGN_OR_RETURN(const MakeUses uses, shared->SourceGraphUses(retention));
      if (uses != nullptr) retained_ = std::make_unique<RetainedSourceGraphs>(graphs, uses);
    } else if (sources.stores->may_save()) {
      PH_ASSIGN_OR_RETURN(retained_, Retain<RetainedSourceGraphs>(
                                         graphs, SourceGraphUsesFile(sources.options->data_dir),
                                         retention, *sources.clock));
    }
    SourceGraphStore* const unused = graphs;
    if (retained_ != nullptr) graphs = retained_.get();
    sources.source_graphs = graphs;
    sources.unused_source_graphs = unused;
    return rpc::ServeGraphs(graphs);
  }

  void Show(metrics::ServerReading& reading) const override {
    if (retained_ != nullptr) reading.num_expired_source_graphs = retained_->num_expired();
    if (stored_ == nullptr) return;
    const SourceGraphStoreCounts counts = stored_->counts();
    reading.source_graphs = metrics::SourceGraphReading{.num_graphs = counts.num_graphs,
                                                        .num_bytes = counts.num_bytes,
                                                        .max_bytes = counts.max_bytes,
                                                        .appended_nodes = counts.appended_nodes,
                                                        .appended_edges = counts.appended_edges};
  }

  std::optional<Sweeping> SweepUnused(rpc::Server& server) override {
    if (retained_ == nullptr) return std::nullopt;
    return Sweeping{"source_graph", period_, [this, &server](std::vector<Expired>& expired) {
                      // What nobody loads keeps no graph from being unused.
                      server.ForgetIdleThings();
                      const absl::Status swept = retained_->Sweep(expired);
                      for (const Expired& each : expired) server.ForgetSourceGraph(each.name);
                      if (!expired.empty()) server.ForgetGone();
                      return swept;
                    }};
  }
  void SaveUses() override {
    if (retained_ != nullptr) retained_->Save().IgnoreError();
  }

 private:
  std::string retention_ = "0s";
  absl::Duration period_;
  // Null: there is no data folder, or several servers have it.
  std::shared_ptr<FileSourceGraphStore> stored_;
  std::unique_ptr<RetainedSourceGraphs> retained_;  // Null: nothing expires.
};

}  // namespace

BuiltWing GraphsInProgram() {
  return {.name = "graphs",
          .make = [] { return std::unique_ptr<Wing>(new GraphsWing); },
          .graphs = GraphsInFolder};
}

}  // namespace packhouse
