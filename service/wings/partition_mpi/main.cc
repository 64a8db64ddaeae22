// packhouse-partition: cuts a graph on several machines, under mpirun.
//
//   mpirun -np 4 packhouse-partition GRAPH --parts 16 --output DIR
#include <mpi.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "service/base/command_words.h"
#include "service/base/standard_files.h"
#include "service/base/status_macros.h"
#include "service/wings/partition_mpi/mpi_ranks.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "service/wings/partition_mpi/runs/distributed_run.h"
#include "service/wings/partition_mpi/scotch_engine.h"

namespace packhouse {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitMisuse = 2;

struct Words {
  DistributedRequest request;
  std::vector<std::string> balance_ntypes;
  std::vector<std::string> formats;
  std::vector<std::string> graph_formats;
  std::string halo = "all";
  uint64_t message_bytes = kMaxMessageBytes;
  bool json = false;
  bool quiet = false;
};

void AddWords(Words& words, CLI::App& app) {
  PartitionPlan& plan = words.request.plan;
  PartitionOptions& options = plan.options;
  plan.name = "graph";
  options.num_parts = 0;
  app.add_option("GRAPH", words.request.graph,
                 "A folder with metadata.json (DGL's chunked layout), which all ranks see")
      ->type_name("PATH")
      ->required();
  app.add_option("--output", words.request.output,
                 "The new folder of the partition, which all ranks see")
      ->type_name("DIR")
      ->required();
  app.add_option("--parts", options.num_parts, "How many parts")->check(CLI::Range(1, 65536));
  app.add_option("--name", plan.name, "The name in DIR/NAME.json: letters, underscores")
      ->capture_default_str();
  app.add_option("--hops", options.num_hops, "Depth of the halo")
      ->check(CLI::Range(uint32_t{1}, PartitionOptions::kMaxHops))
      ->capture_default_str();
  app.add_option("--halo", words.halo,
                 "all: as DGL's partition_graph; in-edges: as its converter of ParMETIS's output")
      ->check(CLI::IsMember({"all", "in-edges"}))
      ->capture_default_str();
  app.add_option("--trainers", options.trainers_per_machine, "Trainers on each machine")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--balance-ntypes", words.balance_ntypes,
                 "Spread the classes in a column evenly, or what several masks say; may be "
                 "repeated")
      ->type_name("[TYPE:]COLUMN[,COLUMN...]");
  app.add_flag("--balance-edges", options.balance_edges, "Balance in-degrees too");
  app.add_option("--imbalance", options.imbalance, "The largest part over the mean")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed")->capture_default_str();
  app.add_option("--assignment", words.request.assignment,
                 "Take the parts of nodes from DIR/TYPE.txt and DIR/partition_meta.json")
      ->type_name("DIR");
  app.add_option("--format", words.formats, "Also write npy or safetensors; may be repeated")
      ->check(CLI::IsMember({"dgl", "npy", "safetensors"}));
  app.add_option("--graph-formats", words.graph_formats,
                 "Forms of the edges in graph.dgl: coo, csr, csc; may be repeated")
      ->check(CLI::IsMember({"coo", "csr", "csc"}));
  app.add_flag("--mapping", plan.mapping, "Also write new to original ids, as .npy");
  app.add_flag(
      "--orig-ids", plan.original_ids,
      "Also write part<p>/orig_nids.dgl and orig_eids.dgl: the original ids of inner nodes "
      "and edges, by type");
  app.add_flag("--write-assignment", plan.assignment,
               "Also write the part of each node, as the chunked layout has it");
  app.add_option("--message-bytes", words.message_bytes,
                 "The longest message that one rank sends another at once")
      ->check(CLI::Range(uint64_t{64}, uint64_t{kMaxMessageBytes}))
      ->capture_default_str();
  app.add_flag("--json", words.json, "Print the report as JSON");
  app.add_flag("--quiet", words.quiet, "Do not say on stderr what is being done");
}

// What the words mean together.
absl::Status Understand(Words& words) {
  PartitionPlan& plan = words.request.plan;
  if (!words.request.assignment.empty()) {
    plan.options.num_parts = 1;  // The folder says how many.
  } else if (plan.options.num_parts == 0) {
    return absl::InvalidArgumentError("--parts N is required");
  }
  plan.options.halo = words.halo == "all" ? HaloKind::kPartitionGraph : HaloKind::kInEdges;
  for (const std::string& format : words.formats) {
    plan.npy = plan.npy || format == "npy";
    plan.safetensors = plan.safetensors || format == "safetensors";
  }
  if (!words.graph_formats.empty()) plan.forms = {false, false, false};
  for (const std::string& form : words.graph_formats) {
    plan.forms.coo = plan.forms.coo || form == "coo";
    plan.forms.csr = plan.forms.csr || form == "csr";
    plan.forms.csc = plan.forms.csc || form == "csc";
  }
  if (words.balance_ntypes.empty()) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const ChunkedInput input, ReadChunkedInput(words.request.graph));
  for (const std::string& given : words.balance_ntypes) {
    const size_t colon = given.find(':');
    PlannedClasses classes;
    if (colon != std::string::npos) {
      classes.node_set = given.substr(0, colon);
    } else if (input.node_types.size() == 1) {
      classes.node_set = input.node_types[0].name;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--balance-ntypes ", given, ": the graph has several node types: give TYPE:", given));
    }
    classes.columns =
        absl::StrSplit(colon == std::string::npos ? given : given.substr(colon + 1), ',');
    plan.classes.push_back(std::move(classes));
  }
  return absl::OkStatus();
}

