#include "client/graph/partition/partition_arguments.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/graph/byte_words.h"
#include "client/graph/files/file_kinds.h"
#include "client/graph/server_connection.h"
#include "service/wings/partition/jobs/graph_folders.h"

namespace packhouse::client {
namespace {

constexpr std::pair<const char*, PartMethod> kMethods[] = {{"automatic", PartMethod::kAutomatic},
                                                           {"metis", PartMethod::kMetis},
                                                           {"random", PartMethod::kRandom},
                                                           {"streaming", PartMethod::kStreaming}};

}  // namespace

void AddMethodOption(std::string& method, CLI::App& command) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : kMethods) words.emplace_back(word);
  command
      .add_option("--method", method,
                  "metis, random, streaming, or automatic: METIS where it can take the graph")
      ->check(CLI::IsMember(words))
      ->capture_default_str();
}

PartMethod MethodOf(const std::string& word) {
  for (const auto& [known, method] : kMethods) {
    if (word == known) return method;
  }
  return PartMethod::kAutomatic;
}

void AddPartitionOptions(PartitionArguments& arguments, CLI::App& command) {
  command
      .add_option("GRAPH", arguments.graph,
                  "A folder with metadata.json (DGL's chunked layout), or a METIS graph file")
      ->type_name("PATH");
  command.add_option("--output", arguments.output, "The new folder of the partition")
      ->type_name("DIR");
  command.add_option("--parts", arguments.parts, "How many parts")->check(CLI::Range(1, 65536));
  command.add_option("--name", arguments.name, "The name in DIR/NAME.json: letters, underscores")
      ->capture_default_str();
  AddMethodOption(arguments.method, command);
  command.add_option("--scheme", arguments.scheme, "METIS: k-way, or by halves")
      ->check(CLI::IsMember({"k-way", "recursive"}))
      ->capture_default_str();
  command.add_option("--objtype", arguments.objective, "Few cut edges, or few copies of nodes")
      ->check(CLI::IsMember({"cut", "vol"}))
      ->capture_default_str();
  command.add_option("--quality", arguments.quality, "best: several seeds, joined and refined")
      ->check(CLI::IsMember({"default", "best"}))
      ->capture_default_str();
  command.add_option("--hops", arguments.hops, "Depth of the halo")
      ->check(CLI::Range(uint32_t{1}, PartitionOptions::kMaxHops))
      ->capture_default_str();
  command
      .add_option("--halo", arguments.halo,
                  "all: as DGL's partition_graph; in-edges: as its converter of ParMETIS's output")
      ->check(CLI::IsMember({"all", "in-edges"}))
      ->capture_default_str();
  command.add_option("--trainers", arguments.trainers, "Trainers on each machine")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--balance-ntypes", arguments.balance_ntypes,
                  "Spread the classes in a column evenly, or what several masks say; may be "
                  "repeated")
      ->type_name("[SET:]COLUMN[,COLUMN...]");
  command.add_flag("--balance-edges", arguments.balance_edges, "Balance in-degrees too");
  command.add_option("--imbalance", arguments.imbalance, "The largest part over the mean")
      ->capture_default_str();
  command.add_option("--seed", arguments.seed, "Seed")->capture_default_str();
  command
      .add_option("--assignment", arguments.assignment,
                  "Take the parts of nodes from DIR/TYPE.txt and DIR/partition_meta.json")
      ->type_name("DIR");
  command
      .add_option("--format", arguments.formats, "Also write npy or safetensors; may be repeated")
      ->check(CLI::IsMember({"dgl", "npy", "safetensors"}));
  command
      .add_option("--graph-formats", arguments.graph_formats,
                  "Forms of the edges in graph.dgl: coo, csr, csc; may be repeated")
      ->check(CLI::IsMember({"coo", "csr", "csc"}));
  command.add_flag("--mapping", arguments.mapping, "Also write new to original ids, as .npy");
  command.add_flag("--orig-ids", arguments.original_ids,
                   "Also write part<p>/orig_nids.dgl and orig_eids.dgl: the original ids of inner "
                   "nodes and edges, by type");
  command.add_flag("--write-assignment", arguments.write_assignment,
                   "Also write the part of each node, as the chunked layout has it");
  command.add_flag("--json", arguments.json, "Print the report as JSON");
  command.add_option(
      "--memory", arguments.memory,
      "Most memory for the assignment, as in 8GiB: bounds METIS's process, and automatic streams "
      "where METIS would need more; default: no bound");
  command.add_option("--time-limit", arguments.time_limit,
                     "For each call of METIS, as in 90s or 2h; default: none");
}

