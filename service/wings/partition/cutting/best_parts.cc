#include "service/wings/partition/cutting/best_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/coarsening.h"
#include "service/wings/partition/cutting/kway_refiner.h"

namespace packhouse {
namespace {

constexpr uint32_t kUndecided = UINT32_MAX;

class PartsJoin {
 public:
  PartsJoin(const WeightedGraph& graph, const PartLimits& limits, uint64_t seed,
            const PartitionWatch& watch)
      : graph_(graph),
        limits_(limits),
        most_table_(graph.offsets.back() * kTableBytesOfEntry),
        random_(seed),
        watch_(watch) {}

  // Lowers the cut of `part`. Nodes are joined only where both partitions have them together.
  void Cycle(std::vector<uint32_t>& part, absl::Span<const uint32_t> other) {
    std::vector<uint64_t> block(part.size());
    for (size_t node = 0; node < part.size(); ++node) {
      block[node] = uint64_t{part[node]} << 32 | other[node];
    }
    Level(graph_, part, std::move(block), 0, false);
  }

  // A partition of its own.
  std::vector<uint32_t> Fresh() {
    std::vector<uint32_t> part(graph_.num_nodes());
    Level(graph_, part, std::vector<uint64_t>(graph_.num_nodes()), 0, true);
    return part;
  }

 private:
  static constexpr uint64_t kTableBytesOfEntry = 16;

  // `fresh`: the parts are not read.
  void Level(const WeightedGraph& graph, std::vector<uint32_t>& part, std::vector<uint64_t> block,
             int depth, bool fresh) {
    constexpr uint32_t kNodesOfPart = 30;
    constexpr int kDeepest = 30;
    if (graph.num_nodes() > uint64_t{kNodesOfPart} * limits_.num_parts && depth < kDeepest &&
        !watch_.IsCancelled()) {
      const CoarseGraph coarse = Coarsen(graph, block, MostOf(graph), random_);
      if (coarse.num_nodes() < graph.num_nodes() - graph.num_nodes() / 20) {
        std::vector<uint32_t> coarse_part(coarse.num_nodes());
        std::vector<uint64_t> coarse_block(coarse.num_nodes());
        for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
          coarse_part[coarse.coarse_of[node]] = part[node];
          coarse_block[coarse.coarse_of[node]] = block[node];
        }
        block = {};
        Level(coarse.view(), coarse_part, std::move(coarse_block), depth + 1, fresh);
        fresh = false;
        for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
          part[node] = coarse_part[coarse.coarse_of[node]];
        }
      }
    }
    if (fresh) {
      part = FirstParts(graph);
    } else {
      Refine(graph, part);
    }
  }

  // The best of several partitions of a small graph, each begun by a stream in random order.
  std::vector<uint32_t> FirstParts(const WeightedGraph& graph) {
    constexpr int kTries = 5;
    std::vector<uint32_t> best;
    uint64_t best_cut = 0;
    double best_excess = 0;
    for (int t = 0; t < kTries; ++t) {
      std::vector<uint32_t> part = Stream(graph);
      RepairBalance(graph, limits_, absl::MakeSpan(part));
      Refine(graph, part);
      const double excess = std::max(PartLoads(&graph, &limits_, part).Excess(), 1.0);
      const uint64_t cut = CutOf(graph, part);
      if (best.empty() || excess < best_excess || (excess == best_excess && cut < best_cut)) {
        best = std::move(part);
        best_cut = cut;
        best_excess = excess;
      }
    }
    return best;
  }