void Print(const PartitionReport& report) {
  const Assignment& assignment = report.assignment;
  std::cout << absl::StrFormat(
      "%d nodes, %d edges, %d parts: %d edges cut (%.2f %%), volume %d\n", report.num_nodes,
      report.num_edges, report.parts.size(), assignment.cut_edges,
      report.num_edges == 0 ? 0.0
                            : 100.0 * static_cast<double>(assignment.cut_edges) /
                                  static_cast<double>(report.num_edges),
      assignment.volume);
  std::cout << absl::StrFormat("%6s %14s %14s %14s %14s %14s\n", "part", "nodes", "halo nodes",
                               "in-edges", "cut of these", "bytes");
  for (size_t part = 0; part < report.parts.size(); ++part) {
    const ReportedPart& row = report.parts[part];
    std::cout << absl::StrFormat("%6d %14d %14d %14d %14d %14d\n", part, row.num_inner_nodes,
                                 row.num_halo_nodes, row.num_inner_edges, row.num_cut_edges,
                                 row.num_bytes);
  }
  for (const BalanceReport& balance : assignment.balance) {
    std::cout << absl::StrFormat("balance of %s: largest part %.3f of the mean, asked %.3f: %s%s\n",
                                 balance.name, balance.achieved, balance.asked,
                                 balance.met ? "met" : "not met",
                                 balance.dropped.empty() ? "" : "; given up: " + balance.dropped);
  }
  for (const std::string& note : assignment.notes) std::cout << note << '\n';
}

// The most memory that each rank has had.
std::string PeakMemory(Ranks& ranks) {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  std::vector<uint64_t> peaks(ranks.size());
  peaks[ranks.rank()] = static_cast<uint64_t>(usage.ru_maxrss);
  ranks.Sum(absl::MakeSpan(peaks));
  std::string text = "peak memory of each rank in KiB:";
  for (const uint64_t peak : peaks) absl::StrAppend(&text, " ", peak);
  return text;
}

int Fail(const Ranks& ranks, const absl::Status& status, int code) {
  // Only rank 0: all have the same error.
  if (ranks.rank() == 0) std::cerr << "packhouse-partition: " << status.ToString() << '\n';
  return code;
}

int Run(int argc, char** argv, uint32_t rank) {
  CLI::App app("Cuts a large graph into parts for DGL's trainers, under mpirun");
  app.name("packhouse-partition");
  Words words;
  AddWords(words, app);
  try {
    ParseWords(app, {argv + 1, argv + argc});
  } catch (const CLI::ParseError& error) {
    // Only rank 0 says it.
    if (rank != 0) return error.get_exit_code() == 0 ? 0 : kExitMisuse;
    return app.exit(error) == 0 ? 0 : kExitMisuse;
  }
  MpiRanks ranks(MPI_COMM_WORLD, words.message_bytes);
  const absl::Status understood = Agree(ranks, Understand(words));
  if (!understood.ok()) return Fail(ranks, understood, kExitMisuse);
  const absl::StatusOr<std::unique_ptr<ShareEngine>> engine = MakeScotchEngine(&ranks);
  if (const absl::Status status = Agree(ranks, engine.status()); !status.ok()) {
    return Fail(ranks, status, kExitFailure);
  }
  PhaseWatch watch;
  if (!words.quiet) {
    watch = [](const std::string& phase) { std::cerr << phase << '\n'; };
  }
  const absl::StatusOr<PartitionReport> report =
      RunDistributedPartition(ranks, words.request, **engine, watch);
  if (!report.ok()) return Fail(ranks, report.status(), kExitFailure);
  const std::string memory = PeakMemory(ranks);
  if (ranks.rank() != 0) return 0;
  if (words.json) {
    std::cout << DistributedReportText(*report, !words.request.assignment.empty());
  } else {
    Print(*report);
  }
  if (!words.quiet) std::cerr << memory << '\n';
  return 0;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int code = packhouse::kExitFailure;
  try {
    if (provided < MPI_THREAD_MULTIPLE) {
      if (rank == 0) std::cerr << "packhouse-partition: MPI does not serve several threads\n";
    } else {
      code = packhouse::Run(argc, argv, static_cast<uint32_t>(rank));
    }
  } catch (const std::exception& error) {
    // The others wait for this rank: all end.
    std::cerr << "packhouse-partition: rank " << rank << ": "
              << (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory"
                                                                         : error.what())
              << '\n';
    MPI_Abort(MPI_COMM_WORLD, packhouse::kExitFailure);
  }
  MPI_Finalize();
  const absl::Status printed = packhouse::FlushStandardOutput();
  if (printed.ok() || code != 0) return code;
  std::cerr << "packhouse-partition: " << printed.message() << '\n';
  return packhouse::kExitFailure;
}