absl::StatusOr<PartitionPlan> PlanOf(const PartitionArguments& arguments,
                                     const std::string& only_node_set) {
  PartitionPlan plan;
  plan.name = arguments.name;
  PartitionOptions& options = plan.options;
  options.num_parts = arguments.parts;
  options.method = MethodOf(arguments.method);
  options.scheme = arguments.scheme == "recursive" ? PartScheme::kRecursive : PartScheme::kKWay;
  options.objective = arguments.objective == "vol" ? PartObjective::kVolume : PartObjective::kCut;
  options.quality = arguments.quality == "best" ? PartQuality::kBest : PartQuality::kDefault;
  options.halo = arguments.halo == "all" ? HaloKind::kPartitionGraph : HaloKind::kInEdges;
  options.num_hops = arguments.hops;
  options.trainers_per_machine = arguments.trainers;
  options.balance_edges = arguments.balance_edges;
  options.imbalance = arguments.imbalance;
  options.seed = arguments.seed;
  for (const std::string& given : arguments.balance_ntypes) {
    const std::size_t colon = given.find(':');
    PlannedClasses classes;
    classes.node_set = colon == std::string::npos ? only_node_set : given.substr(0, colon);
    if (classes.node_set.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--balance-ntypes ", given, ": the graph has several node sets: give SET:", given));
    }
    classes.columns =
        absl::StrSplit(colon == std::string::npos ? given : given.substr(colon + 1), ',');
    plan.classes.push_back(std::move(classes));
  }
  for (const std::string& format : arguments.formats) {
    plan.npy = plan.npy || format == "npy";
    plan.safetensors = plan.safetensors || format == "safetensors";
  }
  if (!arguments.graph_formats.empty()) plan.forms = {false, false, false};
  for (const std::string& form : arguments.graph_formats) {
    plan.forms.coo = plan.forms.coo || form == "coo";
    plan.forms.csr = plan.forms.csr || form == "csr";
    plan.forms.csc = plan.forms.csc || form == "csc";
  }
  plan.mapping = arguments.mapping;
  plan.original_ids = arguments.original_ids;
  if (!arguments.memory.empty() &&
      (!ParseBytes(arguments.memory, options.memory_bytes) || options.memory_bytes == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory '", arguments.memory, "': must be a number of bytes, as in 8GiB"));
  }
  if (!arguments.time_limit.empty() &&
      (!absl::ParseDuration(arguments.time_limit, &options.time_limit) ||
       options.time_limit <= absl::ZeroDuration())) {
    return absl::InvalidArgumentError(absl::StrCat("--time-limit '", arguments.time_limit,
                                                   "': must be a time above 0, as in 90s"));
  }
  plan.assignment = arguments.write_assignment;
  return plan;
}

bool IsMetisGraphPath(const std::string& path) {
  std::error_code ignored;
  return !std::filesystem::is_directory(path, ignored) &&
         std::filesystem::path(path).filename() != "metadata.json";
}

absl::StatusOr<std::unique_ptr<const SourceGraph>> ReadLocalGraph(const std::string& path) {
  if (!IsMetisGraphPath(path)) {
    const std::filesystem::path folder(path);
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(folder, ignored);
    return ReadChunkedFolder(is_folder ? path : (folder.parent_path() / ".").string());
  }
  constexpr absl::string_view kWrite =
      "write it as a METIS graph file, or as DGL's chunks, a folder with metadata.json "
      "(docs/partitioning.md)";
  const absl::Status kind = CheckIsTextFile(path, {"METIS graph file", kWrite, kWrite});
  if (!kind.ok()) return kind;
  return ReadMetisFile(path);
}

}  // namespace packhouse::client