  std::vector<uint32_t> Stream(const WeightedGraph& graph) {
    constexpr int kPasses = 4;
    std::vector<uint32_t> part(graph.num_nodes(), kUndecided);
    std::vector<double> load(size_t{limits_.num_parts} * graph.num_constraints);
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const uint32_t node : RandomOrder(graph.num_nodes(), random_)) {
        if (part[node] != kUndecided)
          AddLoad(graph, node, -1, &load[part[node] * graph.num_constraints]);
        part[node] = StreamTo(graph, part, load, node);
        AddLoad(graph, node, 1, &load[part[node] * graph.num_constraints]);
      }
    }
    return part;
  }

  static void AddLoad(const WeightedGraph& graph, uint32_t node, int sign, double* load) {
    for (size_t c = 0; c < graph.num_constraints; ++c) load[c] += sign * graph.node_weight(node, c);
  }

  // The part with most edges to the node, weighed by the room that is left there.
  uint32_t StreamTo(const WeightedGraph& graph, const std::vector<uint32_t>& part,
                    const std::vector<double>& load, uint32_t node) const {
    std::vector<double> connection(limits_.num_parts);
    for (uint64_t at = graph.offsets[node]; at < graph.offsets[node + 1]; ++at) {
      const uint32_t p = part[graph.neighbours[at]];
      if (p != kUndecided) connection[p] += graph.edge_weight(at);
    }
    uint32_t best = 0;
    double best_score = -std::numeric_limits<double>::infinity();
    for (uint32_t p = 0; p < limits_.num_parts; ++p) {
      double used = 0;
      for (size_t c = 0; c < graph.num_constraints; ++c) {
        used = std::max(used, (load[p * graph.num_constraints + c] + graph.node_weight(node, c)) /
                                  static_cast<double>(limits_.limit[c]));
      }
      const double score = used > 1 ? -used : connection[p] * (1 - used) - 1e-9 * used;
      if (score > best_score) {
        best = p;
        best_score = score;
      }
    }
    return best;
  }

  // The weight of clusters: at most four times the mean of nodes, so that a graph shrinks slowly,
  // and at most a part of a part.
  std::vector<uint64_t> MostOf(const WeightedGraph& graph) const {
    constexpr uint64_t kGrowth = 4;
    constexpr uint64_t kShareOfPart = 16;
    std::vector<uint64_t> most;
    for (size_t c = 0; c < graph.num_constraints; ++c) {
      uint64_t total = 0;
      for (uint32_t node = 0; node < graph.num_nodes(); ++node) total += graph.node_weight(node, c);
      most.push_back(std::max<uint64_t>(
          std::min(total / graph.num_nodes() * kGrowth + kGrowth, limits_.limit[c] / kShareOfPart),
          2));
    }
    return most;
  }

  // Never a higher cut, and no limit broken that was kept.
  void Refine(const WeightedGraph& graph, std::vector<uint32_t>& part) {
    constexpr int kPasses = 4;
    constexpr int kRoundsOverLimits = 2;
    Pass(graph, part, kPasses);
    for (int round = 0; round < kRoundsOverLimits && !watch_.IsCancelled(); ++round) {
      std::vector<uint32_t> trial = part;
      KWayRefiner(&graph, &limits_, absl::MakeSpan(trial), most_table_, &random_)
          .PassOverLimits(watch_);
      const bool kept = RepairBalance(graph, limits_, absl::MakeSpan(trial));
      if (!kept && PartLoads(&graph, &limits_, part).Excess() <= 1) break;
      Pass(graph, trial, kPasses / 2);
      if (CutOf(graph, trial) >= CutOf(graph, part)) break;
      part = std::move(trial);
    }
  }

  // Passes within the limits, as long as they are worth it.
  void Pass(const WeightedGraph& graph, std::vector<uint32_t>& part, int passes) {
    KWayRefiner refiner(&graph, &limits_, absl::MakeSpan(part), most_table_, &random_);
    const uint64_t little = CutOf(graph, part) / 1000;
    for (int pass = 0; pass < passes && !watch_.IsCancelled(); ++pass) {
      if (refiner.Pass(watch_) <= little) break;
    }
  }

  const WeightedGraph& graph_;
  const PartLimits& limits_;
  const uint64_t most_table_;
  SeededRandom random_;
  const PartitionWatch& watch_;
};

}  // namespace

std::vector<uint32_t> JoinParts(const WeightedGraph& graph, const PartLimits& limits,
                                std::vector<std::vector<uint32_t>> found, uint64_t seed,
                                const PartitionWatch& watch) {
  struct Member {
    bool kept;
    uint64_t cut;
    std::vector<uint32_t> part;
  };
  std::vector<Member> members;
  PartsJoin join(graph, limits, seed, watch);
  found.push_back(join.Fresh());
  for (std::vector<uint32_t>& part : found) {
    const PartLoads loads(&graph, &limits, part);
    members.push_back(
        {loads.Excess() <= 1 && loads.num_empty() == 0, CutOf(graph, part), std::move(part)});
  }
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.kept != b.kept ? a.kept : a.cut < b.cut;
  });
  std::vector<uint32_t> best = std::move(members.front().part);
  constexpr int kCyclesAlone = 2;
  const size_t cycles = kCyclesAlone + members.size() - 1;
  size_t done = 0;
  const auto tell = [&] {
    watch.Tell(PartitionPhase::kRefining,
               static_cast<double>(done++) / static_cast<double>(cycles));
  };
  for (size_t m = 1; m < members.size(); ++m) {
    tell();
    join.Cycle(best, members[m].part);
  }
  for (int cycle = 0; cycle < kCyclesAlone; ++cycle) {
    tell();
    const std::vector<uint32_t> alone = best;
    join.Cycle(best, alone);
  }
  watch.Tell(PartitionPhase::kRefining, 1);
  return best;
}

}  // namespace packhouse
