// How alike the batches of a step cost, as a table: the plan's in random order and in steps of like
// cost (step_order.h), beside the samplers of fairchem, of the MACE paper and of PyG
// (step_samplers.h).
//
// The efficiency of a step is the mean cost over its ranks as a share of the largest; of the steps
// in which all ranks have a batch. Exit status 1 if balanced steps are less efficient than shuffled
// ones, if a graph is not in exactly one batch, or if a goal is missed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/step_order.h"
#include "service/engine/epochs/fresh_batches.h"
#include "tests/benchmarks/planning_sets.h"
#include "tests/benchmarks/step_samplers.h"

namespace packhouse {
namespace {

// Log-normal numbers of atoms, and 40 edges an atom.
SizeTuple DrawAtoms(Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Below(1 << 20)) / (1 << 20);
  const auto atoms = static_cast<uint64_t>(std::clamp(40 * std::exp(0.6 * (sum - 6)), 2.0, 500.0));
  return TupleOf({atoms, 40 * atoms + random.Below(atoms)});
}

struct BalanceSet {
  PlanningSet set;
  // Least efficiency of balanced steps by edges and by squares, of 8 and 64 ranks; 0: no goal.
  double edges = 0;
  double squares = 0;
};

std::vector<BalanceSet> Sets() {
  const auto atoms = [](const char* name, uint64_t num_graphs) {
    return MadeSet(name, {"nodes", "edges"}, num_graphs, {1024, 42'000, kUnlimited}, DrawAtoms);
  };
  return {{RealSet("molhiv_all", 444, 1004, kUnlimited), 0.998, 0.967},
          {RealSet("tu_PROTEINS", 1024, 3840, kUnlimited)},
          {RealSet("ppa_standin_ego", 1200, 36'138, kUnlimited)},
          {RealSet("qm9_h", 290, 600, kUnlimited)},
          {RealSet("pyast_functions", 189'054, 189'053, kUnlimited)},
          {atoms("made_atoms_20k", 20'000), 0.99},
          {atoms("made_atoms_1m", 1'000'000), 0.998, 0.976}};
}

// The numbers of nodes and edges, graph by graph.
struct Graphs {
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> edges;
};

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

// Pearson's correlation of the mean numbers of nodes of a graph in consecutive whole steps.
double CorrelationOf(const Graphs& graphs, const Batches& batches, size_t num_ranks) {
  std::vector<double> means;
  for (size_t step = 0; step < batches.size() / num_ranks; ++step) {
    double nodes = 0;
    double count = 0;
    for (size_t b = step * num_ranks; b < (step + 1) * num_ranks; ++b) {
      for (const uint32_t item : batches[b]) nodes += graphs.nodes[item];
      count += static_cast<double>(batches[b].size());
    }
    means.push_back(nodes / std::max(count, 1.0));
  }
  if (means.size() < 3) return 0;
  const double n = static_cast<double>(means.size());
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / n;
  double variance = 0;
  double covariance = 0;
  for (size_t i = 0; i < means.size(); ++i) {
    variance += (means[i] - mean) * (means[i] - mean);
    if (i > 0) covariance += (means[i] - mean) * (means[i - 1] - mean);
  }
  return variance > 0 ? covariance / variance : 0;
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

Batches Balanced(const Batches& batches, const std::vector<uint64_t>& costs, size_t num_ranks) {
  SeededRandom random(5);
  const std::vector<BatchesOfRanks<uint64_t>> group = {{costs, num_ranks}};
  return InOrder(batches, OrderByCost(group, random)[0]);
}

struct Line {
  double by_edges = 0;
  double by_squares = 0;
};

Line Print(const char* name, const Graphs& graphs, const Batches& batches, size_t num_ranks,
           uint64_t num_dropped, uint64_t num_repeated) {
  const Line line = {EfficiencyOf(EdgesOf(graphs, batches), num_ranks),
                     EfficiencyOf(SquaresOf(graphs, batches), num_ranks)};
  std::printf("  %5zu %-18s %9zu %7zu %7.1f %7.1f %8.3f %8.3f %8llu %8llu %8.2f %8.3f\n", num_ranks,
              name, batches.size(), batches.size() / num_ranks,
              100 * PaddingOf(graphs.nodes, batches), 100 * PaddingOf(graphs.edges, batches),
              line.by_edges, line.by_squares, static_cast<unsigned long long>(num_dropped),
              static_cast<unsigned long long>(num_repeated),
              CorrelationOf(graphs, batches, num_ranks), WeightOfLarge(graphs, batches, num_ranks));
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
int Compare(const BalanceSet& of, const SizeHistogram& histogram) {
  const Graphs graphs = GraphsOf(histogram);
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < graphs.nodes.size(); ++i) {
    counts.push_back(graphs.nodes[i]);
    counts.push_back(graphs.edges[i]);
  }
  const ItemSizes sizes = ItemSizes::Create(graphs.nodes.size(), 2, counts).value();
  const SizeClasses classes = SizeClasses::Create(sizes).value();
  const CertifiedPlan plan = OptimizePlan(histogram, of.set.limits, {}).value();
  const EpochBatches drawn =
      DrawFreshEpoch(classes, {&plan.plan.patterns, 1}, sizes, {{of.set.limits}}, {1, 0}).value();
  Batches shuffled;
  for (size_t b = 0; b < drawn.num_batches(); ++b) {
    shuffled.emplace_back(drawn.batch(b).begin(), drawn.batch(b).end());
  }
  const uint64_t most_nodes = of.set.limits.capacity(0);
  int missed = 0;
  const auto check = [&](bool is_met, const std::string& what) {
    if (is_met) return;
    std::printf("  MISSED: %s\n", what.c_str());
    ++missed;
  };
  for (const size_t num_ranks : {8, 64, 740}) {
    const Batches by_edges = Balanced(shuffled, EdgesOf(graphs, shuffled), num_ranks);
    const Batches by_squares = Balanced(shuffled, SquaresOf(graphs, shuffled), num_ranks);
    const Line before = Print("packhouse", graphs, shuffled, num_ranks, 0, 0);
    const Line edges = Print("  by edges", graphs, by_edges, num_ranks, 0, 0);
    const Line squares = Print("  by squares", graphs, by_squares, num_ranks, 0, 0);
    Print("fairchem", graphs, StepsOfFairchem(graphs.nodes, most_nodes, num_ranks, 3), num_ranks);
    Print("MACE algorithm 1", graphs, StepsOfMace(graphs.nodes, most_nodes, num_ranks, 3),
          num_ranks);
    Print("PyG dynamic", graphs, StepsOfPyg(graphs.nodes, most_nodes, num_ranks, 3), num_ranks);
    const bool has_steps = shuffled.size() >= 2 * num_ranks;
    check(!has_steps || edges.by_edges >= before.by_edges, "edges: shuffled steps are better");
    check(!has_steps || squares.by_squares >= before.by_squares,
          "squares: shuffled steps are better");
    if (num_ranks <= 64) {
      check(edges.by_edges >= of.edges, absl::StrFormat("edges: goal %.3f", of.edges));
      check(squares.by_squares >= of.squares, absl::StrFormat("squares: goal %.3f", of.squares));
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
  uint64_t most_graphs = 2'000'000;
  app.add_option("--only", only, "sets whose names begin so")->delimiter(',');
  app.add_option("--most-graphs", most_graphs, "leave larger sets out");
  CLI11_PARSE(app, argc, argv);
  int missed = 0;
  std::printf("  %5s %-18s %9s %7s %7s %7s %8s %8s %8s %8s %8s %8s\n", "ranks", "sampler",
              "batches", "steps", "nodes-", "edges-", "step eff", "step eff", "dropped", "repeated",
              "consec.", "large");
  std::printf("  %5s %-18s %9s %7s %7s %7s %8s %8s %8s %8s %8s %8s\n", "", "", "", "", "pad %",
              "pad %", "edges", "squares", "graphs", "graphs", "corr.", "weigh");
  for (const BalanceSet& of : Sets()) {
    if (!only.empty() && std::none_of(only.begin(), only.end(), [&](const std::string& name) {
          return absl::StartsWith(of.set.name, name);
        })) {
      continue;
    }
    const std::optional<SizeHistogram> histogram = of.set.read();
    if (!histogram) {
      std::printf("%s: left out, its sizes are not at hand\n", of.set.name.c_str());
      continue;
    }
    if (histogram->num_graphs() > most_graphs) continue;
    std::printf("%s: %llu graphs, %llu nodes and %llu edges a batch\n", of.set.name.c_str(),
                static_cast<unsigned long long>(histogram->num_graphs()),
                static_cast<unsigned long long>(of.set.limits.capacity(0)),
                static_cast<unsigned long long>(of.set.limits.capacity(1)));
    missed += Compare(of, *histogram);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) { return packhouse::Run(argc, argv); }
