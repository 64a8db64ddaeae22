// How alike the batches of a step cost, as a table: the plan's in random order and in steps of like
// cost (step_order.h), beside the samplers of fairchem, of the MACE paper and of PyG
// (step_samplers.h).
//
// The efficiency of a step is the mean cost over its ranks as a share of the largest; of the steps
// in which all ranks have a batch. Exit status 1 if balanced steps are less efficient than shuffled
// ones, if a graph is not in exactly one batch, if consecutive steps are alike, or if a goal is
// missed by an epoch of kFewSteps or more, though its batches could reach it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "client/graph/files/npz_archive.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/step_order.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/fresh_batches.h"
#include "tests/benchmarks/planning_sets.h"
#include "tests/benchmarks/step_samplers.h"
#include "tests/support/shared_data.h"

namespace packhouse {
namespace {

// Log-normal numbers of atoms, and 40 edges an atom.
SizeTuple DrawAtoms(Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Below(1 << 20)) / (1 << 20);
  const auto atoms = static_cast<uint64_t>(std::clamp(40 * std::exp(0.6 * (sum - 6)), 2.0, 500.0));
  return TupleOf({atoms, 40 * atoms + random.Below(atoms)});
}

// Least efficiency of balanced steps, with any number of ranks. Of few steps one has the dearest
// batches, whatever the order: the goal is told then, not checked.
constexpr double kEdgesGoal = 0.998;
constexpr double kSquaresGoal = 0.967;
constexpr size_t kFewSteps = 32;

std::vector<PlanningSet> Sets() {
  const auto atoms = [](const char* name, uint64_t num_graphs) {
    return MadeSet(name, {"nodes", "edges"}, num_graphs, {1024, 42'000, kUnlimited}, DrawAtoms);
  };
  return {RealSet("molhiv_all", 444, 1004, kUnlimited),
          RealSet("molpcba_train", 512, 1105, kUnlimited),
          RealSet("pcqm4mv2_trainvalid_heatmap", 290, 620, kUnlimited),
          RealSet("tu_NCI1", 444, 952, kUnlimited),
          RealSet("tu_PROTEINS", 1024, 3840, kUnlimited),
          RealSet("ppa_standin_ego", 1200, 36'138, kUnlimited),
          RealSet("qm9_h", 290, 600, kUnlimited),
          RealSet("pyast_functions", 189'054, 189'053, kUnlimited),
          atoms("made_atoms_20k", 20'000),
          atoms("made_atoms_1m", 1'000'000)};
}

// The numbers of nodes and edges, graph by graph.
struct Graphs {
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> edges;
  // 0 or 1; empty if they are not at hand.
  std::vector<uint32_t> labels;
};

// graphs/molhiv.npz: by numbers of nodes and edges, the labels of the graphs that have these.
using Labels = std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>>;

absl::StatusOr<Labels> ReadLabels() {
  PH_ASSIGN_OR_RETURN(const auto archive,
                      client::NpzArchive::Open(SharedData() + "/graphs/molhiv.npz"));
  const auto read = [&](const char* name, auto& elements) -> absl::Status {
    const client::NpzArray* const array = archive->Find(name);
    if (array == nullptr) return absl::NotFoundError(absl::StrFormat("molhiv.npz: no %s", name));
    PH_ASSIGN_OR_RETURN(client::NpzStream stream, archive->OpenStream(*array));
    std::string bytes;
    PH_RETURN_IF_ERROR(stream.Append(array->header.data_bytes, bytes));
    elements.resize(bytes.size() / sizeof(elements[0]));
    std::memcpy(elements.data(), bytes.data(), bytes.size());
    return absl::OkStatus();
  };
  std::vector<int64_t> nodes;
  std::vector<int64_t> edges;
  std::vector<int8_t> values;
  PH_RETURN_IF_ERROR(read("node_offsets", nodes));
  PH_RETURN_IF_ERROR(read("edge_offsets", edges));
  PH_RETURN_IF_ERROR(read("y", values));
  Labels labels;
  for (size_t i = 0; i < values.size(); ++i) {
    labels[{static_cast<uint32_t>(nodes[i + 1] - nodes[i]),
            static_cast<uint32_t>(edges[i + 1] - edges[i])}]
        .push_back(values[i] == 1 ? 1 : 0);
  }
  return labels;
}

void AddLabels(Graphs& graphs) {
  absl::StatusOr<Labels> labels = ReadLabels();
  if (!labels.ok()) {
    std::printf("no labels: %s\n", std::string(labels.status().message()).c_str());
    return;
  }
  for (size_t i = 0; i < graphs.nodes.size(); ++i) {
    std::vector<uint32_t>& left = (*labels)[{graphs.nodes[i], graphs.edges[i]}];
    graphs.labels.push_back(left.empty() ? 0 : left.back());
    if (!left.empty()) left.pop_back();
  }
}

Graphs GraphsOf(const SizeHistogram& histogram) {
  Graphs graphs;
  for (const uint32_t row : histogram.SortedRows()) {
    const auto tuple = histogram.tuple(row);
    graphs.nodes.insert(graphs.nodes.end(), histogram.count(row), tuple[0]);
    graphs.edges.insert(graphs.edges.end(), histogram.count(row), tuple[1]);
  }
  return graphs;
}

using Batches = std::vector<std::vector<uint32_t>>;

std::vector<uint64_t> EdgesOf(const Graphs& graphs, const Batches& batches) {
  std::vector<uint64_t> costs;
  for (const auto& batch : batches) {
    uint64_t sum = 0;
    for (const uint32_t item : batch) sum += graphs.edges[item];
    costs.push_back(sum);
  }
  return costs;
}

std::vector<uint64_t> SquaresOf(const Graphs& graphs, const Batches& batches) {
  std::vector<uint64_t> costs;
  for (const auto& batch : batches) {
    uint64_t sum = 0;
    for (const uint32_t item : batch) sum += uint64_t{graphs.nodes[item]} * graphs.nodes[item];
    costs.push_back(sum);
  }
  return costs;
}

double EfficiencyOf(const std::vector<uint64_t>& costs, size_t num_ranks) {
  const std::vector<double> numbers(costs.begin(), costs.end());
  const BatchesOfRanks<double> group = {numbers, num_ranks};
  return StepEfficiency({&group, 1});
}

// The share of padding, of nodes and edges, if all batches have the rows of the largest.
double PaddingOf(const std::vector<uint32_t>& rows, const Batches& batches) {
  uint64_t largest = 0;
  uint64_t all = 0;
  for (const auto& batch : batches) {
    uint64_t sum = 0;
    for (const uint32_t item : batch) sum += rows[item];
    largest = std::max(largest, sum);
    all += sum;
  }
  return 1 - static_cast<double>(all) /
                 (static_cast<double>(largest) * static_cast<double>(batches.size()));
}

// The mean of a number over the graphs of each whole step.
std::vector<double> MeansOf(const std::vector<uint32_t>& numbers, const Batches& batches,
                            size_t num_ranks) {
  std::vector<double> means;
  for (size_t step = 0; step < batches.size() / num_ranks; ++step) {
    double sum = 0;
    double count = 0;
    for (size_t b = step * num_ranks; b < (step + 1) * num_ranks; ++b) {
      for (const uint32_t item : batches[b]) sum += numbers[item];
      count += static_cast<double>(batches[b].size());
    }
    means.push_back(sum / std::max(count, 1.0));
  }
  return means;
}

// Pearson's correlation of consecutive numbers; nothing of fewer than three, or of equal ones.
std::optional<double> CorrelationOf(const std::vector<double>& means) {
  if (means.size() < 3) return std::nullopt;
  const double n = static_cast<double>(means.size());
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / n;
  double variance = 0;
  double covariance = 0;
  for (size_t i = 0; i < means.size(); ++i) {
    variance += (means[i] - mean) * (means[i] - mean);
    if (i > 0) covariance += (means[i] - mean) * (means[i - 1] - mean);
  }
  if (variance == 0) return std::nullopt;
  return covariance / variance;
}

// A step weighs as much as any other, whatever number of graphs it has: the mean weight of the
// tenth of the graphs with the most nodes, where that of all graphs is 1.
double WeightOfLarge(const Graphs& graphs, const Batches& batches, size_t num_ranks) {
  std::vector<uint32_t> sorted = graphs.nodes;
  const size_t large = sorted.size() - sorted.size() / 10 - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(large), sorted.end());
  double all = 0;
  double num_all = 0;
  double of_large = 0;
  double num_large = 0;
  for (size_t step = 0; step < batches.size() / num_ranks; ++step) {
    double count = 0;
    double count_large = 0;
    for (size_t b = step * num_ranks; b < (step + 1) * num_ranks; ++b) {
      count += static_cast<double>(batches[b].size());
      for (const uint32_t item : batches[b]) count_large += graphs.nodes[item] > sorted[large];
    }
    if (count == 0) continue;
    all += 1;
    num_all += count;
    of_large += count_large / count;
    num_large += count_large;
  }
  if (num_large == 0) return 1;
  return (of_large / num_large) / (all / num_all);
}

Batches InOrder(const Batches& batches, const std::vector<uint32_t>& order) {
  Batches ordered;
  for (const uint32_t number : order) ordered.push_back(batches[number]);
  return ordered;
}

Batches Balanced(const Batches& batches, const std::vector<uint64_t>& costs, size_t num_ranks,
                 uint64_t seed = 5) {
  SeededRandom random(seed);
  const std::vector<BatchesOfRanks<uint64_t>> group = {{costs, num_ranks}};
  return InOrder(batches, OrderByCost(group, random)[0]);
}

// Steps of neighbours by cost, where the batches that fill no step are those that cost most, or
// least: no order is much better.
double BestEfficiency(std::vector<uint64_t> costs, size_t num_ranks) {
  std::sort(costs.begin(), costs.end());
  const double dearest_left = EfficiencyOf(costs, num_ranks);
  std::reverse(costs.begin(), costs.end());
  return std::max(dearest_left, EfficiencyOf(costs, num_ranks));
}

// Mean correlations of consecutive steps in this many orders, whose seeds differ.
constexpr uint64_t kOrders = 32;

struct Correlations {
  std::optional<double> of_sizes;
  std::optional<double> of_labels;
};

Correlations CorrelationsOf(const Graphs& graphs, const Batches& batches,
                            const std::vector<uint64_t>& costs, size_t num_ranks) {
  double of_sizes = 0;
  double of_labels = 0;
  for (uint64_t seed = 1; seed <= kOrders; ++seed) {
    const Batches ordered = Balanced(batches, costs, num_ranks, seed);
    const auto sizes = CorrelationOf(MeansOf(graphs.nodes, ordered, num_ranks));
    if (!sizes) return {};
    of_sizes += *sizes / kOrders;
    if (graphs.labels.empty()) continue;
    of_labels += CorrelationOf(MeansOf(graphs.labels, ordered, num_ranks)).value_or(0) / kOrders;
  }
  Correlations correlations = {of_sizes, std::nullopt};
  if (!graphs.labels.empty()) correlations.of_labels = of_labels;
  return correlations;
}

struct Line {
  double by_edges = 0;
  double by_squares = 0;
};

std::string TextOf(const std::optional<double>& number) {
  return number ? absl::StrFormat("%.3f", *number) : "-";
}

Line Print(const char* name, const Graphs& graphs, const Batches& batches, size_t num_ranks,
           uint64_t num_dropped, uint64_t num_repeated, const Correlations& correlations = {}) {
  const Line line = {EfficiencyOf(EdgesOf(graphs, batches), num_ranks),
                     EfficiencyOf(SquaresOf(graphs, batches), num_ranks)};
  std::printf("  %5zu %-18s %9zu %7zu %7.1f %7.1f %8.3f %8.3f %8llu %8llu %8.3f %8s %8s\n",
              num_ranks, name, batches.size(), batches.size() / num_ranks,
              100 * PaddingOf(graphs.nodes, batches), 100 * PaddingOf(graphs.edges, batches),
              line.by_edges, line.by_squares, static_cast<unsigned long long>(num_dropped),
              static_cast<unsigned long long>(num_repeated),
              WeightOfLarge(graphs, batches, num_ranks), TextOf(correlations.of_sizes).c_str(),
              TextOf(correlations.of_labels).c_str());
  std::fflush(stdout);
  return line;
}

void Print(const char* name, const Graphs& graphs, const SampledSteps& steps, size_t num_ranks) {
  if (steps.batches.empty()) {
    std::printf("  %5zu %-18s has fewer batches than ranks: no step\n", num_ranks, name);
    return;
  }
  Print(name, graphs, steps.batches, num_ranks, steps.num_dropped, steps.num_repeated);
}

// How many laws and goals were missed.
int Compare(const PlanningSet& of, const SizeHistogram& histogram) {
  Graphs graphs = GraphsOf(histogram);
  if (of.name == "molhiv_all") AddLabels(graphs);
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < graphs.nodes.size(); ++i) {
    counts.push_back(graphs.nodes[i]);
    counts.push_back(graphs.edges[i]);
  }
  const ItemSizes sizes = ItemSizes::Create(graphs.nodes.size(), 2, counts).value();
  const SizeClasses classes = SizeClasses::Create(sizes).value();
  const CertifiedPlan plan = OptimizePlan(histogram, of.limits, {}).value();
  const EpochBatches drawn =
      DrawFreshEpoch(classes, {&plan.plan.patterns, 1}, sizes, {{of.limits}}, {1, 0}).value();
  Batches shuffled;
  for (size_t b = 0; b < drawn.num_batches(); ++b) {
    shuffled.emplace_back(drawn.batch(b).begin(), drawn.batch(b).end());
  }
  const uint64_t most_nodes = of.limits.capacity(0);
  int missed = 0;
  const auto check = [&](bool is_met, const std::string& what) {
    if (is_met) return;
    std::printf("  MISSED: %s\n", what.c_str());
    ++missed;
  };
  const std::vector<uint64_t> edges_of = EdgesOf(graphs, shuffled);
  const std::vector<uint64_t> squares_of = SquaresOf(graphs, shuffled);
  for (const size_t num_ranks : {8, 64, 740}) {
    if (shuffled.size() < num_ranks) {
      std::printf("  %5zu ranks: more than batches\n", num_ranks);
      continue;
    }
    const Batches by_edges = Balanced(shuffled, edges_of, num_ranks);
    const Batches by_squares = Balanced(shuffled, squares_of, num_ranks);
    const Correlations of_edges = CorrelationsOf(graphs, shuffled, edges_of, num_ranks);
    const Correlations of_squares = CorrelationsOf(graphs, shuffled, squares_of, num_ranks);
    const Line before = Print("packhouse", graphs, shuffled, num_ranks, 0, 0);
    const Line edges = Print("  by edges", graphs, by_edges, num_ranks, 0, 0, of_edges);
    const Line squares = Print("  by squares", graphs, by_squares, num_ranks, 0, 0, of_squares);
    Print("fairchem", graphs, StepsOfFairchem(graphs.nodes, most_nodes, num_ranks, 3), num_ranks);
    Print("MACE algorithm 1", graphs, StepsOfMace(graphs.nodes, most_nodes, num_ranks, 3),
          num_ranks);
    Print("PyG dynamic", graphs, StepsOfPyg(graphs.nodes, most_nodes, num_ranks, 3), num_ranks);
    const auto reaches = [&](const char* what, double balanced, double shuffle, double goal,
                             double best) {
      if (balanced >= goal) return;
      check(shuffled.size() < 2 * num_ranks || balanced >= shuffle,
            absl::StrFormat("%s: shuffled steps are better", what));
      // The batches that fill no step are left to chance.
      check(shuffled.size() < kFewSteps * num_ranks || balanced >= best - 0.001,
            absl::StrFormat("%s: goal %.3f", what, goal));
      std::printf("  %s: below %.3f, where the best order has %.3f\n", what, goal, best);
    };
    reaches("edges", edges.by_edges, before.by_edges, kEdgesGoal,
            BestEfficiency(edges_of, num_ranks));
    reaches("squares", squares.by_squares, before.by_squares, kSquaresGoal,
            BestEfficiency(squares_of, num_ranks));
    // Five times what chance makes of it.
    const double steps = static_cast<double>(shuffled.size() / num_ranks);
    const double most_alike = 5 / std::sqrt(steps * kOrders) + 1 / steps;
    for (const Correlations& each : {of_edges, of_squares}) {
      check(std::abs(each.of_sizes.value_or(0)) <= most_alike, "sizes of consecutive steps");
      check(std::abs(each.of_labels.value_or(0)) <= most_alike, "labels of consecutive steps");
    }
    for (const Batches* const ordered : {&by_edges, &by_squares}) {
      std::vector<uint32_t> times(graphs.nodes.size(), 0);
      for (const auto& batch : *ordered) {
        for (const uint32_t item : batch) ++times[item];
      }
      check(std::all_of(times.begin(), times.end(), [](uint32_t each) { return each == 1; }),
            "a graph is not in exactly one batch");
    }
  }
  return missed;
}

int Run(int argc, char** argv) {
  CLI::App app("How alike the batches of a step cost.");
  std::vector<std::string> only;
  uint64_t most_graphs = 4'000'000;
  app.add_option("--only", only, "sets whose names begin so")->delimiter(',');
  app.add_option("--most-graphs", most_graphs, "leave larger sets out");
  CLI11_PARSE(app, argc, argv);
  int missed = 0;
  constexpr const char* kHeads = "  %5s %-18s %9s %7s %7s %7s %8s %8s %8s %8s %8s %8s %8s\n";
  std::printf(kHeads, "ranks", "sampler", "batches", "steps", "nodes-", "edges-", "step eff",
              "step eff", "dropped", "repeated", "large", "sizes", "labels");
  std::printf(kHeads, "", "", "", "", "pad %", "pad %", "edges", "squares", "graphs", "graphs",
              "weigh", "corr.", "corr.");
  for (const PlanningSet& of : Sets()) {
    if (!only.empty() && std::none_of(only.begin(), only.end(), [&](const std::string& name) {
          return absl::StartsWith(of.name, name);
        })) {
      continue;
    }
    const std::optional<SizeHistogram> histogram = of.read();
    if (!histogram) {
      std::printf("%s: left out, its sizes are not at hand\n", of.name.c_str());
      continue;
    }
    if (histogram->num_graphs() > most_graphs) continue;
    std::printf("%s: %llu graphs, %llu nodes and %llu edges a batch\n", of.name.c_str(),
                static_cast<unsigned long long>(histogram->num_graphs()),
                static_cast<unsigned long long>(of.limits.capacity(0)),
                static_cast<unsigned long long>(of.limits.capacity(1)));
    missed += Compare(of, *histogram);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) { return packhouse::Run(argc, argv); }
